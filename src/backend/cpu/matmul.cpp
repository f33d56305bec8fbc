// Floats use the GEMM engine; integers, which training does not need, a plain loop that wraps.
#include "backend/cpu/matmul.h"

#include <type_traits>

#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/width.h"
#include "core/parallel.h"

namespace extensor::cpu {

namespace {

using backend::MatmulCall;

template <class T>
void multiply_integers(const MatmulCall& call) {
  using Wide = std::uint64_t;  // products and sums modulo 2⁶⁴ are right modulo any narrower width
  const std::int64_t work = call.n * call.k;
  detail::parallel_for(
      call.batch * call.m, std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, work)),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          const std::int64_t product = row / call.m, i = row % call.m;
          const T* a = reinterpret_cast<const T*>(call.a.data) + call.a_offsets[product];
          const T* b = reinterpret_cast<const T*>(call.b.data) + call.b_offsets[product];
          T* c = reinterpret_cast<T*>(call.c.data) + call.c_offsets[product] + i * call.n;
          for (std::int64_t j = 0; j < call.n; ++j) {
            Wide sum = 0;
            for (std::int64_t p = 0; p < call.k; ++p) {
              sum += static_cast<Wide>(a[i * call.a.strides[0] + p * call.a.strides[1]]) *
                     static_cast<Wide>(b[p * call.b.strides[0] + j * call.b.strides[1]]);
            }
            if constexpr (std::is_same_v<T, bool>) {
              c[j] = sum != 0;
            } else {
              c[j] = static_cast<T>(sum);
            }
          }
        }
      });
}

}  // namespace

void matmul(const MatmulCall& call) {
  if (call.batch == 0 || call.m == 0 || call.n == 0) return;
  if (!is_floating_point(call.dtype)) {
    return visit_unsigned(call.dtype, [&]<class T>() {
      if constexpr (std::is_integral_v<T>) multiply_integers<T>(call);
    });
  }
  GemmCall gemm_call{.dtype = call.dtype,
                     .m = call.m,
                     .n = call.n,
                     .k = call.k,
                     .a = {call.a.data, call.a.strides[0], call.a.strides[1]},
                     .b = {call.b.data, call.b.strides[0], call.b.strides[1]},
                     .c = call.c.data,
                     .c_row_stride = call.n,
                     .bias = call.bias,
                     .activation = call.activation,
                     .accumulate = call.accumulate};
  if (call.batch == 1) {
    const auto size = static_cast<std::int64_t>(itemsize(call.dtype));
    gemm_call.a.data = call.a.data + call.a_offsets[0] * size;
    gemm_call.b.data = call.b.data + call.b_offsets[0] * size;
    gemm_call.c = call.c.data + call.c_offsets[0] * size;
    return gemm(gemm_call);
  }
  gemm_batched(gemm_call, call.batch, call.a_offsets, call.b_offsets, call.c_offsets);
}

}  // namespace extensor::cpu
