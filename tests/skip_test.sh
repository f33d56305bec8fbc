#!/usr/bin/env bash
# Skipped tests are distinguished from passed ones: by the return code of a test program, by the
# lines that it prints, and by the summary of `./ex test`.
#   tests/skip_test.sh DATA_TOKENIZER_TEST
set -uo pipefail
program=$1
root=$(dirname "$0")/..
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# expect CODE FILTER: the program, run with the filter and without real data, returns the code.
expect() {
  local status=0
  env -u EXTENSOR_TEST_DATA "$program" --gtest_filter="$2" >"$work/out" 2>&1 || status=$?
  [[ $status == "$1" ]] && return
  echo "FAIL: filter '$2': code $status, expected $1" >&2
  sed 's/^/    /' "$work/out" >&2
  failures=$((failures + 1))
}
# expect_text FILE TEXT
expect_text() {
  grep -qF -- "$2" "$1" && return
  echo "FAIL: '$2' is missing from:" >&2
  sed 's/^/    /' "$1" >&2
  failures=$((failures + 1))
}

skipped=BytePairTraining.LearnsShakespeare
passed=TokenizerFiles.KeysMayComeInAnyOrder
expect 77 "$skipped"
expect_text "$work/out" "SKIPPED data_tokenizer_test $skipped: EXTENSOR_TEST_DATA does not name"
expect 0 "$passed"
expect 1 'No.SuchTest'
expect_text "$work/out" 'no test was run'
# A program that passed still reports its skipped tests.
expect 0 "$skipped:$passed"
expect_text "$work/out" "SKIPPED data_tokenizer_test $skipped: "

# shellcheck source=/dev/null
source <(sed -n '/^report_skipped() {/,/^}/p' "$root/tools/building.sh")
cp "$work/out" "$work/log"
printf 'SKIPPED a_test A.B: no: file\nSKIPPED a_test A.C: no: file\n' >>"$work/log"
report_skipped "$work/log" >"$work/report"
expect_text "$work/report" '3 test cases were skipped:'
expect_text "$work/report" '  2 of a_test: no: file'
expect_text "$work/report" '  1 of data_tokenizer_test: EXTENSOR_TEST_DATA does not name'
echo 'nothing' >"$work/log"
report_skipped "$work/log" >"$work/report"
if [[ -s $work/report ]]; then
  echo 'FAIL: a report of nothing' >&2
  failures=$((failures + 1))
fi
exit $((failures > 0))
