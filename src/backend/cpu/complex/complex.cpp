// Elementwise functions of complex numbers: a loop over std::complex for each, run over any layout
// in blocks. The functions of the C library have the special cases of C99, Annex G, which the Array
// API standard asks for.
#include "backend/cpu/complex/complex.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <type_traits>

#include "backend/complex_words.h"
#include "backend/plan/elementwise_plan.h"
#include "core/convert.h"
#include "core/parallel.h"
#include "core/visit.h"

namespace extensor::cpu {

namespace {

using backend::ComplexOp;
using backend::ElementwiseCall;
using backend::max_inputs;
using backend::Operand;

namespace words = backend::complex_words;

// ---- functions without a word of their own

template <class T>
using Z = std::complex<T>;

template <class T>
Z<T> log1p(Z<T> z) {
  // In double for float; long double where |1 + z| is near 1.
  using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;
  return words::log1p(z, [](Wide x, Wide y) { return x * (2 + x) + y * y; });
}

template <class T>
Z<T> power(Z<T> a, Z<T> b) {
  return Z<T>(words::power(Z<double>(a), Z<double>(b)));
}

// ---- loops

using Loop = void (*)(const std::byte* const* in, std::byte* out, std::size_t n);

template <class T, auto function>
void map_one(const std::byte* const* in, std::byte* out, std::size_t n) {
  using Result = decltype(function(Z<T>()));
  const auto* x = reinterpret_cast<const Z<T>*>(in[0]);
  auto* y = reinterpret_cast<Result*>(out);
  for (std::size_t i = 0; i < n; ++i) y[i] = function(x[i]);
}

template <class T, auto function>
void map_two(const std::byte* const* in, std::byte* out, std::size_t n) {
  using Result = decltype(function(Z<T>(), Z<T>()));
  const auto* a = reinterpret_cast<const Z<T>*>(in[0]);
  const auto* b = reinterpret_cast<const Z<T>*>(in[1]);
  auto* y = reinterpret_cast<Result*>(out);
  for (std::size_t i = 0; i < n; ++i) y[i] = function(a[i], b[i]);
}

template <class T>
void choose(const std::byte* const* in, std::byte* out, std::size_t n) {
  const auto* condition = reinterpret_cast<const bool*>(in[0]);
  const auto* a = reinterpret_cast<const Z<T>*>(in[1]);
  const auto* b = reinterpret_cast<const Z<T>*>(in[2]);
  auto* y = reinterpret_cast<Z<T>*>(out);
  for (std::size_t i = 0; i < n; ++i) y[i] = condition[i] ? a[i] : b[i];
}

template <class T>
Loop loop_of(ComplexOp op) {
  switch (op) {
    case ComplexOp::where:
      return &choose<T>;
    case ComplexOp::copy:
      return &map_one<T, [](Z<T> z) { return z; }>;
#define ONE(name, expression) \
  case ComplexOp::name:       \
    return &map_one<T, [](Z<T> z) { return expression; }>;
#define TWO(name, expression) \
  case ComplexOp::name:       \
    return &map_two<T, [](Z<T> a, Z<T> b) { return expression; }>;
#define COSTLY_ONE ONE
#define COSTLY_TWO TWO
#include "backend/complex_rows.def"
  }
  __builtin_unreachable();
}

// ---- reading and writing blocks

constexpr std::int64_t block = 256;
constexpr std::int64_t widest = 16;

// Reads n elements of any dtype as Z<T>.
template <class T>
void read(DType dtype, const std::byte* from, std::int64_t stride, std::byte* to, std::int64_t n) {
  auto* target = reinterpret_cast<Z<T>*>(to);
  detail::visit_any_dtype(dtype, [&]<class From>() {
    const auto* source = reinterpret_cast<const From*>(from);
    for (std::int64_t i = 0; i < n; ++i) {
      const From value = source[i * stride];
      if constexpr (std::is_same_v<From, Z<float>> || std::is_same_v<From, Z<double>>) {
        target[i] = Z<T>(static_cast<T>(value.real()), static_cast<T>(value.imag()));
      } else {
        target[i] = Z<T>(detail::convert<T>(value), 0);
      }
    }
  });
}

// Writes n results: complex, real or bool, of the computed precision, into a dtype of that kind.
template <class T>
void write(DType dtype, const std::byte* from, std::byte* to, std::int64_t stride, std::int64_t n) {
  const auto store = [&]<class From, class To>(const From*, To*) {
    const auto* source = reinterpret_cast<const From*>(from);
    auto* target = reinterpret_cast<To*>(to);
    for (std::int64_t i = 0; i < n; ++i) target[i * stride] = static_cast<To>(source[i]);
  };
  const Z<T>* numbers = nullptr;
  const T* parts = nullptr;
  switch (dtype) {
    case DType::complex64:
      return store(numbers, static_cast<Z<float>*>(nullptr));
    case DType::complex128:
      return store(numbers, static_cast<Z<double>*>(nullptr));
    case DType::float32:
      return store(parts, static_cast<float*>(nullptr));
    case DType::float64:
      return store(parts, static_cast<double*>(nullptr));
    default:
      return store(static_cast<const bool*>(nullptr), static_cast<bool*>(nullptr));
  }
}

template <class T>
void run(ComplexOp op, const ElementwiseCall& call) {
  const Loop loop = loop_of<T>(op);
  const int inputs = call.input_count;
  const DType compute = dtype_of<Z<T>>;
  // Strides of operands that are dense or single elements are not given.
  Strides dense(call.shape->size(), 1), single(call.shape->size(), 0);
  for (std::size_t d = dense.size(), step = 1; d-- > 0;) {
    dense[d] = static_cast<std::int64_t>(step);
    step *= static_cast<std::size_t>((*call.shape)[d]);
  }
  const std::int64_t* strides[plan::max_operands] = {call.contiguous ? dense.data()
                                                                     : call.out.strides};
  for (int k = 0; k < inputs; ++k) {
    const bool repeats = call.repeats[k] || call.inputs[k].is_number();
    strides[k + 1] = repeats           ? single.data()
                     : call.contiguous ? dense.data()
                                       : call.inputs[k].strides;
  }
  const plan::ElementwisePlan plan = plan::plan_elementwise(*call.shape, inputs + 1, strides);
  const std::size_t inner = plan.sizes.size() - 1;
  const std::int64_t length = plan.sizes[inner];
  const std::int64_t blocks = (length + block - 1) / block;
  std::int64_t rows = 1;
  for (std::size_t d = 0; d < inner; ++d) rows *= plan.sizes[d];
  const bool writes_directly =
      plan.strides[0][inner] == 1 && (call.out.dtype == compute || !is_complex(call.out.dtype));
  const std::int64_t grain = std::max<std::int64_t>(1, 4096 / std::min(length, block));
  detail::parallel_for(rows * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    alignas(64) std::byte staged[max_inputs][block * widest];
    alignas(64) std::byte results[block * widest];
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t first = unit % blocks * block;
      const std::int64_t n = std::min(block, length - first);
      std::int64_t row = unit / blocks, offsets[plan::max_operands];
      for (int k = 0; k <= inputs; ++k) offsets[k] = first * plan.strides[k][inner];
      for (std::size_t d = inner; d-- > 0;) {
        const std::int64_t at = row % plan.sizes[d];
        row /= plan.sizes[d];
        for (int k = 0; k <= inputs; ++k) offsets[k] += at * plan.strides[k][d];
      }
      const std::byte* in[max_inputs];
      for (int k = 0; k < inputs; ++k) {
        const Operand& x = call.inputs[k];
        const auto size = static_cast<std::int64_t>(itemsize(x.dtype));
        const std::int64_t stride = plan.strides[k + 1][inner];
        const std::byte* from = x.is_number() ? x.number : x.data + offsets[k + 1] * size;
        const bool is_condition = op == ComplexOp::where && k == 0;
        if (stride == 1 && (is_condition || x.dtype == compute)) {
          in[k] = from;
          continue;
        }
        in[k] = staged[k];
        if (is_condition) {
          for (std::int64_t i = 0; i < n; ++i) staged[k][i] = from[i * stride];
        } else {
          read<T>(x.dtype, from, stride, staged[k], n);
        }
      }
      std::byte* to =
          call.out.data + offsets[0] * static_cast<std::int64_t>(itemsize(call.out.dtype));
      if (writes_directly) {
        loop(in, to, static_cast<std::size_t>(n));
      } else {
        loop(in, results, static_cast<std::size_t>(n));
        write<T>(call.out.dtype, results, to, plan.strides[0][inner], n);
      }
    }
  });
}

}  // namespace

void complex_elementwise(ComplexOp op, const ElementwiseCall& call) {
  if (call.numel == 0) return;
  call.compute == DType::complex64 ? run<float>(op, call) : run<double>(op, call);
}

}  // namespace extensor::cpu
