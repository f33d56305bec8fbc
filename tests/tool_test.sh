#!/usr/bin/env bash
# The tool as a user runs it: train, inspect, evaluate, predict, stop, resume; and mistakes.
#   tests/tool_test.sh TOOL [PART...]
# Parts are the functions that begin with test_, here and in tests/tool/*.sh; default: all of them.
set -uo pipefail
tool=$(realpath "$1")
tests=$(dirname "$(realpath "$0")")
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0 skipped=0

fail() {
  echo "FAIL: $*" >&2
  sed 's/^/    /' out >&2
  failures=$((failures + 1))
}
# skip REASON: to be called by a part that cannot run here.
skip() {
  echo "SKIPPED tool_test $part: $*"
  skipped=$((skipped + 1))
}
# expect CODE "TEXT" WORDS...: the tool, run with the words, exits with the code and prints the
# text.
expect() {
  local code=$1 text=$2 status=0
  shift 2
  timeout 120 "$tool" "$@" >out 2>&1 || status=$?
  [[ $status == "$code" ]] || fail "extensor $*: code $status, not $code"
  grep -qF -- "$text" out || fail "extensor $*: does not say '$text'"
}
exists() { [[ -s $1 ]] || fail "$1 is not there"; }
absent() { [[ ! -e $1 ]] || fail "$1 is there"; }
# A shell without job control starts background jobs with SIGINT ignored; env undoes that. $! is the tool.
in_background() { env --default-signal=INT,HUP,TERM "$tool" "$@" >out 2>&1 & }
# wait_until SECONDS COMMAND...: waits until the command succeeds; fails after the timeout.
wait_until() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < end)) || return 1
    sleep 0.02
  done
}

small=(--examples 512 --epochs 1 --batch-size 32 --workers 1)
small_run() { expect 0 'validation images classified correctly' train digits "${small[@]}" --out "$@"; }
black_picture() { { printf 'P5\n28 28\n255\n' && head -c 784 /dev/zero; } >"$1"; }

test_pictures() {
  small_run run
  local file
  for file in config.json log.jsonl report.html model.safetensors best.safetensors; do
    exists run/$file
  done
  compgen -G 'run/events.out.tfevents.*' >/dev/null || fail 'no event file'
  grep -q '<svg' run/report.html || fail 'no curves in the report'
  grep -q 'data:image/png;base64' run/report.html || fail 'no images in the report'
  grep -q 'http' run/report.html && fail 'the report wants a network'
  grep -qE '<span>date: [0-9-]{10} [0-9:]{5} UTC</span><span>machine: ' run/report.html || fail 'no date or machine'
  grep -q 'train</span> <span>digits</span>' run/report.html || fail 'no command in the report'
  grep -q 'class="chance"' run/report.html || fail 'no probabilities in the report'
  grep -q '<dt>batch_size</dt>' run/report.html || fail 'no configuration in the report'
  grep -qE '<dt>(heads|vocabulary|block|side)</dt>' run/report.html && fail 'options of other models in the report'
  expect 0 'accuracy' eval run
  expect 0 '"confusion"' eval run --json
  black_picture black.pgm
  expect 0 'black.pgm' predict run black.pgm
  mkdir pictures && cp black.pgm pictures/a.pgm && cp black.pgm pictures/b.pgm
  expect 0 'b.pgm' predict run pictures --top 1 --invert
  expect 0 'conv1.weight' inspect run
  expect 0 '█' inspect run/model.safetensors conv1.weight
  expect 0 'bit for bit' compare run/model.safetensors run/model.safetensors
}

