// Comparisons, predicates and `where` on dense operands, several elements at a time.
#include <cstring>

#include "backend/cuda/context.h"
#include "backend/cuda/elementwise.h"
#include "backend/cuda/elementwise_rows.cuh"

namespace extensor::backend::cuda {

namespace {

constexpr int logical_threads = 128;

// Elements of a thread in a test.
template <class T>
constexpr int test_width = sizeof(T) == 8 ? 4 : 8;

template <class T, int count>
struct alignas(sizeof(T) * count > 16 ? 16 : sizeof(T) * count) Several {
  T at[count];
};
// The value that tests compare: halves as floats.
template <class T>
__device__ __forceinline__ auto plain(T value) {
  if constexpr (is_half_type<T>) {
    return load_as_compute(value);
  } else {
    return value;
  }
}

// ---- comparisons and predicates

template <class T>
struct TestCall {
  std::int64_t count;
  const T* inputs[2];
  Form form[2];
  Number number[2];
  bool* out;
};

template <class T>
__device__ __forceinline__ auto once(const TestCall<T>& call, int k) {
  using C = decltype(plain(T()));
  if (call.form[k] == Form::single) return plain(*call.inputs[k]);
  if constexpr (std::is_floating_point_v<C>) return static_cast<C>(call.number[k].real);
  return static_cast<C>(call.number[k].natural);
}

// With `all_dense` no operand is a number or repeats one element.
template <class Test, class T, int inputs, bool all_dense>
__global__ void __launch_bounds__(logical_threads)
    dense_test(const __grid_constant__ TestCall<T> call) {
  using C = decltype(plain(T()));
  const auto is_dense = [&](int k) { return all_dense || call.form[k] == Form::dense; };
  const auto apply = [](const C* x) {
    if constexpr (inputs == 1) {
      return Test::apply(x[0]);
    } else {
      return Test::apply(x[0], x[1]);
    }
  };
  constexpr int width = test_width<T>;
  const std::int64_t packs = call.count / width;
  if (const std::int64_t p = first_index(); p < packs) {
    Several<T, width> read[inputs];
    C same[inputs];
#pragma unroll
    for (int k = 0; k < inputs; ++k) {
      if (is_dense(k)) {
        read[k] = reinterpret_cast<const Several<T, width>*>(call.inputs[k])[p];
      } else {
        same[k] = once(call, k);
      }
    }
    Several<bool, width> written;
#pragma unroll
    for (int e = 0; e < width; ++e) {
      C x[inputs];
#pragma unroll
      for (int k = 0; k < inputs; ++k) {
        x[k] = is_dense(k) ? plain(read[k].at[e]) : same[k];
      }
      written.at[e] = apply(x);
    }
    reinterpret_cast<Several<bool, width>*>(call.out)[p] = written;
  }
  const std::int64_t i = packs * width + first_index();
  if (i >= call.count) return;
  C x[inputs];
#pragma unroll
  for (int k = 0; k < inputs; ++k) {
    x[k] = is_dense(k) ? plain(call.inputs[k][i]) : once(call, k);
  }
  call.out[i] = apply(x);
}

// One thread for every pack.
std::int64_t blocks_of(std::int64_t packs) { return packs / logical_threads + 1; }

template <class Test, class T, int inputs>
void launch_test(const TestCall<T>& call) {
  const auto blocks = static_cast<unsigned>(blocks_of(call.count / test_width<T> + 1));
  bool all_dense = true;
  for (int k = 0; k < inputs; ++k) all_dense = all_dense && call.form[k] == Form::dense;
  if (all_dense) {
    dense_test<Test, T, inputs, true><<<blocks, logical_threads, 0, stream()>>>(call);
  } else {
    dense_test<Test, T, inputs, false><<<blocks, logical_threads, 0, stream()>>>(call);
  }
}

template <class T>
bool launch_test(ElementwiseOp op, const TestCall<T>& call) {
  switch (op) {
#define COMPARE(name, ...)                         \
  case ElementwiseOp::name:                        \
    launch_test<rows_of::name##_test, T, 2>(call); \
    return true;
#define PREDICATE(name, ...)                       \
  case ElementwiseOp::name:                        \
    launch_test<rows_of::name##_test, T, 1>(call); \
    return true;
#include "extensor/tables/logical.def"
    default:
      return false;
  }
}

bool is_aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

template <class T>
bool run_test(const ElementwiseCall& call, DType dtype) {
  TestCall<T> passed{};
  passed.count = call.numel;
  passed.out = reinterpret_cast<bool*>(call.out.data);
  for (int k = 0; k < call.input_count; ++k) {
    const Operand& input = call.inputs[k];
    if (input.is_number()) {
      passed.form[k] = Form::number;
      passed.number[k] = number_of(input, call.compute);
      continue;
    }
    if (input.dtype != dtype) return false;
    passed.form[k] = call.repeats[k] ? Form::single : Form::dense;
    if (!call.repeats[k] && !is_aligned(input.data)) return false;
    passed.inputs[k] = reinterpret_cast<const T*>(input.data);
  }
  if (!launch_test(call.op, passed)) return false;
  launched("elementwise");
  return true;
}

// ---- where

template <class T>
struct WhereCall {
  std::int64_t count;
  const bool* condition;
  const T* inputs[2];
  Form form[2];
  T number[2];
  T* out;
};

template <class T, bool all_dense>
__global__ void __launch_bounds__(logical_threads)
    dense_where(const __grid_constant__ WhereCall<T> call) {
  begin_overlapped();
  constexpr int count = sizeof(T) == 8 ? 2 : 16 / sizeof(T);
  const auto is_dense = [&](int k) { return all_dense || call.form[k] == Form::dense; };
  const auto once = [&](int k) {
    return call.form[k] == Form::single ? *call.inputs[k] : call.number[k];
  };
  const std::int64_t packs = call.count / count;
  if (const std::int64_t p = first_index(); p < packs) {
    const Several<bool, count> condition =
        reinterpret_cast<const Several<bool, count>*>(call.condition)[p];
    Several<T, count> read[2];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      if (is_dense(k)) {
        read[k] = reinterpret_cast<const Several<T, count>*>(call.inputs[k])[p];
      } else {
        const T same = once(k);
#pragma unroll
        for (int e = 0; e < count; ++e) read[k].at[e] = same;
      }
    }
#pragma unroll
    for (int e = 0; e < count; ++e) {
      if (!condition.at[e]) read[0].at[e] = read[1].at[e];
    }
    reinterpret_cast<Several<T, count>*>(call.out)[p] = read[0];
  }
  const std::int64_t i = packs * count + first_index();
  if (i >= call.count) return;
  const int k = call.condition[i] ? 0 : 1;
  call.out[i] = is_dense(k) ? call.inputs[k][i] : once(k);
}

// The bits of a number in the dtype of the result.
template <class T>
T bits_of(const Operand& input, DType dtype) {
  T bits{};
  const Number number = is_half(dtype) ? Number{} : number_of(input, dtype);
  if (is_half(dtype)) {
    const auto value = static_cast<float>(number_of(input, DType::float32).real);
    bits = static_cast<T>(dtype == DType::float16 ? Float16(value).bits() : BFloat16(value).bits());
  } else if (dtype == DType::float32) {
    const auto value = static_cast<float>(number.real);
    std::memcpy(&bits, &value, sizeof bits < sizeof value ? sizeof bits : sizeof value);
  } else if (dtype == DType::float64) {
    std::memcpy(&bits, &number.real, sizeof bits);
  } else {
    bits = static_cast<T>(number.natural);
  }
  return bits;
}

template <class T>
bool run_where(const ElementwiseCall& call) {
  const Operand& condition = call.inputs[0];
  if (condition.is_number() || call.repeats[0] || condition.dtype != DType::bool_) return false;
  if (!is_aligned(condition.data)) return false;
  WhereCall<T> passed{};
  passed.count = call.numel;
  passed.condition = reinterpret_cast<const bool*>(condition.data);
  passed.out = reinterpret_cast<T*>(call.out.data);
  for (int k = 0; k < 2; ++k) {
    const Operand& input = call.inputs[k + 1];
    if (input.is_number()) {
      passed.form[k] = Form::number;
      passed.number[k] = bits_of<T>(input, call.out.dtype);
      continue;
    }
    if (input.dtype != call.out.dtype) return false;
    passed.form[k] = call.repeats[k + 1] ? Form::single : Form::dense;
    if (!call.repeats[k + 1] && !is_aligned(input.data)) return false;
    passed.inputs[k] = reinterpret_cast<const T*>(input.data);
  }
  constexpr std::int64_t count = sizeof(T) == 8 ? 2 : 16 / sizeof(T);
  const auto blocks = static_cast<unsigned>(blocks_of(call.numel / count + 1));
  const bool all_dense = passed.form[0] == Form::dense && passed.form[1] == Form::dense;
  launch_overlapped("elementwise", all_dense ? &dense_where<T, true> : &dense_where<T, false>,
                    blocks, logical_threads, 0, passed);
  return true;
}

// Any layout whose innermost dimension has whole packs, along which operands are dense or repeat
// one element.
template <class T>
struct WherePacksCall {
  Iteration over;
  const bool* condition;
  const T* inputs[2];
  T* out;
  Form condition_form;
  Form form[2];
  T number[2];
};

template <class T>
__global__ void __launch_bounds__(logical_threads)
    where_packs(const __grid_constant__ WherePacksCall<T> call) {
  constexpr int count = sizeof(T) == 8 ? 2 : 16 / sizeof(T);
  for (std::int64_t p = first_index(); p < call.over.count; p += index_step()) {
    std::int64_t at[4];
    find_offsets(call.over, p, at);
    Several<bool, count> condition;
    if (call.condition_form == Form::dense) {
      condition = *reinterpret_cast<const Several<bool, count>*>(call.condition + at[1]);
    } else {
#pragma unroll
      for (int e = 0; e < count; ++e) condition.at[e] = call.condition[at[1]];
    }
    Several<T, count> read[2];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      if (call.form[k] == Form::dense) {
        read[k] = *reinterpret_cast<const Several<T, count>*>(call.inputs[k] + at[k + 2]);
      } else {
        const T same = call.form[k] == Form::single ? call.inputs[k][at[k + 2]] : call.number[k];
#pragma unroll
        for (int e = 0; e < count; ++e) read[k].at[e] = same;
      }
    }
#pragma unroll
    for (int e = 0; e < count; ++e) {
      if (!condition.at[e]) read[0].at[e] = read[1].at[e];
    }
    *reinterpret_cast<Several<T, count>*>(call.out + at[0]) = read[0];
  }
}

