#!/usr/bin/env bash
# Kills a training run at random moments, resumes it each time, and compares the final weights.
#   tests/kill_test.sh TOOL [KILLS]
# No existing checkpoint may be lost or damaged, and the final weights must be byte-identical to
# those of an uninterrupted run.
set -euo pipefail
tool=$1 kills=${2:-200}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Augmentation, accumulation and workers, all of which a resumed run must reproduce, with a
# checkpoint every second step, so that much of the time is spent writing them.
options=(digits --model lenet --examples 2048 --epochs 2 --batch-size 16 --accumulate 2 --workers 2
  --checkpoint-every 2 --evaluate-every 16 --threads 1)

"$tool" train "${options[@]}" --out "$work/whole" >"$work/log" 2>&1 || {
  cat "$work/log" >&2
  exit 1
}
expected=$(sha256sum <"$work/whole/model.safetensors")

newest() { # the step of the newest checkpoint, 0 without one
  local list
  list=$(ls "$work/killed/checkpoints" 2>/dev/null | sed -n 's/^step-0*\([0-9]\+\)\.safetensors$/\1/p' | sort -n | tail -n1)
  echo "${list:-0}"
}

killed=0 rounds=0 before=0
arguments=("${options[@]}" --out "$work/killed")
while ((killed < kills)); do
  rounds=$((rounds + 1))
  "$tool" train "${arguments[@]}" >"$work/log" 2>&1 &
  run=$!
  # Any moment from the start to well into the run.
  sleep "0.$(printf '%03d' $((RANDOM % 400 + 20)))"
  if kill -9 "$run" 2>/dev/null; then killed=$((killed + 1)); fi
  wait "$run" 2>/dev/null && status=0 || status=$?
  if ((status != 0 && status != 137)); then
    echo "after $killed kills the run ended by itself with code $status:" >&2
    cat "$work/log" >&2
    exit 1
  fi
  if grep -q 'passed over\|damaged' "$work/log"; then
    echo "a damaged checkpoint after $killed kills:" >&2
    cat "$work/log" >&2
    exit 1
  fi
  now=$(newest)
  if ((now < before)); then
    echo "after $killed kills the newest checkpoint is of step $now, it was $before" >&2
    exit 1
  fi
  before=$now
  if ((status == 0)); then # it finished: begin the next one
    actual=$(sha256sum <"$work/killed/model.safetensors")
    [[ $actual == "$expected" ]] || { echo "other weights after $killed kills" >&2; exit 1; }
    rm -rf "$work/killed"
    before=0
  fi
  if [[ -e $work/killed/config.json ]]; then
    arguments=(--resume "$work/killed")
  else
    rm -rf "$work/killed"
    arguments=("${options[@]}" --out "$work/killed")
  fi
  [[ -t 2 ]] && printf '\r%d of %d kills, step %d ' "$killed" "$kills" "$now" >&2
done
if [[ -e $work/killed ]]; then
  "$tool" train "${arguments[@]}" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
  actual=$(sha256sum <"$work/killed/model.safetensors")
  [[ $actual == "$expected" ]] || { echo "other weights after $killed kills" >&2; exit 1; }
fi
echo "$killed kills, no checkpoint lost or damaged, the weights are those of a run without: ${expected%% *}"