# Your own images, of several sizes: a directory for each class.
test_own_pictures() {
  local k height
  mkdir -p own/dark own/light
  for k in $(seq 20); do
    height=$((14 + k % 3))
    { printf 'P5\n16 %d\n255\n' $height && head -c $((16 * height)) /dev/zero; } >own/dark/$k.pgm
    { printf 'P5\n16 %d\n255\n' $height && head -c $((16 * height)) /dev/zero | tr '\0' '\377'; } >own/light/$k.pgm
  done
  expect 0 'validation images classified correctly' train images --data own --epochs 3 --batch-size 4 --out mine
  grep -q '"light"' mine/images.json || fail 'no classes'
  grep -qF '36 images to learn from, 4 for validation; 15 × 16, 2 classes: dark, light' out || fail 'not described'
  grep -aq 'validation/loss' mine/events.out.tfevents.* || fail 'no curve of the validation loss'
  expect 0 'dark' eval mine
  expect 0 'mine/best.safetensors on 4 validation examples' eval mine
  expect 0 'on 40 examples' eval mine --data own
  expect 0 '"classes"' eval mine --json
  expect 0 'light' predict mine own/light/1.pgm
  expect 0 'own/light/9.pgm' predict mine own
  expect 0 'validation images' train images --data own --side 12 --model mlp --epochs 1 --batch-size 4 --out small
  grep -q '"height": 12' small/images.json || fail 'not of the size'
  # Smaller than LeNet's minimum, so enlarged: the same after resuming.
  mkdir -p tiny/dark tiny/light
  for k in $(seq 40); do
    { printf 'P5\n10 10\n255\n' && head -c $((100 + k)) "$tool" | tail -c 100; } >tiny/dark/$k.pgm
    { printf 'P5\n10 10\n255\n' && head -c 100 /dev/zero | tr '\0' '\377'; } >tiny/light/$k.pgm
  done
  expect 0 'validation images' train images --data tiny --epochs 3 --batch-size 4 --out whole
  cp -r whole part
  rm "$(find part/checkpoints -type f | sort -V | tail -n 1)"
  expect 0 'going on at step' train --resume part
  expect 0 '0 do not' compare whole/model.safetensors part/model.safetensors
  # A run of an older version has other names for the same.
  cp -r whole old
  rm "$(find old/checkpoints -type f | sort -V | tail -n 1)"
  mv old/images.json old/pictures.json
  sed -i 's/"dataset": "images"/"dataset": "pictures"/' old/config.json
  sed -i 's/"validation /"held-out /' old/data.json
  grep -q pictures old/config.json && grep -q held-out old/data.json || fail 'nothing was renamed'
  expect 0 'going on at step' train --resume old
  expect 0 '0 do not' compare whole/model.safetensors old/model.safetensors
  expect 0 'accuracy' eval old
  expect 0 'validation images' train pictures --data tiny --epochs 1 --batch-size 4 --out older
  grep -q '"dataset": "images"' older/config.json || fail 'the old name is kept'
  mkdir own/gray && cp own/dark/1.pgm own/gray
  expect 1 'is none of the classes (dark, light)' eval mine
  expect 1 'a directory for each class' train images --data mine
  expect 1 'images of no class' train images --data own/dark
  rm -r own/gray own/dark
  expect 1 "has one class, 'light'" train images --data own
}

# Repeats the run from the files that it wrote.
test_repeated() {
  small_run run
  expect 0 'validation' train --config run/config.json --out again
  expect 0 '0 do not' compare run/model.safetensors again/model.safetensors
  small_run other --seed 5
  expect 1 'differs' compare run/model.safetensors other/model.safetensors
}

test_text() {
  local _
  for _ in $(seq 60); do
    echo 'the quick brown fox jumps over the lazy dog and runs away again'
  done >story.txt
  local transformer=(--steps 20 --block 16 --layers 1 --heads 2 --width 32 --batch-size 4 --warmup 2)
  expect 0 'perplexity' train text --data story.txt "${transformer[@]}" --out words
  exists words/tokenizer.json
  expect 0 'the' generate words --prompt the --tokens 20
  # The prompt fills the context of 16 tokens, or exceeds it.
  expect 0 'the quick brown ' generate words --prompt 'the quick brown ' --tokens 5
  expect 0 'the lazy dog and runs' generate words --prompt 'the lazy dog and runs' --tokens 5
  expect 0 '' generate words --tokens 3
  # Each of these leaves only the likeliest token.
  local likeliest one
  likeliest=$("$tool" generate words --prompt fox --tokens 30 --temperature 0)
  for one in --top-p=0 --top-k=1; do
    [ "$("$tool" generate words --prompt fox --tokens 30 "$one" --seed 9)" = "$likeliest" ] ||
      fail "$one is not the likeliest"
  done
  one=$("$tool" generate words --tokens 40 --seed 3)
  [ "$("$tool" generate words --tokens 40 --seed 3)" = "$one" ] || fail 'one seed, two texts'
  [ "$("$tool" generate words --tokens 40 --seed 4)" = "$one" ] && fail 'two seeds, one text'
  expect 0 'the' predict words the
  expect 0 'perplexity' eval words
  expect 0 'perplexity' train text --data story.txt --tokenizer byte-pairs --vocabulary 280 \
    "${transformer[@]}" --out pairs
  expect 0 'the' generate pairs --prompt the --tokens 20 --temperature 0
  expect 1 'no token' generate words --prompt 'Ω'
}

