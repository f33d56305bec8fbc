# The packages that each command of ./ex requires, and their installation. Sourced by ./ex.
# shellcheck shell=bash disable=SC2034,SC2154

# Each line has a probe, a Debian/Ubuntu package and the reason. A probe is a command (cmd:), a
# header (hdr:), a file (file:) or a Python module (py:). LLVM stands for the version of Clang: the
# first from 16 on that is installed or can be installed.

need_build='
cmd:g++                   g++               C++20 compiler
cmd:cmake                 cmake             build system
cmd:ninja                 ninja-build       build system
cmd:ccache                ccache            quick rebuilds
hdr:hwy/highway.h         libhwy-dev        SIMD (headers only)
hdr:CLI/CLI.hpp           libcli11-dev      command line of the tool (headers only)
hdr:nlohmann/json.hpp     nlohmann-json3-dev  JSON (headers only)
hdr:zlib.h                zlib1g-dev        compressed files
hdr:jpeglib.h             libjpeg62-turbo-dev  JPEG images
'
need_test='
hdr:gtest/gtest.h         libgtest-dev      test framework
cmd:python3               python3           files for the tests of the tool
file:/usr/lib/*/openmpi/include/mpi.h  libopenmpi-dev  training on several processes
cmd:mpirun                openmpi-bin       starts them
'
need_format='
cmd:clang-format-14       clang-format-14   source format (one version for everybody)
'
need_check='
cmd:clang++-LLVM          clang-LLVM        compiler of the ThreadSanitizer and fuzzer builds
file:/usr/lib/llvm-LLVM/lib/clang/*/lib/linux/libclang_rt.tsan*  libclang-rt-LLVM-dev  their runtimes
cmd:llvm-symbolizer-LLVM  llvm-LLVM         names in its reports
'
need_functions='
cmd:clang++-LLVM          clang-LLVM        reads the public headers
cmd:python3               python3           writes the list of public functions
'
need_site='
cmd:python3               python3           makes the pages
py:ensurepip              python3-venv      installs MkDocs below build/, from PyPI
'
need_lint='
cmd:clang-tidy-LLVM       clang-tidy-LLVM   lint
'
need_package='
cmd:dpkg-shlibdeps        dpkg-dev          dependencies of packages
'
need_python='
cmd:python3               python3           the package is for this version
py:ensurepip              python3-venv      installs auditwheel and OpenBLAS below build/, from PyPI
'
need_bench='
hdr:benchmark/benchmark.h libbenchmark-dev  benchmark framework
'
need_peers='
hdr:dnnl.h                libdnnl-dev       yardstick: oneDNN
hdr:openblas-openmp/cblas.h libopenblas-openmp-dev  yardstick: OpenBLAS (its OpenMP flavour)
hdr:libxsmm.h             libxsmm-dev       yardstick: libxsmm
'

need_jpeg_tools='
cmd:djpeg                 libjpeg-turbo-progs  yardstick: djpeg
'
need_wheel='
cmd:python3               python3           fetches PyTorch
py:pip                    python3-pip       fetches PyTorch
'
need_torch_python='
cmd:python3               python3           runs PyTorch
py:ensurepip              python3-venv      installs it below build/
'
need_reference='
file:/usr/lib/python3/dist-packages/torch/__init__.py  python3-torch  what optimizers are compared with
file:/usr/lib/python3/dist-packages/numpy/__init__.py  python3-numpy  PyTorch asks for it
'
need_torch='
hdr:ATen/ATen.h           libtorch-dev      yardstick: PyTorch, as the system has it
'

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

# may_install COMMAND...: whether this machine may be changed by the command. Root and --yes need no
# question; otherwise the user is asked, or, without a terminal, told the command.
may_install() {
  ((EUID == 0)) && return 0
  if ! command -v sudo >/dev/null; then
    say "cannot install them: neither root nor sudo. An administrator can run:"
    show_command "$@"
    return 1
  fi
  [[ $assume_yes == yes ]] && return 0
  if [[ -t 0 && -t 2 ]]; then
    say "this would install them:"
    show_command sudo "$@"
    local answer
    read -r -p 'Run it? [y/N] ' answer
    [[ $answer == [yY]* ]] && return 0
    say "nothing was installed"
    return 1
  fi
  say "to install them, add --yes to ./ex, or run:"
  show_command sudo "$@"
  return 1
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
  may_install apt-get install --no-install-recommends "${packages[@]}" || return 1
  say "installing ${packages[*]}"
  local log
  log=$(mktemp)
  as_root apt-get -qq update >"$log" 2>&1 || say "apt-get update failed; trying with the lists at hand"
  if ! as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-remove \
    --no-install-recommends install "${packages[@]}" >>"$log" 2>&1; then
    tail -n 20 "$log" >&2
    say "apt-get could not install: ${packages[*]} (its output: $log)"
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
