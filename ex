#!/usr/bin/env bash
# The entry point for all tasks; see `./ex help`.
# Every command first installs missing packages, then builds, then runs.
set -euo pipefail
caller=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")"

# ---- requirements of each command: probe, Debian/Ubuntu package, reason
# ---------------------------
# A probe is a command (cmd:), a header (hdr:), a file (file:) or a Python module (py:). LLVM stands
# for the version of Clang: the first from 16 on that is installed or can be installed.

need_build='
cmd:g++                   g++               C++20 compiler
cmd:cmake                 cmake             build system
cmd:ninja                 ninja-build       build system
cmd:ccache                ccache            quick rebuilds
hdr:hwy/highway.h         libhwy-dev        SIMD (headers only)
hdr:CLI/CLI.hpp           libcli11-dev      command line of the tool (headers only)
hdr:nlohmann/json.hpp     nlohmann-json3-dev  JSON (headers only)
hdr:zlib.h                zlib1g-dev        compressed files
'
need_test='
hdr:gtest/gtest.h         libgtest-dev      test framework
cmd:python3               python3           files for the tests of the tool
'
need_format='
cmd:clang-format-14       clang-format-14   source format (one version for everybody)
'
need_check='
cmd:clang++-LLVM          clang-LLVM        compiler of the ThreadSanitizer and fuzzer builds
file:/usr/lib/llvm-LLVM/lib/clang/*/lib/linux/libclang_rt.tsan*  libclang-rt-LLVM-dev  their runtimes
cmd:llvm-symbolizer-LLVM  llvm-LLVM         names in its reports
'
need_lint='
cmd:clang-tidy-LLVM       clang-tidy-LLVM   lint
'
need_bench='
hdr:benchmark/benchmark.h libbenchmark-dev  benchmark framework
'
need_peers='
hdr:dnnl.h                libdnnl-dev       yardstick: oneDNN
hdr:openblas-openmp/cblas.h libopenblas-openmp-dev  yardstick: OpenBLAS (its OpenMP flavour)
hdr:libxsmm.h             libxsmm-dev       yardstick: libxsmm
'

need_wheel='
cmd:python3               python3           fetches PyTorch
py:pip                    python3-pip       fetches PyTorch
'
need_reference='
file:/usr/lib/python3/dist-packages/torch/__init__.py  python3-torch  what optimizers are compared with
file:/usr/lib/python3/dist-packages/numpy/__init__.py  python3-numpy  PyTorch asks for it
'
need_torch='
hdr:ATen/ATen.h           libtorch-dev      yardstick: PyTorch, as the system has it
'

commands='train build test bench figures check format docs gpu-test gpu-bench help'
presets='release ci dev asan tsan fuzz bench'

# ---- messages
# -------------------------------------------------------------------------------------

say() { printf '\033[1mex:\033[0m %s\n' "$*" >&2; }
fail() {
  say "$@"
  exit 1
}

usage() {
  cat <<'TEXT'
ExTensor. Each command installs what is missing, builds, and runs.

  ./ex train [DATASET] [OPTIONS]    train a network on handwritten digits, with a report to look at,
                                    or on what is named, as `extensor train`
  ./ex build [--preset P]           build the library, its tool and its tests
  ./ex test  [--preset P] [REGEX]   build and run the tests (those whose name matches)
  ./ex bench [--no-peers] [REGEX]   time ExTensor beside PyTorch, oneDNN, OpenBLAS, libxsmm
  ./ex figures DIR                  the figures that take minutes, on MNIST and tiny Shakespeare in DIR
  ./ex check [STEP...]              format, lint, asan (with ubsan), tsan, fuzz; all by default;
                                    by name only: pytorch (optimizers, models against PyTorch's),
                                    kill (a run killed 200 times and resumed)
  ./ex format                       put the sources into the format that check asks for
  ./ex docs                         write docs/ops.md from the op database
  ./ex gpu-test                     build and run the tests of CUDA devices
  ./ex gpu-bench [NAME]             time CUDA devices beside PyTorch, if python3 has it; NAME: part
                                    of the names of lines
  ./ex help                         this text

Presets: release (default), dev (this machine's SIMD only, quick to rebuild), ci (warnings are
errors), asan, tsan, fuzz. Build directories are build/<preset>.
TEXT
}

# The edit distance of two short words.
distance() {
  local a=$1 b=$2 i j cost best
  local -a previous current
  for ((j = 0; j <= ${#b}; j++)); do previous[j]=$j; done
  for ((i = 1; i <= ${#a}; i++)); do
    current[0]=$i
    for ((j = 1; j <= ${#b}; j++)); do
      cost=1
      [[ ${a:i-1:1} == "${b:j-1:1}" ]] && cost=0
      best=$((previous[j - 1] + cost))
      ((previous[j] + 1 < best)) && best=$((previous[j] + 1))
      ((current[j - 1] + 1 < best)) && best=$((current[j - 1] + 1))
      current[j]=$best
    done
    previous=("${current[@]}")
  done
  echo "${previous[${#b}]}"
}

# nearest WORD CANDIDATE...: the candidate closest to the word.
nearest() {
  local word=$1 best='' best_distance=99 candidate d
  shift
  for candidate in "$@"; do
    d=$(distance "$word" "$candidate")
    ((d < best_distance)) && best=$candidate best_distance=$d
  done
  echo "$best"
}

# one_of KIND WORD "CANDIDATES": fails with a suggestion unless the word is a candidate.
one_of() {
  local kind=$1 word=$2 candidates=$3
  [[ " $candidates " == *" $word "* ]] && return
  # shellcheck disable=SC2086
  fail "unknown $kind '$word'; did you mean '$(nearest "$word" $candidates)'? (${candidates// /, })"
}

# ---- installing -----------------------------------------------------------------------------------

present() {
  local what=${1#*:}
  case $1 in
    cmd:*) command -v "$what" >/dev/null ;;
    file:*) compgen -G "$what" >/dev/null ;;
    py:*) python3 -c "import $what" 2>/dev/null ;;
    hdr:*) compgen -G "/usr/include/$what" >/dev/null || compgen -G "/usr/local/include/$what" >/dev/null ||
      compgen -G "/usr/include/*-linux-gnu/$what" >/dev/null ;;
  esac
}

as_root() {
  if ((EUID == 0)); then "$@"; else sudo "$@"; fi
}

# install LISTS...: installs the packages whose probes fail; if it cannot, prints why and returns 1.
install() {
  local probe package why packages=()
  while read -r probe package why; do
    [[ -z $probe ]] && continue
    present "$probe" && continue
    ((${#packages[@]} == 0)) && say "this machine lacks:"
    say "  $package ($why)"
    packages+=("$package")
  done <<<"${*//LLVM/${llvm:-16}}"
  ((${#packages[@]} == 0)) && return 0

  if ! command -v apt-get >/dev/null; then
    say "cannot install them: no apt-get here. Please install the equivalents, then run this again."
    return 1
  fi
  if ((EUID != 0)) && ! command -v sudo >/dev/null; then
    say "cannot install them: neither root nor sudo. An administrator can run:"
    say "  apt-get install ${packages[*]}"
    return 1
  fi
  say "installing ${packages[*]}"
  local log
  log=$(mktemp)
  as_root apt-get -qq update >"$log" 2>&1 || say "apt-get update failed; trying with the lists at hand"
  if ! as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-remove \
    --no-install-recommends install "${packages[@]}" >>"$log" 2>&1; then
    tail -n 20 "$log" >&2
    say "apt-get could not install: ${packages[*]} (all it said: $log)"
    return 1
  fi
  rm -f "$log"
}

# at_least FOUND WANTED
at_least() { [[ $(printf '%s\n' "$2" "$1" | sort -V | head -n1) == "$2" ]]; }

ready_to_build() {
  install "$need_build" "$@" || exit 1
  local cmake_version gcc_version
  cmake_version=$(cmake --version | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p')
  at_least "$cmake_version" 3.25 ||
    fail "CMake 3.25 or newer is needed, this is $cmake_version (Debian 12, Ubuntu 24.04 have it)"
  if [[ -z ${CXX:-} ]]; then
    gcc_version=$(g++ -dumpfullversion)
    at_least "$gcc_version" 12 ||
      fail "GCC 12 or newer is needed, this is $gcc_version (set CXX to a newer compiler)"
  fi
}

# ---- building -------------------------------------------------------------------------------------

# configure_and_build PRESET [cmake -D options]: configures only if necessary, then builds
# everything, or only `target` if it is set.
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
  NINJA_STATUS="[%f/%t] " cmake --build --preset "$preset" ${target:+--target "$target"} ||
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

# ---- ThreadSanitizer's tools ----------------------------------------------------------------------
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

# ---- PyTorch for the benchmark
# --------------------------------------------------------------------

# unzip_wheel ARCHIVE DIR: extracts only the files that a C++ program needs.
unzip_wheel() {
  python3 - "$@" <<'PYTHON'
import re, sys, zipfile
wanted = re.compile(r"torch/include/|torch/lib/lib(torch_cpu|c10)\.so$|nvidia/.*\.so[.0-9]*$|include/cudnn_")
with zipfile.ZipFile(sys.argv[1]) as archive:
    archive.extractall(sys.argv[2], filter(wanted.match, archive.namelist()))
PYTHON
}

fetch_wheel() {
  local dir=$1 requirement=$2
  say "fetching the wheel $requirement"
  rm -rf "$dir/wheel"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    --dest "$dir/wheel" "$requirement" >&2 && unzip_wheel "$dir"/wheel/*.whl "$dir"
  local result=$?
  rm -rf "$dir/wheel"
  return $result
}

# PyTorch's wheel for Linux links to two small CUDA libraries, even for work on the CPU.
fetch_cuda_libraries() {
  local dir=$1 name major package
  while read -r name; do
    major=${name##*.}
    case $name in
      libcupti.so.*) package=nvidia-cuda-cupti ;;
      libcudart.so.*) package=nvidia-cuda-runtime ;;
      *) continue ;;
    esac
    ((major < 13)) && package+="-cu$major"
    fetch_wheel "$dir" "$package>=$major,<$((major + 1))" || return 1
  done < <(ldd "$dir/torch/lib/libtorch_cpu.so" | sed -n 's/^\s*\(\S*\) => not found.*/\1/p')
}

fetch_torch() {
  local dir=build/peers
  [[ -e $dir/complete ]] && return
  if [[ -e $dir/unavailable ]]; then
    say "using the system's PyTorch, if any; remove $dir to try for the wheel again"
    return
  fi
  install "$need_wheel" || return 0
  mkdir -p "$dir"
  say "PyTorch is the yardstick: some 550 MB to fetch, once, into $dir"
  if fetch_wheel "$dir" torch && fetch_cuda_libraries "$dir"; then
    touch "$dir/complete"
  else
    rm -rf "$dir" && mkdir -p "$dir" && touch "$dir/unavailable"
    say "PyTorch's wheel cannot be had; trying the system's"
    install "$need_torch" || say "going on without PyTorch: its column stays empty"
  fi
}

# ---- the commands ---------------------------------------------------------------------------------

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

# Trains on the built-in digits unless the arguments name other data.
command_train() {
  target=extensor_tool build_preset release
  local dataset=(digits) word
  [[ ${1:--} == -* ]] || dataset=()
  for word in "$@"; do
    [[ $word =~ ^(--resume|--config|--help|-h)(=|$) ]] && dataset=()
  done
  # Run in the caller's directory, so that typed paths are valid and printed commands can be pasted.
  local tool=build/release/cli/extensor
  [[ $caller -ef . ]] || tool=$PWD/$tool
  cd "$caller"
  "$tool" train "${dataset[@]}" "$@"
}

# figures DIR: runs that take minutes. DIR/mnist contains MNIST, DIR/text/tinyshakespeare.txt a
# text.
command_figures() {
  (($# == 1)) || fail "figures wants the directory of the data: mnist/ and text/tinyshakespeare.txt in it"
  local data=$1 tool=build/release/cli/extensor out
  [[ -d $data/mnist && -e $data/text/tinyshakespeare.txt ]] ||
    fail "'$data' has no mnist/ or no text/tinyshakespeare.txt"
  target=extensor_tool build_preset release
  ready_to_build "$need_bench"
  target=extensor_long configure_and_build bench
  out=$(mktemp -d)
  say "LeNet on MNIST, 5 epochs"
  "$tool" train mnist --data "$data/mnist" --epochs 5 --out "$out/mnist"
  sed -n 's/.*"type":"step".*"examples":\([0-9]*\),"seconds":\([0-9.e-]*\).*/\1 \2/p' "$out/mnist/log.jsonl" |
    awk '$2 > last && $2 - last < 0.5 { n += $1; t += $2 - last } { last = $2 }
         END { printf "ExTensor: %.0f images/s in training\n", n / t }'
  if install "$need_reference"; then
    /usr/bin/python3 -W ignore bench/mnist_torch.py "$data/mnist" 2
  fi
  say "a character GPT on tiny Shakespeare, 2000 steps"
  "$tool" train text --data "$data/text/tinyshakespeare.txt" --out "$out/text"
  say "loading beside one cached batch"
  build/bench/bench/extensor_long pipeline "$data/mnist"
  say "files"
  build/bench/bench/extensor_long files "$out"
  rm -rf "$out"
}

# The headers through which libextensor_cuda.so uses cuDNN; the build goes on without them.
fetch_cudnn_frontend() {
  local dir=build/cudnn-frontend
  [[ -e $dir/include/cudnn_frontend.h || -e $dir/unavailable ]] && return
  install "$need_wheel" || return 0
  mkdir -p "$dir"
  if ! fetch_wheel "$dir" 'nvidia-cudnn-frontend>=1.14,<2'; then
    touch "$dir/unavailable"
    say "building without cuDNN; remove $dir to try for its headers again"
  fi
}

# build_gpu TARGET...: the library for CUDA devices and programs that use it.
build_gpu() {
  command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]] ||
    fail "nvcc was not found; install the CUDA toolkit (13 or newer)"
  ready_to_build "$need_test"
  fetch_cudnn_frontend
  local name
  for name in extensor_cuda "$@"; do target=$name configure_and_build release; done
}

command_gpu-test() {
  (($# == 0)) || fail "gpu-test takes no '$1'; see ./ex help"
  local source name programs=() result=0 code
  for source in tests/cuda/*_test.cpp; do programs+=("$(basename "$source" .cpp)"); done
  build_gpu "${programs[@]}"
  for name in "${programs[@]}"; do
    code=0
    "build/release/tests/cuda/$name" --gtest_brief=1 || code=$?
    ((code == 0 || code == 77)) || result=1
  done
  return $result
}

command_gpu-bench() {
  build_gpu extensor_cuda_bench
  say "ExTensor"
  build/release/bench/cuda/extensor_cuda_bench "$@"
  if python3 -c 'import torch' 2>/dev/null; then
    say "PyTorch"
    python3 bench/cuda/lines_torch.py "$@"
  else
    say "python3 has no PyTorch to compare with"
  fi
}

command_docs() {
  (($# == 0)) || fail "docs takes no '$1'; see ./ex help"
  target=extensor_tool build_preset release
  build/release/cli/extensor ops --markdown >docs/ops.md
  say "wrote docs/ops.md"
}

command_build() {
  read_preset "$@"
  ((${#rest[@]} == 0)) || fail "build takes no '${rest[0]}'; see ./ex help"
  build_preset "$preset"
  say "built build/$preset"
}

command_test() {
  read_preset "$@"
  ((${#rest[@]} <= 1)) || fail "test takes one regular expression; see ./ex help"
  [[ $preset != bench && $preset != fuzz ]] || fail "the $preset preset has no tests"
  build_preset "$preset"
  run_tests "$preset" ${rest[0]:+-R "${rest[0]}"}
}

command_bench() {
  local filter='' with_peers=yes
  while (($#)); do
    case $1 in
      --no-peers) with_peers=no ;;
      --*) one_of option "$1" "--no-peers" ;;
      *) filter=$1 ;;
    esac
    shift
  done
  if [[ $with_peers == yes ]]; then
    install "$need_peers" || say "going on without those: their columns stay empty"
    fetch_torch
  fi
  build_bench
  build/bench/bench/extensor_bench ${filter:+--benchmark_filter="$filter"} \
    --benchmark_out=build/bench.json --benchmark_out_format=json
  say "wrote build/bench.json"
}

# ---- checks ---------------------------------------------------------------------------------------

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

# Lints with the compile commands of the tsan build, which uses Clang.
check_lint() {
  choose_llvm
  install "$need_lint" || return 1
  build_tsan
  sources | grep -E '^src/.*\.cpp$' |
    xargs -P "$(jobs)" -n 1 "clang-tidy-$llvm" -p build/tsan --quiet --warnings-as-errors='*' 2> \
      >(grep -v 'warnings generated\|^Suppressed\|^Use -header-filter' >&2)
}

check_asan() {
  build_preset asan
  run_tests asan
}

check_tsan() {
  build_preset tsan
  run_tests tsan
}

# Short runs without a corpus; `build/fuzz/fuzz/ops_fuzz CORPUS` runs without limit. The fuzzers of
# file readers are fast and get a third of the time each. EXTENSOR_FUZZ_SECONDS sets the time,
# EXTENSOR_FUZZ_RUNS the number of inputs instead, and EXTENSOR_FUZZERS selects fuzzers ("idx csv").
check_fuzz() {
  local lib
  build_preset fuzz
  local name seconds length crashes failed=0
  local -a names
  read -ra names <<<"${EXTENSOR_FUZZERS:-$(cd build/fuzz/fuzz && echo *_fuzz | sed 's/_fuzz//g')}"
  for name in "${names[@]}"; do
    crashes=build/fuzz/crashes/$name
    mkdir -p "$crashes"
    seconds=${EXTENSOR_FUZZ_SECONDS:-60} length=1024
    [[ $name == ops ]] || seconds=$(((seconds + 2) / 3))
    [[ $name == cifar ]] && length=8192 # a record has 3073 bytes
    # The tests check for stack use after return; here it would take a third of the time.
    # shellcheck disable=SC2046
    ASAN_OPTIONS=detect_stack_use_after_return=0 EXTENSOR_NUM_THREADS=1 "build/fuzz/fuzz/${name}_fuzz" -seed=1 -max_len=$length -len_control=0 -timeout=300 \
      $([[ ${EXTENSOR_FUZZ_RUNS:-} ]] && echo "-runs=$EXTENSOR_FUZZ_RUNS" || echo "-max_total_time=$seconds") \
      -artifact_prefix="$crashes/" -print_final_stats=1 2>"$crashes/log" || {
      tail -n 40 "$crashes/log" >&2
      failed=1
      continue
    }
    say "$name: $(sed -n 's/.*number_of_executed_units: *//p' "$crashes/log") inputs," \
      "$(sed -n 's/^Done .* in \([0-9]*\) second.*/\1/p' "$crashes/log") s"
  done
  return $failed
}

# Compares optimizers and schedules with PyTorch step by step, using the system's Python package.
check_pytorch() {
  install "$need_reference" || return 1
  target=pytorch_agreement_test build_preset release
  target=pytorch_exchange_test build_preset release
  mkdir -p build/pytorch
  local python=(/usr/bin/python3 -W ignore)
  "${python[@]}" tests/pytorch/reference.py build/pytorch || return 1
  "${python[@]}" tests/pytorch/exchange.py make build/pytorch || return 1
  export EXTENSOR_PYTORCH_REFERENCE=build/pytorch
  build/release/tests/pytorch_agreement_test || return 1
  build/release/tests/pytorch_exchange_test || return 1
  "${python[@]}" tests/pytorch/exchange.py verify build/pytorch
}

# A training run that is killed at random moments and resumed must end with the same weights as one
# that is not.
check_kill() {
  target=extensor_tool build_preset release
  tests/kill_test.sh build/release/cli/extensor "${EXTENSOR_KILLS:-200}"
}

command_check() {
  local all='format lint asan tsan fuzz' step failed=''
  for step in "$@"; do one_of step "$step" "$all pytorch kill"; done
  # shellcheck disable=SC2048
  for step in ${*:-$all}; do
    say "check $step"
    ("check_$step") || failed+=" $step"
  done
  [[ -z $failed ]] || fail "check failed:$failed"
  say "every check passed"
}

main() {
  local word=${1:-help}
  (($#)) && shift
  case $word in
    -h | --help) word=help ;;
  esac
  one_of command "$word" "$commands"
  case $word in
    help) usage ;;
    *) "command_$word" "$@" ;;
  esac
}

# On one line: bash reads a script while it runs it, and this file may change meanwhile.
main "$@"; exit
