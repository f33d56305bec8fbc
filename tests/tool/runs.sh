# Runs that must not be lost: failed starts, two processes, signals, changed data, damaged files.
# Sourced by tool_test.sh.

# Longer than any test: every user ends it.
long_run=(--examples 4096 --epochs 5000 --batch-size 32 --workers 1 --evaluate-every 1000000)
steps_done() { [[ $(grep -c '"type":"step"' "$1/log.jsonl" 2>/dev/null) -gt 0 ]]; }
checksums() { (cd "$1" && find . -type f | sort | xargs sha256sum); }

# A failed start leaves the old run unchanged, and creates no directory.
test_failed_start() {
  small_run run
  checksums run >before
  expect 1 'which text' train text --out run --overwrite
  expect 1 'allowed: 0 or more, below 1' train digits --momentum 2 --out run --overwrite
  expect 1 'mnist-that-is-not' train mnist --data mnist-that-is-not --out run --overwrite
  # No file can be written: both fail after they claim the directory and before the first step.
  (
    trap '' XFSZ
    ulimit -f 0
    "$tool" train digits "${small[@]}" --seed 7 --out run --overwrite 2>&1
    echo "code $?"
    "$tool" train digits "${small[@]}" --seed 7 --out fresh/run 2>&1
  ) | cat >out
  [[ $(grep -c 'File too large' out) == 2 ]] || fail 'it could be written'
  grep -q 'code 1' out || fail 'it did not fail'
  absent fresh
  checksums run | cmp -s before - || fail 'a failed start changed the old run'
  expect 1 'mnist-that-is-not' train mnist --data mnist-that-is-not --out new/deep/run
  absent new
  mkdir kept && echo mine >kept/file
  expect 1 'mnist-that-is-not' train mnist --data mnist-that-is-not --out kept
  [[ $(ls -A kept) == file ]] || fail 'a failed start left something behind'
  echo mine >kept/model.safetensors
  expect 1 "has 'model.safetensors', which a run would replace" train digits "${small[@]}" --out kept
  grep -qx mine kept/model.safetensors || fail "somebody's file is gone"
  # Killed between setting the old run aside and the first step, at each possible moment.
  mkdir run/.previous-run && mv run/* run/.previous-run/
  echo '{}' >run/config.json && echo torn >run/log.jsonl
  expect 0 'steps are done' train --resume run
  absent run/.previous-run
  grep -q torn run/log.jsonl && fail 'the log of the run that never began is there'
  mkdir run/.moving-run && mv run/log.jsonl run/checkpoints run/config.json run/.moving-run/
  expect 0 'steps are done' train --resume run
  absent run/.moving-run
  mkdir run/.discarded-run && echo old >run/.discarded-run/config.json
  expect 0 'steps are done' train --resume run
  absent run/.discarded-run
}

# A new run replaces the old one when its first step is complete, with all its files.
test_overwritten() {
  small_run run
  mv run/report.html run/notes.txt # a file of somebody else
  small_run run --overwrite --seed 3
  grep -q '"seed": 3' run/config.json || fail 'not the new run'
  exists run/notes.txt
  absent run/.moving-run
  absent run/.previous-run
  absent run/.discarded-run
  absent run/lock
  [[ $(compgen -G 'run/events.out.tfevents.*' | wc -l) == 1 ]] || fail 'events of the old run are there'
}

# One process at a time uses a run's directory; kill -9 frees it.
test_locked() {
  local run
  in_background train digits "${long_run[@]}" --out run
  run=$!
  wait_until 60 steps_done run || fail 'the run does not begin'
  cp out first
  expect 1 "process $run" train --resume run
  grep -qF "'run'" out || fail 'does not name the directory'
  expect 1 'has a run already' train digits "${small[@]}" --out run
  expect 1 "is in use by process $run" train digits "${small[@]}" --out run --overwrite
  kill -0 $run || fail 'the run has ended'
  kill -9 $run
  wait $run 2>/dev/null
  in_background train --resume run
  run=$!
  wait_until 60 grep -q 'going on\|begins anew' out || fail 'a killed run is still locked'
  sleep 0.5
  kill -TERM $run
  wait $run
}

# Two starts with one --out: one of them is rejected, and the log of the other is intact.
test_two_starts() {
  local first second one=0 two=0
  in_background train digits "${small[@]}" --out run
  first=$!
  env "$tool" train digits "${small[@]}" --out run >out2 2>&1 &
  second=$!
  wait $first || one=$?
  wait $second || two=$?
  [[ $((one + two)) == 1 ]] || fail "two starts with one directory: codes $one and $two"
  python3 -c 'import json; [json.loads(line) for line in open("run/log.jsonl")]' || fail 'a torn log'
  expect 0 'steps are done' train --resume run
}

# A damaged line of the log is skipped with a warning, wherever it is.
test_damaged_log() {
  small_run run
  local whole
  whole=$(wc -l <run/log.jsonl)
  sed -i '3s/.*/{"type":"step","st/; 5s/.*/\x00\x00\x00/; 7s/.*/{"type":7,"step":[]}/' run/log.jsonl
  head -c -20 run/log.jsonl >torn && cp torn run/log.jsonl
  expect 0 'line 3 is skipped' train --resume run
  grep -q 'line 5 is skipped' out || fail 'line 5'
  grep -q 'line 7 is skipped' out || fail 'line 7'
  exists run/report.html
  grep -q '<svg' run/report.html || fail 'no curves'
  # Truncated in the middle of a line: appended output starts on a new line.
  small_run part --checkpoint-every 8
  rm "$(find part/checkpoints -type f | sort -V | tail -n 1)" part/model.safetensors
  head -c 700 part/log.jsonl >torn && cp torn part/log.jsonl
  expect 0 'going on at step' train --resume part
  tail -n 3 part/log.jsonl | python3 -c 'import json, sys; [json.loads(line) for line in sys.stdin]' ||
    fail 'a new line is torn'
  grep -c '"type":"begin"' part/log.jsonl | grep -qx 2 || fail 'no line where it went on'
  rm run/log.jsonl
  expect 0 'steps are done' train --resume run
  ((whole > 10)) || fail 'a short log'
}

# SIGHUP and SIGTERM end a run as Ctrl-C does; signals that were ignored at the start stay ignored.
test_signals() {
  local run status signal
  for signal in HUP:129 TERM:143; do
    in_background train digits "${long_run[@]}" --out "run-$signal"
    run=$!
    wait_until 60 steps_done "run-$signal" || fail 'the run does not begin'
    kill "-${signal%:*}" $run
    status=0
    wait $run || status=$?
    [[ $status == "${signal#*:}" ]] || fail "SIG${signal%:*}: code $status"
    compgen -G "run-$signal/checkpoints/*" >/dev/null || fail "SIG${signal%:*}: no checkpoint"
    grep -qF "train --resume run-$signal" out || fail 'does not say how to go on'
  done
  (
    trap '' INT HUP
    exec "$tool" train digits "${long_run[@]}" --out ignored
  ) >out 2>&1 &
  run=$!
  wait_until 60 steps_done ignored || fail 'the run does not begin'
  kill -INT $run
  kill -HUP $run
  sleep 1
  kill -0 $run 2>/dev/null || fail 'an ignored signal ended the run'
  grep -q 'ending' out && fail 'an ignored signal was noticed'
  kill -TERM $run
  wait $run
  # A closed output pipe does not end the run either.
  { env --default-signal=PIPE "$tool" train digits "${small[@]}" --epochs 3 --out piped 2>&1 >/dev/null; echo $? >code; } |
    head -c 1 >/dev/null
  [[ $(cat code) != 141 ]] || compgen -G 'piped/checkpoints/*' >/dev/null || absent piped
}

# Resuming on other data is rejected, with the difference.
test_changed_data() {
  local k
  mkdir -p own/dark own/light
  for k in $(seq 12); do
    { printf 'P5\n16 16\n255\n' && head -c $((256 + k)) "$tool" | tail -c 256; } >own/dark/$k.pgm
    { printf 'P5\n16 16\n255\n' && head -c 256 /dev/zero | tr '\0' '\377'; } >own/light/$k.pgm
  done
  expect 0 'validation images' train images --data own --epochs 2 --batch-size 4 --checkpoint-every 2 --out run
  exists run/data.json
  rm "$(find run/checkpoints -type f | sort -V | tail -n 1)"
  cp -r run again
  # One pixel of one image.
  cp own/dark/3.pgm kept.pgm
  printf '\1' | dd of=own/dark/3.pgm bs=1 seek=100 conv=notrunc status=none
  expect 1 'training images: other contents' train --resume run
  expect 0 'the data has changed' eval run
  cp kept.pgm own/dark/3.pgm
  expect 0 'validation images' train --resume run
  rm own/dark/3.pgm
  expect 1 'training images: uint8 [22, 1, 16, 16] when the run began, uint8 [21, 1, 16, 16] now' train --resume again
  expect 0 'warning: the data has changed' train --resume again --allow-changed-data
  expect 0 'steps are done' train --resume again
  expect 1 'without --resume' train digits --allow-changed-data
  for k in $(seq 60); do echo 'the quick brown fox jumps over the lazy dog'; done >story.txt
  expect 0 'perplexity' train text --data story.txt --steps 4 --checkpoint-every 2 --block 16 --layers 1 --heads 2 \
    --width 32 --batch-size 4 --out words
  sed -i '5s/fox/FOX/' story.txt
  expect 1 'text: other contents' train --resume words
  rm words/data.json
  echo 'the quick brown fox jumps over the lazy dog' >story.txt
  for k in $(seq 60); do echo 'the quick brown fox jumps over the lazy dog'; done >story.txt
  expect 0 'has no data.json' train --resume words
}

# Weights that were changed on the disk are rejected by every command that reads them.
test_damaged_weights() {
  small_run run
  local size
  size=$(stat -c %s run/best.safetensors)
  printf '\125' | dd of=run/best.safetensors bs=1 seek=$((size - 9)) conv=notrunc status=none
  expect 1 'is damaged: its checksum is' eval run
  expect 1 'is damaged: its checksum is' inspect run/best.safetensors
  expect 1 'is damaged: its checksum is' compare run/best.safetensors run/best.safetensors
  # The run itself can still be finished.
  expect 0 'the best ones are damaged' train --resume run
  if python3 -c 'import safetensors' 2>/dev/null; then
    python3 -c 'import safetensors.numpy as s; s.load_file("run/model.safetensors")' || fail 'others cannot read it'
  fi
}

# A run as an ONNX file.
test_export() {
  small_run run
  expect 0 'input: float32 [batch, 1, ' export run --out net.onnx
  [[ -s net.onnx ]] || fail 'no file was written'
  expect 1 'opset is 3' export run --out old.onnx --opset 3
  [[ ! -e old.onnx ]] || fail 'a file was written'
}
