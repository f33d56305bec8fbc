# The commands gpu-test and gpu-bench. Sourced by ./ex.
# shellcheck shell=bash disable=SC2154

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
  local programs program result=0 code
  mapfile -t programs < <(cd tests/cuda && basename -s .cpp -- *_test.cpp)
  build_gpu "${programs[@]}"
  for program in "${programs[@]}"; do
    code=0
    "build/release/tests/cuda/$program" --gtest_brief=1 || code=$?
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
