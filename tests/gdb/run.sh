#!/usr/bin/env bash
# The pretty printers of gdb show tensors, shapes and dtypes.
#   tests/gdb/run.sh PROGRAM
set -uo pipefail
program=$1
printers=$(dirname "$0")/../../tools/gdb_printers.py
if ! gdb -batch -ex 'python print(1)' >/dev/null 2>&1; then
  echo 'SKIPPED gdb Printers: no gdb with Python on this machine'
  exit 77
fi
failures=0
out=$(DEBUGINFOD_URLS='' gdb -batch -nx -ex 'set print thread-events off' -ex "source $printers" \
  -ex 'break stop_here' -ex run -ex up \
  -ex 'print undefined' -ex 'print matrix' -ex 'print transposed' -ex 'print learned' \
  -ex 'print half' -ex 'print empty' -ex 'print scalar' -ex 'set print elements 4' -ex 'print large' \
  -ex 'print parameter' -ex 'print shape' -ex 'print many' -ex 'print dtype' "$program" 2>&1)
if grep -q 'ptrace: Operation not permitted\|Could not trace' <<<"$out"; then
  echo 'SKIPPED gdb Printers: this machine does not allow debugging'
  exit 77
fi
expect() {
  grep -qxF -- "\$$1 = $2" <<<"$out" && return
  echo "FAIL: expected '\$$1 = $2'" >&2
  failures=$((failures + 1))
}
expect 1 'undefined'
expect 2 'float32 [2, 3] = {1, 2, 3, 4, 5, 6.5}'
expect 3 'float32 [3, 2] = {1, 4, 2, 5, 3, 6.5}'
expect 4 'float32 [2], requires grad = {0.25, 0.25}'
expect 5 'bfloat16 [2] = {1.5, -2}'
expect 6 'int64 [0, 3]'
expect 7 'uint8 [] = {7}'
expect 8 'int64 [1000] = {0, 1, 2, 3...}'
expect 9 'float32 [2, 3], requires grad = {1, 2, 3, 4...}'
expect 10 '[2, 3]'
expect 11 '[1, 1, 1, 1, 1, 1, 1, 1]'
expect 12 'bfloat16'
((failures == 0)) || sed 's/^/    /' <<<"$out" >&2
exit $((failures > 0))
