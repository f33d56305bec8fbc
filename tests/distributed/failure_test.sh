#!/usr/bin/env bash
# A rank that ends, hangs or disagrees: every other rank ends within 5 s with an error that names
# the rank and the collective.
#   tests/distributed/failure_test.sh FAILING_RANK [RUNS [DEVICE]]
# With RUNS at 0, the most different ways once; else all ways, and that many runs of a killed and of a
# hung rank. DEVICE is cpu or cuda.
set -uo pipefail
program=$1
runs=${2:-0}
device=${3:-cpu}
on=''
[[ $device == cpu ]] || on=" on $device"
source "$(dirname "$0")/mpirun.sh"
# mpirun itself ends all ranks when one is killed. Recovery leaves that to the ranks, so that the
# test sees what they notice themselves.
mpirun+=(--enable-recovery)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0 slowest=0

# expect RANKS WAY TEXT...: every rank but the failing one reports an error with each text in time.
expect() {
  local ranks=$1 way=$2 text
  shift 2
  local rank=1
  [[ $way == *@* ]] && rank=${way#*@}
  : >"$work/err"
  timeout -k 1 40 "${mpirun[@]}" -n "$ranks" "$program" "$way" "$device" >"$work/out" 2>"$work/err" &
  local run=$!
  local waited=0 others=$((ranks - 1))
  # A stopped rank would keep mpirun waiting.
  while ((waited < 200)) && kill -0 $run 2>/dev/null &&
    (($(grep '^ENDS' "$work/err" | grep -vc "^ENDS rank $rank ") < others)); do
    sleep 0.1
    waited=$((waited + 1))
  done
  sleep 0.2
  kill -TERM $run 2>/dev/null
  wait $run 2>/dev/null
  local count
  count=$(grep '^ENDS' "$work/err" | grep -vc "^ENDS rank $rank ")
  local seconds
  seconds=$(awk '/^FAILS/ { begin = $5 } /^ENDS/ { sub(":", "", $5); if ($5 > end) end = $5 }
    END { printf "%.2f", end - begin }' "$work/err")
  local problem=''
  ((count == others)) || problem="$count of $others ranks reported an error"
  awk -v s="$seconds" 'BEGIN { exit !(s > 5) }' && problem="$seconds s until the last rank ended"
  for text in "$@"; do
    (($(grep '^ENDS' "$work/err" | grep -v "^ENDS rank $rank " | grep -cF -- "$text") == others)) ||
      problem="'$text' is missing"
  done
  slowest=$(awk -v a="$slowest" -v b="$seconds" 'BEGIN { print (b > a ? b : a) }')
  [[ -z $problem ]] && return
  echo "FAIL: $way with $ranks ranks: $problem" >&2
  sed 's/^/    /' "$work/err" >&2
  failures=$((failures + 1))
}

expect 3 killed@1 'rank 1 (process' 'has ended' "all_reduce (sum) of 1000 float32$on, collective 2"
expect 3 killed@0 'rank 0 (process' 'has ended' "all_reduce (sum) of 1000 float32$on"
expect 3 hung@2 'rank 2 (process' 'hangs or cannot be reached' "all_reduce (sum) of 1000 float32$on"
expect 2 exit 'rank 1 (process' 'the end of the program' "all_reduce (sum) of 1000 float32$on"
expect 3 abort 'rank 1 (process' 'gave up: its disk is full'
expect 2 shape 'the ranks disagree: rank' "all_reduce (sum) of 11 float32$on" "all_reduce (sum) of 1000 float32$on"
expect 2 order 'the ranks disagree: rank' "broadcast of 10 float32$on from rank 0"
expect 2 late 'rank 1 (process' "did not call all_reduce (sum) of 1000 float32$on" 'within 3 s'
expect 2 parameters 'the ranks differ: rank 0 has parameter layers.0.weight float32 [5, 4]' \
  'rank 1 has parameter layers.0.weight float32 [6, 4]'
if [[ $device != cpu ]]; then
  expect 2 device 'the ranks disagree: rank' "all_reduce (sum) of 1000 float32$on," \
    'all_reduce (sum) of 1000 float32,'
fi
if ((runs > 0)); then
  expect 2 hung@0 'rank 0 (process' 'hangs or cannot be reached'
  expect 2 quick_exit 'rank 1 (process' 'has ended'
  expect 2 exception 'rank 1 (process' 'has ended'
  expect 2 dtype 'the ranks disagree: rank' "all_reduce (sum) of 1000 float64$on"
  for ((k = 0; k < runs; ++k)); do
    expect 3 "killed@$((k % 3))" "rank $((k % 3)) (process" 'has ended' 'all_reduce (sum)'
    expect 3 "hung@$((k % 3))" "rank $((k % 3)) (process" 'hangs or cannot be reached' 'all_reduce (sum)'
  done
  echo "$((2 * runs)) runs with a killed or hung rank"
fi
echo "$failures failed; the slowest end was after $slowest s"
exit $((failures > 0))
