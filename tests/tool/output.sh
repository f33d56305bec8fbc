# Output of the tool: control characters in input, outputs that cannot be written, printed commands,
# progress.
# Sourced by tool_test.sh.

escapes() { LC_ALL=C grep -q $'[\x01-\x08\x0b-\x1f\x7f]\|\xc2[\x80-\x9f]' "$1"; }

# Control characters in names of classes, files and tensors are printed as text.
test_escapes() {
  local red k
  red=$(printf 'a\033[31m\007\302\233b\nc')
  mkdir -p "own/$red" own/light
  for k in 1 2 3; do black_picture "own/$red/$k.pgm" && black_picture own/light/$k.pgm; done
  expect 0 'a\x1b[31m\x07\u009bb\x0ac' train images --data own --epochs 1 --batch-size 2 --out run
  escapes out && fail 'train prints an escape'
  for words in 'eval run' 'predict run own' 'inspect run' 'train --resume run' 'predict run /nowhere/'$'\033''[2J.png' \
    'inspect '$'\033''[2J.npy' 'train '$'\033''[2J' $'\033''[2J' '--'$'\033''[2J' 'train --resume '$'\033''[2J' \
    'train mnist --data '$'\033''[2J' 'train text --data '$'\033''[2J'; do
    # shellcheck disable=SC2086
    timeout 60 "$tool" $words >out 2>&1
    escapes out && fail "'$words' prints an escape"
  done
  expect 0 'a\x1b[31m' eval run
  "$tool" eval run --json >out 2>/dev/null
  escapes out && fail 'eval --json prints an escape'
  python3 -c 'import json, sys; assert json.load(open("out"))["classes"][0] == "a\x1b[31m\x07\x9bb\nc"' || fail 'JSON differs'
  python3 - <<'SAFETENSORS'
import json, struct
header = json.dumps({"__metadata__": {"k\x1b[31m": "v\x9b\n"}, "t\x1b[2J": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}}).encode()
open("odd.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + b"\1\2")
SAFETENSORS
  expect 0 't\x1b[2J' inspect odd.safetensors
  escapes out && fail 'inspect prints an escape'
  expect 2 'there is no tensor' inspect odd.safetensors $'\033[1m'
  escapes out && fail 'inspect prints an escape'
  cp odd.safetensors other.safetensors && printf '\3' | dd of=other.safetensors bs=1 seek=$(($(stat -c %s odd.safetensors) - 1)) conv=notrunc status=none
  expect 1 't\x1b[2J' compare odd.safetensors other.safetensors
  escapes out && fail 'compare prints an escape'
}

# Every command exits with a nonzero code if standard output cannot be written.
test_unwritable_output() {
  small_run run
  black_picture black.pgm
  local words status
  for words in --help --version 'train --help' ops 'ops --json' 'ops --markdown' devices 'accuracy relu' 'accuracy relu --json' \
    'gradcheck relu' 'gradcheck relu --json' 'eval run' 'eval run --json' 'predict run black.pgm' 'inspect run' \
    'compare run/model.safetensors run/model.safetensors' 'train --resume run' ''; do
    status=0
    # shellcheck disable=SC2086
    "$tool" $words >/dev/full 2>out || status=$?
    ((status != 0)) || fail "extensor $words >/dev/full: code 0"
    grep -q 'standard output cannot be written: No space left on device' out || fail "extensor $words >/dev/full: not said"
    status=0
    # shellcheck disable=SC2086
    "$tool" $words >&- 2>out || status=$?
    ((status != 0)) || fail "extensor $words >&-: code 0"
  done
}

# Files never reuse the numbers of closed standard descriptors.
test_closed_descriptors() {
  local status=0
  "$tool" train digits "${small[@]}" --out run <&- >&- 2>&- || status=$?
  [[ $status == 1 ]] || fail "code $status where nothing can be printed"
  python3 -c 'import json; [json.loads(line) for line in open("run/log.jsonl")]' || fail 'text in the log'
  expect 0 'steps are done' train --resume run
  "$tool" train digits "${small[@]}" --out quiet 2>&- >out || fail 'stderr closed'
  python3 -c 'import json; [json.loads(line) for line in open("quiet/log.jsonl")]' || fail 'text in the log'
  expect 0 '0 do not' compare run/model.safetensors quiet/model.safetensors
}

# Commands that the tool prints can be run unchanged.
test_commands_to_paste() {
  black_picture IMAGE.png
  mkdir 'a tool' "it's"
  ln -s "$tool" 'a tool/ex tensor'
  local name=$tool
  tool='./a tool/ex tensor'
  small_run "it's/a run"
  cp out first
  bash -c "$(sed -n 's/^Next: *//p' first)" >out 2>&1 || fail 'the next command does not run'
  grep -qF 'IMAGE.png' out || fail 'the next command predicts nothing'
  expect 1 "'./a tool/ex tensor' train --resume 'it'\\''s/a run'" train digits "${small[@]}" --out "it's/a run"
  expect 2 "'./a tool/ex tensor' train --help" train --nothing
  expect 0 "  './a tool/ex tensor' train digits" train --help
  tool=$name
  local odd
  odd=$(printf 'odd-\377\033')
  small_run "$odd"
  bash -c "$(sed -n 's/^Next: *//p' out)" >out2 2>&1 || fail 'the next command does not run on an odd path'
  PATH=$(dirname "$tool"):$PATH bash -c "$(basename "$tool") predict nowhere x" >out 2>&1
  PATH=$(dirname "$tool"):$PATH bash -c "$(basename "$tool") train --nothing" >out 2>&1
  grep -qF "'extensor train --help'" out || fail 'on the path the tool is called by its name'
}

