# PyTorch, which the benchmarks compare with. Sourced by ./ex.
# shellcheck shell=bash disable=SC2154

torch_version=2.15

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
  if fetch_wheel "$dir" "torch==$torch_version.*" && fetch_cuda_libraries "$dir"; then
    touch "$dir/complete"
  else
    rm -rf "$dir" && mkdir -p "$dir" && touch "$dir/unavailable"
    say "PyTorch's wheel cannot be had; trying the system's"
    install "$need_torch" || say "going on without PyTorch: its column stays empty"
  fi
}

# PyTorch with its Python package, in a virtual environment: sets torch_python. Its builds for the CPU alone are
# smaller, but not on PyPI. EXTENSOR_PYTHON names another interpreter that has it.
find_torch_python() {
  local dir=build/peers/python
  torch_python=${EXTENSOR_PYTHON:-$dir/bin/python}
  if [[ ! ${EXTENSOR_PYTHON:-} && ! -e $dir/complete ]]; then
    install "$need_torch_python" || return 1
    say "fetching PyTorch $torch_version, once, into $dir: 200 MB, or 3 GB from PyPI"
    rm -rf "$dir"
    python3 -m venv "$dir" || return 1
    local pip=("$dir/bin/python" -m pip --disable-pip-version-check -q install "torch==$torch_version.*" numpy)
    "${pip[@]}" --index-url https://download.pytorch.org/whl/cpu --timeout 20 --retries 1 2>/dev/null ||
      "${pip[@]}" || return 1
    touch "$dir/complete"
  fi
  "$torch_python" -W ignore -c 'import torch'
}