# Ctrl-C at any point of the computation, and resuming from there.
test_interrupted() {
  local long=(--examples 4096 --epochs 3 --batch-size 32 --accumulate 2) run status=0 _
  expect 0 'validation' train digits "${long[@]}" --out whole
  in_background train digits "${long[@]}" --out stopped
  run=$!
  for _ in $(seq 500); do
    [[ -e stopped/config.json ]] && break
    sleep 0.02
  done
  sleep 0.3
  kill -INT $run
  wait $run || status=$?
  if [[ $status == 130 ]]; then
    grep -qF "$tool train --resume stopped" out || fail 'does not say how to go on'
    expect 0 'accuracy' eval stopped
  else # it may have been done already
    [[ $status == 0 ]] || fail "Ctrl-C: code $status"
  fi
  expect 0 'validation' train --resume stopped --threads 1
  expect 0 '0 do not' compare whole/model.safetensors stopped/model.safetensors
  expect 0 'steps are done' train --resume stopped
  expect 0 '0 do not' compare whole/model.safetensors stopped/model.safetensors
}

# A mistyped word gets a suggestion.
test_unknown_words() {
  small_run run
  expect 2 "did you mean '--epochs'" train digits --epoch 3
  expect 2 "did you mean 'train'" trian digits
  expect 1 "did you mean 'digits'" train digit
  expect 1 "did you mean 'lenet'" train digits --model lenett
  expect 1 "did you mean 'resnet18'" train digits --model resnet
  expect 1 'does not read text' train text --data run/log.jsonl --model lenet
  expect 2 "extensor train --help'" train digits --nothing-like-it
  grep -q 'did you mean' out && fail 'suggests what is not alike'
  expect 2 "did you mean 'conv1.weight'" inspect run conv1.weigth
  printf '{"dataset": "digits", "epocs": 3}' >bad.json
  expect 1 "did you mean 'epochs'" train --config bad.json
}

# A directory that is not writable.
test_unwritable_directory() {
  echo x >file
  expect 1 'cannot be made' train digits --out file/run
  expect 1 'cannot be' train digits "${small[@]}" --out /proc/self/run
}

# A path that is not UTF-8.
test_odd_path() {
  local odd
  odd=$(printf 'odd-\377')
  small_run "$odd"
  exists "$odd/model.safetensors"
  expect 0 'accuracy' eval "$odd"
}

test_mistakes() {
  mkdir pictures
  black_picture black.pgm
  expect 1 "--lr is 'fast'" train digits --lr fast
  expect 1 'allowed: a whole number' train digits --batch-size -3
  expect 1 'which dataset' train
  expect 1 'at most 1024' train digits --threads 100000
  expect 1 'a smaller number' train digits --batch-size 99999999999999999999
  expect 1 "there is no directory 'nowhere'" train --resume nowhere
  expect 1 "there is no directory 'nowhere'" predict nowhere x.png
  expect 1 "there is no file 'nowhere'" inspect nowhere
  expect 2 'allowed: a number, 0 or more' compare a b --tolerance -1
  : >empty.txt
  expect 1 'is empty' train text --data empty.txt
  expect 1 '--data' train mnist
  expect 1 'mnist-that-is-not' train mnist --data mnist-that-is-not
  expect 1 'cifar-10-batches-bin' train cifar10 --model lenet --data pictures
  small_run run
  expect 1 'has a run already' train digits "${small[@]}" --out run
  small_run run --overwrite
  expect 1 "is no run's directory" train --resume pictures
  expect 1 'no other option' train --resume run --lr 1
  expect 1 'no other option' train --resume run --overwrite
  expect 1 "is no run's directory" eval pictures
  expect 1 'black.pgm' inspect black.pgm
  printf '{"dataset": "digits", "epochs": [3]}' >bad.json
  expect 1 'allowed: a number' train --config bad.json
  printf 'nonsense' >bad.json
  expect 1 'is no JSON object' train --config bad.json
}

for file in "$tests"/tool/*.sh; do
  # shellcheck source=/dev/null
  source "$file"
done

(($# > 0)) || mapfile -t parts < <(compgen -A function test_)
(($# > 0)) || set -- "${parts[@]#test_}"
for part in "$@"; do
  declare -F "test_$part" >/dev/null || { echo "there is no part '$part'" >&2 && exit 2; }
  mkdir "$work/$part" && cd "$work/$part" || exit 2
  "test_$part"
done
if ((failures > 0)); then
  echo "$failures failures" >&2
  exit 1
fi
((skipped < $#)) || exit 77
echo 'all is as it should be'