template <class T>
bool run_where_packs(const ElementwiseCall& call) {
  constexpr std::int64_t count = sizeof(T) == 8 ? 2 : 16 / sizeof(T);
  const Operand& condition = call.inputs[0];
  if (call.contiguous || condition.is_number() || condition.dtype != DType::bool_) return false;
  if (!is_aligned(call.out.data)) return false;
  const plan::ElementwisePlan plan = plan_of(call);
  const std::size_t rank = plan.sizes.size(), inner = rank - 1;
  if (rank > max_kernel_dims || plan.sizes[inner] % count != 0) return false;
  WherePacksCall<T> passed{};
  passed.condition = reinterpret_cast<const bool*>(condition.data);
  passed.out = reinterpret_cast<T*>(call.out.data);
  Dims sizes = plan.sizes, strides[max_inputs + 1];
  sizes[inner] /= count;
  for (int k = 0; k < 4; ++k) {
    strides[k] = plan.strides[k];
    const std::int64_t step = strides[k][inner];
    if (step != 1 && (k == 0 || step != 0)) return false;
    strides[k][inner] *= count;
    const bool is_number = k > 0 && call.inputs[k - 1].is_number();
    if (k == 1) passed.condition_form = step == 1 ? Form::dense : Form::single;
    if (k > 1) {
      const Operand& input = call.inputs[k - 1];
      passed.form[k - 2] = is_number ? Form::number : step == 1 ? Form::dense : Form::single;
      if (is_number) {
        passed.number[k - 2] = bits_of<T>(input, call.out.dtype);
      } else if (input.dtype != call.out.dtype) {
        return false;
      }
      passed.inputs[k - 2] = reinterpret_cast<const T*>(input.data);
    }
    if (is_number || step == 0) continue;
    if (k > 0 && !is_aligned(call.inputs[k - 1].data)) return false;
    for (std::size_t d = 0; d < inner; ++d) {
      if (strides[k][d] % count != 0) return false;
    }
  }
  for_each_part(sizes, strides, 4,
                [&](const Iteration& over, const std::int64_t*) { passed.over = over; });
  where_packs<<<blocks_for(passed.over.count, logical_threads, 16), logical_threads, 0, stream()>>>(
      passed);
  launched("elementwise");
  return true;
}

}  // namespace

bool run_logical(const ElementwiseCall& call) {
  if (call.op == ElementwiseOp::where && !call.contiguous) {
    return with_bits_type(call.out.dtype, [&]<class T>() { return run_where_packs<T>(call); });
  }
  if (!call.contiguous || !is_aligned(call.out.data)) return false;
  if (call.op == ElementwiseOp::where) {
    return with_bits_type(call.out.dtype, [&]<class T>() { return run_where<T>(call); });
  }
  if (call.out.dtype != DType::bool_ || call.input_count > 2) return false;
  const DType dtype = call.inputs[0].is_number() ? call.inputs[1].dtype : call.inputs[0].dtype;
  switch (dtype) {
    case DType::float32:
      return call.compute == dtype && run_test<float>(call, dtype);
    case DType::float16:
      return call.compute == DType::float32 && run_test<__half>(call, dtype);
    case DType::bfloat16:
      return call.compute == DType::float32 && run_test<__nv_bfloat16>(call, dtype);
    case DType::int64:
      return call.compute == dtype && run_test<std::int64_t>(call, dtype);
    default:
      return false;
  }
}

}  // namespace extensor::backend::cuda
