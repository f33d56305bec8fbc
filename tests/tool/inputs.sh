# Options and files that must be rejected: numbers out of range, malformed configs, paths that are
# not files.
# Sourced by tool_test.sh.

test_numbers() {
  local flag value
  for flag in epochs lr batch-size accumulate momentum seed augment; do
    expect 1 "--$flag is ''" train digits --$flag ''
  done
  for flag in model precision; do expect 1 "which --$flag?" train digits --$flag ''; done
  expect 1 "--data is ''" train mnist --data ''
  for flag in out config resume; do expect 2 "--$flag" train digits --$flag ''; done
  for value in nan inf -inf -1 1e999 0x10 '1 ' ' 1' 1,5; do
    for flag in lr weight-decay momentum beta2 clip-norm dropout; do
      expect 1 "--$flag is '$value'" train digits --$flag="$value"
    done
  done
  for value in 1 2 1.0000001; do
    for flag in momentum beta2 dropout; do
      expect 1 'allowed: 0 or more, below 1' train digits --$flag $value
    done
  done
  for flag in examples epochs steps batch-size accumulate warmup vocabulary block layers heads width \
    evaluate-every checkpoint-every keep-checkpoints patience workers threads side max-pixels; do
    expect 1 "--$flag is '9223372036854775807' (allowed: at most" train digits --$flag 9223372036854775807
    expect 1 "--$flag is '1.5'" train digits --$flag 1.5
  done
  # A step of more batches than an epoch has uses all of them.
  expect 0 'after' train digits "${small[@]}" --accumulate 1000000000 --out run
  grep -q '"type":"step","step":1,' run/log.jsonl || fail 'not one step'
  grep -q '"type":"step","step":2,' run/log.jsonl && fail 'more than one step'
  local odd
  odd=$(printf 'odd-\377')
  mkdir "$odd"
  expect 1 'allowed: UTF-8' train images --data "$odd"
  # refused TEXT WORDS...: each value is rejected with the text when passed to the option that is
  # the last word.
  refused() {
    local value text=$1 option=${*: -1}
    for value in nan inf -1 x 1e999; do
      expect 2 "$text" "${@:2:$#-2}" "$option=$value"
    done
    expect 2 "$text" "${@:2:$#-2}" "$option" ''
    expect 2 'required' "${@:2:$#-2}" "$option="
  }
  refused 'allowed: a number, 0 to 100' generate run --temperature
  refused 'allowed: a whole number, 0 to 2^30' generate run --tokens
  refused 'allowed: a whole number, 0 to 2^30' generate run --top-k
  refused 'allowed: a number, 0 to 1' generate run --top-p
  refused 'allowed: a whole number below 2^64' generate run --seed
  refused 'allowed: a whole number, 1 to 1000' predict run x.png --top
  refused 'allowed: a whole number, 1 to 2^40' predict run x.png --max-pixels
  refused 'allowed: a number, 0 or more' compare a b --tolerance
}

test_configs() {
  local deep
  deep=$(python3 -c 'print("[" * 150000 + "]" * 150000)')
  printf '{"dataset": "digits", "epochs": %s}' "$deep" >deep.json
  expect 1 'nested more than' train --config deep.json
  python3 -c 'print("{\"a\":" * 150000 + "1" + "}" * 150000)' >deep.json
  expect 1 'nested more than' train --config deep.json
  printf '{"dataset": "digits", "epochs": 3, "epochs": 4}' >twice.json
  expect 1 "has the key 'epochs' twice" train --config twice.json
  printf '{"dataset": "digits", "epochs": null}' >null.json
  expect 1 'is null (allowed' train --config null.json
  printf '{"dataset": "digits", "epochs": "\\u001b[31m"}' >escape.json
  expect 1 "'\\x1b[31m'" train --config escape.json
  head -c 20000000 /dev/zero >large.json
  expect 1 'allowed: at most 16777216' train --config large.json
  expect 1 'cannot be opened' train --config nowhere.json
  small_run run
  for file in config images data; do
    cp run/$file.json kept.json
    sed -i '3s/.*/&&/' run/$file.json
    expect 1 'twice' train --resume run
    cp kept.json run/$file.json
  done
}

# A path that is not a regular file is rejected without waiting for it.
test_no_regular_files() {
  small_run run
  local file
  mkfifo fifo && mkfifo fifo.safetensors fifo.npy fifo.npz fifo.png
  expect 1 'is a FIFO' train --config fifo
  expect 1 'is a device' train --config /dev/zero
  expect 1 'is a directory' train --config run
  expect 1 'is a FIFO' train text --data fifo
  for file in fifo.safetensors fifo.npy fifo.npz; do
    expect 1 'is a FIFO' inspect $file
    expect 1 'is a FIFO' compare $file run/model.safetensors
  done
  expect 1 'is a FIFO' predict run fifo.png
  for file in config.json images.json data.json log.jsonl lock; do
    mv run/$file kept 2>/dev/null
    mkfifo run/$file
    expect 1 'is a FIFO' train --resume run
    rm run/$file
    mv kept run/$file 2>/dev/null
  done
  expect 0 'steps are done' train --resume run
}

# An image with more pixels than the limit is rejected before memory is allocated for them.
test_many_pixels() {
  small_run run
  python3 - <<'PNG'
import struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
side = 20000
deflate = zlib.compressobj(9)
lines = b"".join(deflate.compress(b"\0" * (3 * side + 1)) for _ in range(side)) + deflate.flush()
header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
open("large.png", "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", lines) + chunk(b"IEND", b""))
PNG
  expect 1 'has 20000 × 20000 pixels (allowed: at most 67108864' predict run large.png
  if [[ -x /usr/bin/time ]]; then
    /usr/bin/time -f '%M' -o kilobytes "$tool" predict run large.png >out 2>&1
    (($(tail -n 1 kilobytes) < 300000)) || fail "$(tail -n 1 kilobytes) kB for a picture that is refused"
  fi
  black_picture black.pgm
  expect 1 'allowed: at most 783 pixels' predict run black.pgm --max-pixels 783
  expect 0 'black.pgm' predict run black.pgm --max-pixels 784
  mkdir -p own/a own/b
  cp black.pgm own/a/1.pgm && cp black.pgm own/a/2.pgm && cp black.pgm own/b/1.pgm && cp black.pgm own/b/2.pgm
  expect 1 'allowed: at most 100 pixels' train images --data own --max-pixels 100
}

# A class directory whose name is not UTF-8 is rejected at the start.
test_odd_classes() {
  local odd
  odd=$(printf 'caf\351')
  mkdir -p "own/$odd" own/light
  for k in 1 2 3; do black_picture "own/$odd/$k.pgm" && black_picture own/light/$k.pgm; done
  expect 1 "class directory 'caf\\xe9', whose name is not UTF-8" train images --data own --out run
  absent run
  mv "own/$odd" own/café
  expect 0 'café' train images --data own --epochs 1 --batch-size 2 --out run
  expect 0 'café' eval run
  expect 0 'steps are done' train --resume run
}
