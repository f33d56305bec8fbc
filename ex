#!/usr/bin/env bash
# The entry point for all tasks; see `./ex help`. The functions behind it are in tools/.
# shellcheck disable=SC2034  # tools/ reads the variables
set -euo pipefail
caller=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")"

commands='train build test bench figures check format docs site package python array-api gpu-test gpu-bench help'
presets='release ci dev asan tsan fuzz bench'
assume_yes=no

usage() {
  cat <<'TEXT'
ExTensor. Each command installs what is missing, builds, and runs. Without root, it asks before it
uses sudo; --yes answers in advance.

  ./ex train [DATASET] [OPTIONS]    train a network on handwritten digits, with a report to look at,
                                    or on what is named, as `extensor train`
  ./ex build [--preset P]           build the library, its tool and its tests
  ./ex test  [--preset P] [REGEX]   build and run the tests (those whose name matches)
  ./ex bench [--no-peers] [REGEX]   time ExTensor beside PyTorch, oneDNN, OpenBLAS, libxsmm
  ./ex bench ops [OPTIONS] [REGEX]  time every op beside PyTorch, list those that are slower, worst first;
                                    --help lists the options
  ./ex figures DIR                  the figures that take minutes, on MNIST and tiny Shakespeare in DIR
  ./ex check [STEP...]              format, lint, asan (with ubsan), tsan, fuzz; all by default;
                                    by name only: quick (asan on a few programs),
                                    pytorch (ops, optimizers, models against PyTorch's),
                                    kill (a run killed 200 times and resumed),
                                    ranks (50 runs in which a rank is killed or hangs),
                                    cuda (the library for CUDA devices; needs nvcc, no GPU)
  ./ex format                       put the sources into the format that check asks for
  ./ex docs                         write docs/ops.md, docs/reference and tables, from the public headers
                                    and the op database
  ./ex site  [--preset P]           make a site of the documentation in build/site/html, with MkDocs from PyPI
  ./ex package                      write Debian packages to build/packages
  ./ex python [--no-lapack] [--python PROGRAM]
                                    write a wheel of the Python package to build/wheels, for Linux of 2022 and
                                    later (glibc 2.34)
  ./ex array-api DIR [OPTIONS]      run the conformance suite of the Python Array API, from its checkout in DIR
  ./ex gpu-test                     build and run the tests of CUDA devices
  ./ex gpu-bench [PART]...          time CUDA devices beside PyTorch, if python3 has it: the lines whose
                                    names contain a PART, or all
  ./ex help                         this text

Presets: release (default), dev (this machine's SIMD only, quick to rebuild), ci (warnings are
errors), asan, tsan, fuzz. Build directories are build/<preset>.
TEXT
}

for part in messages packages building peers checks commands gpu; do
  # shellcheck source=/dev/null
  source tools/$part.sh
done

main() {
  local word words=()
  for word in "$@"; do
    if [[ $word == --yes ]]; then assume_yes=yes; else words+=("$word"); fi
  done
  set -- ${words[@]+"${words[@]}"}
  word=${1:-help}
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
