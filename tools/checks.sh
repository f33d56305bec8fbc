# The commands check and format. Sourced by ./ex.
# shellcheck shell=bash disable=SC2154

sources() {
  find include src op_database cli examples tests fuzz bench \( -name '*.h' -o -name '*.cpp' \) -type f | sort
}

command_format() {
  (($# == 0)) || fail "format takes no '$1'; see ./ex help"
  install "$need_format" || exit 1
  sources | xargs clang-format-14 -i
}

check_format() {
  install "$need_format" || return 1
  sources | xargs clang-format-14 --dry-run -Werror
}

# Compares the list of public functions and the reference pages with the headers, then lints with the compile
# commands of the tsan build, which uses Clang.
check_lint() {
  choose_llvm
  install "$need_functions" "$need_lint" || return 1
  python3 op_database/read_headers.py --clang "clang++-$llvm" --verify || return 1
  python3 op_database/reference_pages.py --clang "clang++-$llvm" --verify || return 1
  build_tsan
  tools/lint.py "clang-tidy-$llvm" build/tsan build/lint
}

check_asan() {
  build_preset asan
  run_tests asan
}

# The programs of tests/CMakeLists.txt that reach most code in little time.
check_quick() {
  target=extensor_quick_tests build_preset asan
  run_tests asan -L '^quick$'
}

check_tsan() {
  build_preset tsan
  run_tests tsan
}

# run_fuzzer NAME: one fuzzer, with the fuzzers of file readers, which are fast, for a third of the time.
run_fuzzer() {
  local name=$1 crashes=build/fuzz/crashes/$1 seconds=${EXTENSOR_FUZZ_SECONDS:-60} length=1024
  mkdir -p "$crashes"
  [[ $name == ops ]] || seconds=$(((seconds + 2) / 3))
  [[ $name == cifar ]] && length=8192 # a record has 3073 bytes
  # The tests check for stack use after return; here it would take a third of the time.
  # shellcheck disable=SC2046
  ASAN_OPTIONS=detect_stack_use_after_return=0 EXTENSOR_NUM_THREADS=1 "build/fuzz/fuzz/${name}_fuzz" -seed=1 -max_len=$length -len_control=0 -timeout=300 \
    $([[ ${EXTENSOR_FUZZ_RUNS:-} ]] && echo "-runs=$EXTENSOR_FUZZ_RUNS" || echo "-max_total_time=$seconds") \
    -artifact_prefix="$crashes/" -print_final_stats=1 2>"$crashes/log" || {
    tail -n 40 "$crashes/log" >&2
    return 1
  }
  say "$name: $(sed -n 's/.*number_of_executed_units: *//p' "$crashes/log") inputs," \
    "$(sed -n 's/^Done .* in \([0-9]*\) second.*/\1/p' "$crashes/log") s"
}

# Short runs without a corpus, as many at a time as there are processors; `build/fuzz/fuzz/ops_fuzz CORPUS`
# runs without limit. EXTENSOR_FUZZ_SECONDS sets the time of the ops, EXTENSOR_FUZZ_RUNS the number of inputs
# instead, and EXTENSOR_FUZZERS selects fuzzers ("idx csv").
check_fuzz() {
  build_preset fuzz
  local name failed=0 running=0
  local -a names
  read -ra names <<<"${EXTENSOR_FUZZERS:-$(cd build/fuzz/fuzz && echo *_fuzz | sed 's/_fuzz//g')}"
  for name in "${names[@]}"; do
    if ((running == $(jobs))); then
      wait -n || failed=1
      running=$((running - 1))
    fi
    run_fuzzer "$name" &
    running=$((running + 1))
  done
  for ((; running > 0; --running)); do wait -n || failed=1; done
  return $failed
}

# Compares optimizers, schedules and models with PyTorch step by step, and ops over the sample inputs
# of PyTorch's own tests. Uses the interpreter $EXTENSOR_PYTHON, the PyTorch that `./ex bench ops` fetched
# into build/peers, or else the system's Python package. The sample inputs need the package expecttest.
check_pytorch() {
  local fetched=build/peers/python name status=0 python
  if [[ ${EXTENSOR_PYTHON:-} ]]; then
    python=("$EXTENSOR_PYTHON" -W ignore)
  elif [[ -e $fetched/complete ]]; then
    python=("$fetched/bin/python" -W ignore)
    "${python[@]}" -c 'import expecttest' 2>/dev/null ||
      "${python[@]}" -m pip --disable-pip-version-check -q install expecttest || return 1
  else
    python=(/usr/bin/python3 -W ignore)
    install "$need_reference" || return 1
  fi
  for name in agreement exchange samples; do
    target=pytorch_${name}_test build_preset release
  done
  mkdir -p build/pytorch
  "${python[@]}" tests/pytorch/reference.py build/pytorch || return 1
  "${python[@]}" tests/pytorch/exchange.py make build/pytorch || return 1
  export EXTENSOR_PYTORCH_REFERENCE=build/pytorch
  build/release/tests/pytorch_agreement_test || return 1
  build/release/tests/pytorch_exchange_test || return 1
  "${python[@]}" tests/pytorch/exchange.py verify build/pytorch || return 1
  rm -rf build/pytorch/samples
  "${python[@]}" tests/pytorch/sample_inputs.py build/pytorch >build/pytorch/samples.log || status=$?
  case $status in
    0) build/release/tests/pytorch_samples_test ;;
    77) say "skipped: $(cat build/pytorch/samples.log)" ;;
    *) return 1 ;;
  esac
}

# A training run that is killed at random moments and resumed must end with the same weights as one
# that is not.
check_kill() {
  target=extensor_tool build_preset release
  tests/kill_test.sh build/release/cli/extensor "${EXTENSOR_KILLS:-200}"
}

# Ranks that are killed, hang, disagree or cannot be reached: the others must end within 5 s and name
# them.
check_ranks() {
  target="extensor_mpi distributed_failing_rank" build_preset release
  tests/distributed/failure_test.sh build/release/tests/distributed/distributed_failing_rank \
    "${EXTENSOR_FAILURES:-25}" || return 1
  tests/distributed/network_test.sh build/release/tests/distributed/distributed_failing_rank
  (($? == 0 || $? == 77))
}

# Builds the library for CUDA with warnings as errors, and runs its tests: those of the math and of the
# formulas need no GPU, the others are skipped without one.
check_cuda() {
  local programs
  programs=$(cd tests/cuda && basename -s .cpp -- *_test.cpp | tr '\n' ' ')
  build_gpu cuda "one_lane_test formula_source_test nccl_test $programs" || return 1
  run_tests cuda -R '^(one_lane_test|formula_source_test|nccl_test|cuda_.*_test)$'
}

command_check() {
  local all='format lint asan tsan fuzz' step failed=''
  for step in "$@"; do one_of step "$step" "$all quick pytorch kill ranks cuda"; done
  # shellcheck disable=SC2048
  for step in ${*:-$all}; do
    say "check $step"
    ("check_$step") || failed+=" $step"
  done
  [[ -z $failed ]] || fail "check failed:$failed"
  say "every check passed"
}
