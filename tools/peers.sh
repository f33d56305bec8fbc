# PyTorch, which the benchmarks compare with. Sourced by ./ex.
# shellcheck shell=bash disable=SC2154

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
