# The other commands. Sourced by ./ex.
# shellcheck shell=bash disable=SC2154

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
  cd "$caller" || exit
  "$tool" train "${dataset[@]}" "$@"
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
  if [[ ${1:-} == ops ]]; then
    shift
    command_bench_ops "$@"
    return
  fi
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

# bench ops [OPTIONS] [REGEX]: every op beside PyTorch, from its Python package; bench/ops/ops.py says why.
command_bench_ops() {
  local worker=build/release/bench/ops/extensor_bench_ops
  if [[ " $* " == *" --help "* || " $* " == *" -h "* ]]; then
    python3 bench/ops/ops.py --help
    return
  fi
  target=extensor_bench_ops build_preset release
  find_torch_python || fail "there is no PyTorch to compare with; EXTENSOR_PYTHON can name a Python that has it"
  python3 bench/ops/ops.py --worker $worker --python "$torch_python" "$@"
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
  if install "$need_jpeg_tools"; then
    say "JPEG images"
    build/bench/bench/extensor_long jpeg "$out"
  fi
  rm -rf "$out"
}

command_docs() {
  (($# == 0)) || fail "docs takes no '$1'; see ./ex help"
  choose_llvm
  install "$need_functions" || exit 1
  python3 op_database/read_headers.py --clang "clang++-$llvm" || fail "the headers cannot be read"
  target=extensor_tool build_preset release
  build/release/cli/extensor ops --markdown >docs/ops.md
  python3 op_database/reference_pages.py --clang "clang++-$llvm" || fail "the headers cannot be read"
  python3 tests/pytorch/equivalents.py
  python3 tests/numpy/rows.py
  say "wrote op_database/functions.inc, docs/ops.md, docs/reference and the tables of docs/coming-from-*.md"
}

# The documentation as a site. MkDocs and the Python package, from whose stubs the Python reference is made,
# are installed in virtual environments below build/.
command_site() {
  read_preset "$@"
  ((${#rest[@]} == 0)) || fail "site takes no '${rest[0]}'; see ./ex help"
  install "$need_site" || exit 1
  local venv=build/site/venv pins=tools/site/requirements.txt package=build/$preset/python/package
  target='extensor extensor_tool' build_preset "$preset"
  python/install_package.sh . "build/$preset" "$package" || fail "the Python package was not built"
  if ! cmp -s $pins $venv/installed.txt; then
    rm -rf $venv
    python3 -m venv $venv
    $venv/bin/pip --disable-pip-version-check -q install -r $pins || fail "pip cannot install $pins"
    cp $pins $venv/installed.txt
  fi
  rm -rf build/site/pages
  python3 tools/site/pages.py build/site/pages
  python3 python/write_reference.py "$package"/lib/python3.*/site-packages/extensor docs/ops.md build/site/pages/python
  # Without --quiet, which would also let warnings pass.
  NO_MKDOCS_2_WARNING=1 $venv/bin/mkdocs build --strict -f tools/site/mkdocs.yml >build/site/log 2>&1 || {
    grep -v INFO build/site/log >&2
    fail "the site was not built"
  }
  say "wrote build/site/html; open build/site/html/index.html in a browser"
}

# python [--no-lapack] [--python PROGRAM]: a wheel of the Python package, for one version of Python.
command_python() {
  local python=python3 options=() headers wheel
  while (($#)); do
    case $1 in
      --no-lapack) options+=("$1") ;;
      --python)
        (($# > 1)) || fail "--python wants an interpreter, such as python3.12"
        python=$2
        shift
        ;;
      -*) one_of option "$1" "--no-lapack --python" ;;
      *) fail "python takes no '$1'; see ./ex help" ;;
    esac
    shift
  done
  install "$need_python" || exit 1
  headers=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))') || fail "'$python' does not run"
  ready_to_build "file:$headers/Python.h  ${python##*/}-dev  compiles the bindings"
  target='extensor extensor_tool' configure_and_build wheel
  wheel=$(python/build_wheel.sh . build/wheel build/wheels --python "$python" "${options[@]}") ||
    fail "the wheel was not built"
  python/check_wheel.sh "$wheel" --python "$python" || fail "$wheel does not work in a new virtual environment"
  say "wrote $wheel; to install it:"
  show_command "$python" -m pip install "$wheel"
}

# array-api DIR [PYTEST_ARGUMENTS...]: the package, in a new virtual environment, against the suite.
command_array-api() {
  (($#)) || fail "array-api wants a checkout of github.com/data-apis/array-api-tests"
  local suite
  suite=$(cd "$caller" && realpath -- "$1")
  shift
  [[ -d $suite/array_api_tests ]] || fail "'$suite' is no checkout of github.com/data-apis/array-api-tests"
  [[ -d $suite/array-api/src ]] || fail "'$suite/array-api' is empty: git submodule update --init"
  target=extensor build_preset release
  rm -rf build/array-api
  mkdir -p build/array-api
  python/install_package.sh "$PWD" build/release build/array-api/venv -r "$suite/requirements.txt" ||
    fail "the package was not installed"
  cd build/array-api # not in the sources, whose package has no compiled module
  venv/bin/python ../../python/array_api.py "$suite" "$@"
}

# Debian packages of the library, its headers and the tool.
command_package() {
  (($# == 0)) || fail "package takes no '$1'; see ./ex help"
  install "$need_package" || exit 1
  ready_to_build
  configure_and_build package
  rm -rf build/packages
  cpack --config build/package/CPackConfig.cmake -B "$PWD/build/packages" >build/package/cpack.log 2>&1 || {
    cat build/package/cpack.log >&2
    fail "packaging failed"
  }
  rm -rf build/packages/_CPack_Packages
  say "wrote build/packages; to install it:"
  show_command sudo apt-get install ./build/packages/*.deb
}