# Long operations show their progress and print results as they are ready.
test_progress() {
  local run
  "$tool" accuracy relu exp --exhaustive >lines 2>out &
  run=$!
  wait_until 60 grep -q '^function' lines || fail 'nothing is printed until the end'
  wait_until 120 grep -q '%  exp' out || fail 'no progress'
  kill $run
  wait $run 2>/dev/null
  "$tool" accuracy exp relu sin tanh gelu >lines 2>out &
  run=$!
  wait_until 120 grep -q '^exp' lines || fail 'the first function is not printed'
  kill -0 $run || fail 'it is printed at the end only'
  kill $run
  wait $run 2>/dev/null
  "$tool" accuracy relu exp --json >out
  python3 -c 'import json; assert [row["function"] for row in json.load(open("out"))] == ["exp", "relu"]' || fail 'no JSON'
}

# Memory and time of inspect grow at most linearly with the file.
test_inspect_large() {
  python3 - <<'SAFETENSORS'
import json, struct
def write(name, tensors, data):
    header = json.dumps(tensors).encode()
    with open(name, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.write(data)
size = 200_000_000
write("large.safetensors", {"x": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}, bytes(range(250)) * (size // 250))
count = 300_000
write("many.safetensors", {f"layer.{k}.weight": {"dtype": "F32", "shape": [2], "data_offsets": [8 * k, 8 * k + 8]} for k in range(count)},
      struct.pack("<2f", 1, 2) * count)
SAFETENSORS
  expect 0 '124  ' inspect large.safetensors
  grep -q '200,000,000 elements' out || fail 'not all elements'
  if [[ -x /usr/bin/time ]]; then
    /usr/bin/time -f '%M' -o kilobytes "$tool" inspect large.safetensors >out 2>&1
    (($(tail -n 1 kilobytes) < 500000)) || fail "inspect takes $(tail -n 1 kilobytes) kB"
  fi
  # Optimized builds need at most 2 s; comparing each name with each other takes minutes.
  if [[ -x /usr/bin/time ]]; then
    /usr/bin/time -f '%U' -o seconds "$tool" inspect many.safetensors >many 2>&1
    tail -n 1 many >out
    grep -q '300,000 tensors' out || fail 'not all tensors'
    echo "inspect of 300,000 tensors: $(tail -n 1 seconds) s of a processor"
    (($(tail -n 1 seconds | cut -d. -f1) < 20)) || fail "inspect of 300,000 tensors takes $(tail -n 1 seconds) s"
  fi
  expect 0 'layer.299999.weight' inspect many.safetensors layer.299999.weight
}

# The manual page and the completions name every command and option.
test_pages() {
  "$tool" pages pages >out 2>&1 || fail 'the pages cannot be written'
  local file
  for file in extensor.1 extensor.bash _extensor extensor.fish; do
    exists pages/$file
    grep -q 'batch.\?-size' pages/$file || fail "$file does not know --batch-size"
    grep -q 'gradcheck' pages/$file || fail "$file does not know gradcheck"
    grep -qF -- "$work" pages/$file && fail "$file has the path of this machine"
  done
  "$tool" --help | grep -qE '^ +pages' && fail 'pages is in the help'
  if command -v man >/dev/null; then
    MANWIDTH=100 man --warnings -l pages/extensor.1 >out 2>warnings || fail 'man cannot read the page'
    [[ ! -s warnings ]] || fail "man warns: $(head -n 3 warnings)"
    grep -q 'batch-size' out || fail 'no option in the manual page'
  fi
  # complete WORDS...: what bash offers for the last word.
  complete_words() {
    bash -c 'compopt() { :; }; source pages/extensor.bash; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _extensor
             printf "%s\n" "${COMPREPLY[@]}"' _ "$@" >out
  }
  complete_words extensor tr && [[ $(cat out) == train ]] || fail 'tr is not completed to train'
  complete_words extensor train --batch && [[ $(cat out) == --batch-size ]] || fail '--batch is not completed'
  complete_words extensor train fash && [[ $(cat out) == fashion-mnist ]] || fail 'no datasets'
  complete_words extensor train --out '' && [[ -z $(cat out) ]] || fail 'words where a path is wanted'
  complete_words extensor gradcheck softm && grep -qx softmax out || fail 'no ops'
  if command -v zsh >/dev/null; then zsh -n pages/_extensor || fail 'zsh cannot read its completion'; fi
  if command -v fish >/dev/null; then fish -n pages/extensor.fish || fail 'fish cannot read its completion'; fi
}

# EXTENSOR_LOG and EXTENSOR_BACKTRACE.
test_diagnostics() {
  EXTENSOR_LOG=ops:log.txt expect 0 'softmax' gradcheck softmax
  grep -qE '^softmax\(axis=-?[0-9]+\) float64 \[[0-9, ]*\] -> float64 \[[0-9, ]*\] [0-9.]+ us$' log.txt || fail 'no softmax in the log'
  EXTENSOR_LOG=ops expect 0 'exp() float' accuracy exp
  EXTENSOR_LOG=everything expect 0 "EXTENSOR_LOG is 'everything' (allowed: ops, ops:FILE)" devices
  EXTENSOR_LOG=ops:none/log.txt expect 0 "'none/log.txt' cannot be written: No such file" devices
  EXTENSOR_BACKTRACE=1 expect 1 'Stack trace' inspect none.npy
  EXTENSOR_BACKTRACE=0 expect 1 'none.npy' inspect none.npy
  grep -q 'Stack trace' out && fail 'a stack trace that nobody asked for'
}
