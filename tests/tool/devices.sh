# The option --device. Sourced by tool_test.sh.

# Runs the tool as on a machine without CUDA, even on one with it.
expect_without_cuda() { EXTENSOR_CUDA_LIBRARY=nowhere/libextensor_cuda.so expect "$@"; }

test_devices() {
  expect 0 'cpu' devices
  small_run run --device cpu
  grep -qF '"device": "cpu"' run/config.json || fail 'the device is not in config.json'
  grep -qF '<dt>device</dt>' run/report.html || fail 'the device is not in the report'
  expect 0 'accuracy' eval run --device cpu
  black_picture black.pgm
  expect 0 'black.pgm' predict run black.pgm --device cpu
  expect 1 'not a text' generate run --device cpu
  expect 0 'steps are done' train --resume run --device cpu
}

test_unknown_devices() {
  small_run run
  local device
  for device in gpu cuda: cuda:x cuda:-1 cuda:1x cuda:99999 CUDA test:0 ''; do
    expect 1 "--device is '$device'" train digits "${small[@]}" --out other --device "$device"
    grep -qF '(allowed: cpu, cuda or cuda:N)' out || fail "does not say which devices are allowed"
    expect 2 "is '$device'" eval run --device "$device"
  done
  expect 1 "did you mean 'cuda'" train digits "${small[@]}" --out other --device cudda
  expect 2 "did you mean 'cuda'" predict run black.pgm --device cudda
  expect 2 "did you mean 'cpu'" generate run --device cpuu
  absent other
  sed -i 's/"device": "cpu"/"device": "gpu"/' run/config.json
  expect 1 "--device is 'gpu'" eval run
}

# A device that this machine does not have: an error before anything is written.
test_missing_device() {
  local message='--device: device cuda:0 is not available: '
  small_run run
  checksums run >before
  expect_without_cuda 0 'no CUDA device: nowhere/libextensor_cuda.so' devices
  expect_without_cuda 1 "$message" train digits "${small[@]}" --out other --device cuda
  grep -qF 'nowhere/libextensor_cuda.so' out || fail 'does not say what is missing'
  grep -qF '(allowed: cpu)' out || fail 'does not say which devices there are'
  absent other
  expect_without_cuda 1 "$message" train digits "${small[@]}" --out run --overwrite --device cuda
  expect_without_cuda 1 "$message" train --resume run --device cuda:0
  expect_without_cuda 1 'device cuda:3 is not available' eval run --device cuda:3
  expect_without_cuda 1 "$message" predict run black.pgm --device cuda
  expect_without_cuda 1 "$message" generate run --device cuda
  checksums run | diff before - || fail 'the run has changed'

  # A run that was trained on another machine's device.
  sed -i 's/"device": "cpu"/"device": "cuda:0"/' run/config.json
  expect_without_cuda 1 "$message" train --resume run
  expect_without_cuda 0 'steps are done' train --resume run --device cpu
  expect_without_cuda 0 'warning: the run was trained on cuda:0, this is computed on the cpu' eval run
  grep -qF 'accuracy' out || fail 'no result'
  expect_without_cuda 0 'accuracy' eval run --device cpu
  grep -qF 'warning' out && fail 'warns of a device that was asked for'

  # The message gives the reason that `devices` gives.
  "$tool" devices >listed
  local reason
  reason=$(sed -n 's/^no CUDA device: //p' listed)
  [[ -z $reason ]] || expect 1 "$message$reason" train digits --out other --device cuda
  absent other
}

# With a CUDA device: runs move between it and the CPU.
test_cuda_device() {
  "$tool" devices | grep -q '^cuda:0 ' || {
    skip 'no CUDA device'
    return
  }
  local text=(--steps 20 --block 16 --layers 1 --heads 2 --width 32 --batch-size 4 --warmup 2)
  small_run run --device cuda --precision bfloat16 --checkpoint-every 4
  grep -qF '"device": "cuda"' run/config.json || fail 'the device is not in config.json'
  expect 0 'accuracy' eval run
  expect 0 'accuracy' eval run --device cpu
  black_picture black.pgm
  expect 0 'black.pgm' predict run black.pgm
  expect 0 'steps are done' train --resume run --device cpu
  rm "$(find run/checkpoints -type f | sort -V | tail -n 1)"
  expect 0 'going on at step' train --resume run --device cpu
  small_run halves --device cuda --precision float16
  small_run near --checkpoint-every 4
  rm "$(find near/checkpoints -type f | sort -V | tail -n 1)"
  expect 0 'going on at step' train --resume near --device cuda
  seq 2000 >numbers.txt
  expect 0 'perplexity' train text --data numbers.txt "${text[@]}" --out words --device cuda:0
  expect 0 '1' generate words --prompt 1 --tokens 20
  expect 0 '1' generate words --prompt 1 --tokens 20 --device cpu
  expect 0 '1' predict words 1 --device cuda
  expect 1 'is not available (allowed: cpu, cuda:0' eval run --device cuda:99
}
