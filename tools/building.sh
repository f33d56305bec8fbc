# Builds and tests of every preset. Sourced by ./ex.
# shellcheck shell=bash disable=SC2154

# configure_and_build PRESET [cmake -D options]: configures only if necessary, then builds
# everything, or only the targets in `target` if it is set.
configure_and_build() {
  local preset=$1 dir=build/$1
  shift
  if [[ ! -e $dir/build.ninja || CMakePresets.json -nt $dir/build.ninja ]]; then
    say "configuring $dir"
    mkdir -p "$dir"
    cmake --preset "$preset" "$@" >"$dir/configure.log" 2>&1 || {
      cat "$dir/configure.log" >&2
      fail "configuring $dir failed"
    }
    local cuda
    cuda=$(sed -n 's/^-- extensor: \(libextensor_cuda.so is built.*\)/\1/p' "$dir/configure.log")
    [[ -z $cuda ]] || say "$cuda"
  fi
  # shellcheck disable=SC2086
  NINJA_STATUS="[%f/%t] " cmake --build --preset "$preset" ${target:+--target $target} ||
    fail "building $dir failed"
}

jobs() { nproc 2>/dev/null || echo 2; }

run_tests() {
  local preset=$1 wrapper=()
  shift
  # This version of ThreadSanitizer fails with the address space randomisation of newer kernels.
  if [[ $preset == tsan ]] && setarch -R true 2>/dev/null; then wrapper=(setarch -R); fi
  local log=build/$preset/Testing/Temporary/LastTest.log result=0
  rm -f "$log"
  "${wrapper[@]}" ctest --preset "$preset" -j "$(jobs)" "$@" || result=$?
  [[ ! -e $log ]] || report_skipped "$log"
  return $result
}

# report_skipped LOG: how many tests were skipped, and why, from the lines
# "SKIPPED program Suite.Case: reason" that the tests print.
report_skipped() {
  awk '/^SKIPPED / {
         program = $2; reason = substr($0, index($0, ": ") + 2)
         ++total; ++count[program ": " reason]
       }
       END {
         if (total == 0) exit
         printf "%d test cases were skipped:\n", total
         for (line in count) printf "  %d of %s\n", count[line], line | "sort -k 3"
       }' "$1"
}

choose_llvm() {
  local version
  for version in 16 17 18 19 20 21; do
    command -v "clang++-$version" >/dev/null && llvm=$version && return
  done
  for version in 16 17 18 19 20 21; do
    apt-cache show "clang-$version" >/dev/null 2>&1 && llvm=$version && return
  done
  llvm=16
}

# build_with_clang PRESET
build_with_clang() {
  choose_llvm
  ready_to_build "$need_test" "$need_check"
  CXX=clang++-$llvm configure_and_build "$1"
}

build_tsan() {
  build_with_clang tsan
  # Ignore races inside uninstrumented system libraries; all of our code is instrumented. Check the
  # threads of forked children too.
  export TSAN_OPTIONS="ignore_noninstrumented_modules=1 halt_on_error=1 second_deadlock_stack=1 die_after_fork=0"
  TSAN_OPTIONS+=" external_symbolizer_path=$(command -v "llvm-symbolizer-$llvm")"
}

build_preset() {
  case $1 in
    tsan) build_tsan ;;
    fuzz) build_with_clang fuzz ;;
    bench) build_bench ;;
    *) ready_to_build "$need_test" && configure_and_build "$1" ;;
  esac
}

build_bench() {
  ready_to_build "$need_bench"
  # Configure again if the set of installed peers has changed.
  local -a peers=(build/peers/complete /usr/include/dnnl.h /usr/include/*/openblas-openmp/cblas.h
    /usr/include/libxsmm.h /usr/include/ATen/ATen.h)
  local peer
  for peer in "${peers[@]}"; do
    [[ -e $peer && build/bench/build.ninja -ot $peer ]] && rm -f build/bench/build.ninja
  done
  configure_and_build bench
  # A peer that does not build is left out; that is not a failure.
  cmake --build --preset bench --target extensor_peers -- -k 0 ||
    say "not every peer could be built; its column stays empty"
}

# Parses [--preset P] and leaves the other arguments in `rest`.
read_preset() {
  preset=release rest=()
  while (($#)); do
    case $1 in
      --preset=*) preset=${1#*=} ;;
      --preset)
        (($# > 1)) || fail "--preset wants a name: ${presets// /, }"
        preset=$2
        shift
        ;;
      --*) one_of option "$1" "--preset" ;;
      *) rest+=("$1") ;;
    esac
    shift
  done
  one_of preset "$preset" "$presets"
}
