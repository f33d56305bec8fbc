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

# build_gpu PRESET "TARGETS" [cmake -D options]: the library for CUDA devices and programs that use it.
build_gpu() {
  local preset=$1 target="extensor_cuda $2"
  shift 2
  command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]] ||
    fail "nvcc was not found; install the CUDA toolkit (13 or newer)"
  ready_to_build "$need_test"
  fetch_cudnn_frontend
  configure_and_build "$preset" "$@"
}

# Tests that the memory checker runs: every family of kernels once. It is slow, and the errors that
# other tests provoke are findings to it.
sanitized_ops=(add gelu clip where sum argmax softmax matmul conv2d max_pool2d avg_pool2d layer_norm
  batch_norm embedding gather scatter index_add sort topk cumulative_sum cross_entropy mse_loss
  scaled_dot_product_attention dropout lstm nonzero searchsorted interpolate logsumexp norm)

# run_sanitizer LOG: compute-sanitizer on a part of the op database. 77: it is not installed.
run_sanitizer() {
  local sanitizer filter
  sanitizer=$(command -v compute-sanitizer || compgen -G '/usr/local/cuda/bin/compute-sanitizer') || {
    echo 'SKIPPED compute-sanitizer memcheck: it is not installed' >"$1"
    return 77
  }
  filter=$(printf 'Ops/CudaDatabase.AgreesWithTheCpu/%s:' "${sanitized_ops[@]}")
  "$sanitizer" --tool memcheck --error-exitcode 9 \
    build/release/tests/cuda/cuda_database_test --gtest_brief=1 --gtest_filter="$filter" >"$1" 2>&1
}

# run_ranks LOG: two ranks on the devices, which may share one, and then a rank that ends, hangs or
# disagrees. 77: there is no mpirun, no device or no NCCL.
run_ranks() {
  local programs=build/release/tests/distributed
  if [[ ! -x $programs/distributed_failing_rank ]]; then
    echo 'SKIPPED ranks: the build found no MPI' >"$1"
    return 77
  fi
  EXTENSOR_TRACE=$PWD/${1%.log}.json \
    timeout 200 tests/distributed/run.sh 2 $programs/nccl_test --gtest_brief=1 >"$1" 2>&1 || return
  timeout 200 tests/distributed/failure_test.sh $programs/distributed_failing_rank 0 cuda >>"$1" 2>&1
}

# The names of the test programs that also run with tensors on the device.
tensor_tests() {
  ctest --test-dir build/release -C gpu -N -R '_test_cuda$' | sed -n 's/.*: \(.*_test\)_cuda$/\1/p'
}

# run_tensors LOG: those programs. 77: all were skipped.
run_tensors() {
  GTEST_OUTPUT=xml:$PWD/${1%.log}/ ctest --test-dir build/release -C gpu -R '_test_cuda$' -j 4 \
    --no-tests=error --output-on-failure >"$1" 2>&1 || return
  grep -h '^SKIPPED ' build/release/Testing/Temporary/LastTest.log >>"$1" || true
  grep -q ' Passed ' "$1" || return 77
}

# Runs the test programs of tests/cuda, those that also run with tensors on the device, the tool,
# several ranks and the memory checker, and ends with the numbers of tests and cases. Without a device
# all of them are skipped, and the command says so.
command_gpu-test() {
  (($# == 0)) || fail "gpu-test takes no '$1'; see ./ex help"
  local logs=build/gpu-test programs reports program code failed=''
  mapfile -t programs < <(cd tests/cuda && basename -s .cpp -- *_test.cpp)
  build_gpu release "${programs[*]} nccl_test extensor_tool"
  build_gpu release "$(tensor_tests)" # known once the build is configured
  rm -rf $logs && mkdir -p $logs
  for program in "${programs[@]}" tensors tool ranks sanitizer; do
    code=0
    case $program in
      tool) tests/tool_test.sh build/release/cli/extensor cuda_device >$logs/tool.log 2>&1 || code=$? ;;
      tensors) run_tensors $logs/tensors.log || code=$? ;;
      ranks) run_ranks $logs/ranks.log || code=$? ;;
      sanitizer) run_sanitizer $logs/sanitizer.log || code=$? ;;
      *)
        "build/release/tests/cuda/$program" --gtest_brief=1 --gtest_output=xml:$logs/$program.xml \
          >$logs/$program.log 2>&1 || code=$?
        ;;
    esac
    case $code in
      0) say "$program: passed" ;;
      77) say "$program: skipped" ;;
      *)
        say "$program: failed (code $code)"
        grep -v '^SKIPPED ' "$logs/$program.log" | head -n 60
        failed+=" $program"
        ;;
    esac
  done
  cat $logs/*.log >$logs/all
  report_skipped $logs/all
  mapfile -t reports < <(find $logs -name '*.xml' | sort)
  python3 tools/count_tests.py "${reports[@]}"
  [[ -z $failed ]] || fail "gpu-test failed:$failed (logs in $logs)"
}

# Times the lines of bench/cuda here and in PyTorch, and prints one table of both.
command_gpu-bench() {
  local logs=build/gpu-bench
  build_gpu release extensor_cuda_bench
  rm -rf $logs && mkdir -p $logs
  build/release/bench/cuda/extensor_cuda_bench "$@" >$logs/extensor.jsonl
  if grep -q '^skipped' $logs/extensor.jsonl; then
    cat $logs/extensor.jsonl
    return
  fi
  if python3 -c 'import torch' 2>/dev/null; then
    python3 bench/cuda/lines_torch.py "$@" >$logs/pytorch.jsonl
  else
    say "python3 has no PyTorch to compare with"
    touch $logs/pytorch.jsonl
  fi
  strip -o $logs/stripped.so build/release/libextensor_cuda.so
  python3 bench/cuda/table.py --library $logs/stripped.so $logs/extensor.jsonl $logs/pytorch.jsonl
}
