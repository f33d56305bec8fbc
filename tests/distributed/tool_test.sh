#!/usr/bin/env bash
# `extensor train` with several processes: one report, checkpoints that any number of them resumes,
# and a disk that is full.
#   tests/distributed/tool_test.sh EXTENSOR
set -uo pipefail
tool=$1
source "$(dirname "$0")/mpirun.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
small=(--examples 320 --batch-size 32 --threads 1)
failures=0
: >err

problem() {
  echo "FAIL: $1" >&2
  sed 's/^/    /' err >&2
  failures=$((failures + 1))
}
# run NAME COMMAND...: which must succeed
run() {
  local name=$1
  shift
  timeout 120 "$@" >out 2>err || problem "$name: code $?"
}
# last_loss RUN: of the last evaluation
last_loss() {
  grep '"type":"evaluation"' "$1/log.jsonl" | tail -1 | sed 's/.*[,{]"loss":\([^,}]*\).*/\1/'
}
# close RUN RUN: both end with the same validation loss, but for rounding
close() {
  local a b
  a=$(last_loss "$1")
  b=$(last_loss "$2")
  [[ -n $a && -n $b ]] || problem "no losses: '$a' and '$b'"
  awk -v a="$a" -v b="$b" 'BEGIN { d = a - b; exit !(d < 1e-3 && d > -1e-3) }' ||
    problem "the losses of $1 and $2 are $a and $b"
}

run 'one process' "$tool" train digits "${small[@]}" --epochs 2 --out one
run 'two processes' "$tool" train digits "${small[@]}" --epochs 2 --processes 2 --out two
[[ $(grep -c 'Report: ' out) == 1 ]] || problem 'not one result'
[[ -s two/report.html && -s two/log.jsonl ]] || problem 'no report'
close one two
run 'two ranks of mpirun, with divided states' \
  "${mpirun[@]}" -n 2 "$tool" train digits "${small[@]}" --epochs 2 \
  --shard-optimizer true --out divided
close one divided

# Interrupted with two processes, resumed with three and with one. On a fast machine a run may end
# before the signal reaches it; then a longer one is interrupted, and again after it is resumed.
mkdir again
# wait_until PID COMMAND...: for up to a minute, while the process lives
wait_until() {
  local pid=$1 k
  shift
  for ((k = 0; k < 6000; ++k)); do
    "$@" >/dev/null 2>&1 && return
    kill -0 "$pid" 2>/dev/null || return
    sleep 0.01
  done
}
for processes in 3 1; do
  for epochs in 60 600 6000; do
    rm -rf again/$processes
    "$tool" train digits "${small[@]}" --epochs $epochs --checkpoint-every 20 --processes 2 \
      --shard-optimizer true --out again/$processes >out 2>err &
    pid=$!
    wait_until $pid compgen -G "again/$processes/checkpoints/*"
    kill -TERM $pid 2>/dev/null
    wait $pid
    code=$?
    grep -q "\"step\":$((epochs * 10))[,}]" again/$processes/log.jsonl || break
  done
  [[ $code == 143 ]] || problem "SIGTERM: code $code"
  grep -q 'ended at step' err || problem 'the interrupted run does not say how to go on'
  resume=("$tool" train --resume again/$processes --processes $processes)
  if ((epochs == 60)); then
    run "resumed with $processes processes" "${resume[@]}"
  else
    "${resume[@]}" >out 2>err &
    pid=$!
    wait_until $pid grep -q 'going on at step' err
    kill -TERM $pid 2>/dev/null
    wait $pid
  fi
  grep -q 'going on at step' err || problem 'it began anew'
done

# A disk that is full: both ranks end and say why; with space, the run goes on.
full_disk() {
  mkdir -p disk
  if ! mount -t tmpfs -o size=6m none disk 2>/dev/null; then
    echo "SKIPPED full disk: mount -t tmpfs is not permitted here"
    return
  fi
  "$tool" train digits "${small[@]}" --epochs 3 --checkpoint-every 2 --keep-checkpoints 100 \
    --processes 2 --out disk/run >out 2>err &
  local pid=$! k
  for ((k = 0; k < 1200; ++k)); do
    grep -q 'No space left' err && break
    kill -0 $pid 2>/dev/null || break
    sleep 0.1
  done
  local begin=$EPOCHREALTIME
  wait $pid
  (($? != 0)) || problem 'a full disk is no error'
  awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { exit !(b - a > 5) }' && problem 'more than 5 s'
  grep -q 'No space left on device' err || problem 'the full disk is not named'
  grep -q 'rank 0 (process .* gave up: .*No space left' err || problem 'the other rank does not say why'
  mount -o remount,size=100m disk
  run 'resumed with space' "$tool" train --resume disk/run --processes 2
  grep -q 'going on at step' err || problem 'it began anew'
  run 'without a full disk' "$tool" train digits "${small[@]}" --epochs 3 --checkpoint-every 2 \
    --keep-checkpoints 100 --processes 2 --out whole
  cmp disk/run/model.safetensors whole/model.safetensors || problem 'other weights'
  umount disk
}
if unshare -m true 2>/dev/null; then
  export -f full_disk problem run
  failures_before=$failures
  # A mount that nobody else sees.
  unshare -m bash -c "$(declare -p tool small failures); full_disk; exit \$failures"
  failures=$?
  ((failures >= failures_before)) || failures=$((failures + 1))
else
  echo "SKIPPED full disk: unshare -m is not permitted here"
fi
echo "$failures failed"
exit $((failures > 0))
