// Optimizer steps of many tensors in one launch: the list of tensors travels as a kernel parameter,
// and each block works on one chunk of one tensor.
#include "backend/cpu/simd/lanes-inl.h"
#include "backend/cuda/group.cuh"
#include "backend/cuda/kernels.h"
#include "backend/optimizer_rows.h"

namespace extensor::cpu::HWY_NAMESPACE {

using backend::OptimizerOp;

// ---- the rows of the table

HWY_INLINE bool take_bit(std::uint32_t& bits) {
  const bool bit = (bits & 1) != 0;
  bits >>= 1;
  return bit;
}

// Row<op>::update changes one element of a parameter and of all its states; those that the variants
// do not use are zeros.
template <OptimizerOp op>
struct Row;
#define RANGE(...)
#define REQUIRE(...)
#define VARIANT(word, condition) [[maybe_unused]] const bool word = take_bit(variants);
#define STATE(name, when, value) [[maybe_unused]] V& name = *states++;
#define COEFFICIENT(word, value) [[maybe_unused]] const V word = *coefficients++;
#define OPTIMIZER(name, Class, Options, State, steps, declarations, ...)                           \
  template <>                                                                                      \
  struct Row<OptimizerOp::name> {                                                                  \
    static constexpr int states = backend::optimizer_row<OptimizerOp::name>(0).states;             \
    static constexpr int coefficients = backend::optimizer_row<OptimizerOp::name>(0).coefficients; \
    template <class V>                                                                             \
    static HWY_INLINE void update([[maybe_unused]] std::uint32_t variants, V& p, V g, V* states,   \
                                  const V* coefficients) {                                         \
      declarations __VA_ARGS__;                                                                    \
    }                                                                                              \
  };
#include "extensor/tables/optimizers.def"
#undef RANGE
#undef REQUIRE
#undef VARIANT
#undef STATE
#undef COEFFICIENT

// A moving average is not in the table, and has no parameter.
template <>
struct Row<OptimizerOp::average> {
  static constexpr int states = 1, coefficients = 1;
  template <class V>
  static HWY_INLINE void update(std::uint32_t, V&, V g, V* states, const V* coefficients) {
    states[0] = multiply_add(g - states[0], coefficients[0], states[0]);
  }
};

template <>
struct Row<OptimizerOp::scale> {
  static constexpr int states = 0, coefficients = 1;
  template <class V>
  static HWY_INLINE void update(std::uint32_t, V& p, V g, V*, const V* coefficients) {
    p = g * coefficients[0];
  }
};

}  // namespace extensor::cpu::HWY_NAMESPACE

namespace extensor::backend::cuda {

namespace {

namespace lanes = cpu::HWY_NAMESPACE;

constexpr int threads = 256;
constexpr int turns = 4;  // packs of a thread in a chunk

struct StepItem {
  std::int64_t numel;
  std::int64_t first_chunk;
  void* param;
  const void* grad;
  void* states[max_optimizer_states];
};

template <int capacity>
struct StepList {
  int count;
  bool maximize;
  bool vectors;  // all addresses are aligned for packs
  std::uint32_t variants;
  double coefficients[max_optimizer_coefficients];
  const double* condition;  // as in OptimizerCall
  const double* factor;     // likewise
  StepItem items[capacity];
};
// Few tensors, for short launches; and as many as the 32,764 bytes of parameters hold.
constexpr int short_list = 16, long_list = 560;
static_assert(sizeof(StepList<long_list>) <= 32764);

template <class S>
inline constexpr int step_width = std::is_same_v<S, double> ? 2 : 4;

template <int width, class C, class S>
__device__ __forceinline__ void load_elements(const void* from, std::int64_t at, C* to) {
  const auto pack = *reinterpret_cast<const Pack<S, width>*>(static_cast<const S*>(from) + at);
#pragma unroll
  for (int e = 0; e < width; ++e) to[e] = load_as_compute(pack.at[e]);
}
template <int width, class C, class S>
__device__ __forceinline__ void store_elements(const C* from, void* to, std::int64_t at) {
  Pack<S, width> pack;
#pragma unroll
  for (int e = 0; e < width; ++e) pack.at[e] = store_from_compute<S>(from[e]);
  *reinterpret_cast<Pack<S, width>*>(static_cast<S*>(to) + at) = pack;
}

// S is the type of the parameter and its gradient, Q that of the states.
template <OptimizerOp op, class S, class Q, int width, int capacity>
__device__ __forceinline__ void step_pack(const StepList<capacity>& list, const StepItem& item,
                                          std::int64_t at) {
  using Row = lanes::Row<op>;
  using C = Compute<S>;
  using V = lanes::Lanes<C>;
  V coefficients[Row::coefficients];
#pragma unroll
  for (int k = 0; k < Row::coefficients; ++k) coefficients[k] = V(list.coefficients[k]);
  if constexpr (op == OptimizerOp::scale) {
    if (list.factor != nullptr) coefficients[0] = V(*list.factor);
  }
  const V sign(list.maximize ? -1 : 1);
  C param[width] = {}, grad[width], states[Row::states + 1][width] = {};
  if constexpr (op != OptimizerOp::average && op != OptimizerOp::scale) {
    load_elements<width, C, S>(item.param, at, param);
  }
  load_elements<width, C, S>(item.grad, at, grad);
#pragma unroll
  for (int k = 0; k < Row::states; ++k) {
    if (item.states[k] != nullptr) load_elements<width, C, Q>(item.states[k], at, states[k]);
  }
#pragma unroll
  for (int e = 0; e < width; ++e) {
    V p(param[e]), own[Row::states + 1];
#pragma unroll
    for (int k = 0; k < Row::states; ++k) own[k] = V(states[k][e]);
    Row::template update<V>(list.variants, p, V(grad[e]) * sign, own, coefficients);
    param[e] = p.v.raw;
#pragma unroll
    for (int k = 0; k < Row::states; ++k) states[k][e] = own[k].v.raw;
  }
  if (op != OptimizerOp::average) store_elements<width, C, S>(param, item.param, at);
#pragma unroll
  for (int k = 0; k < Row::states; ++k) {
    if (item.states[k] != nullptr) store_elements<width, C, Q>(states[k], item.states[k], at);
  }
}

template <OptimizerOp op, class S, class Q, int capacity>
__global__ void __launch_bounds__(threads) step(const __grid_constant__ StepList<capacity> list) {
  constexpr int width = step_width<S>;
  if (list.condition != nullptr && !isfinite(*list.condition)) return;
  const auto chunk = static_cast<std::int64_t>(blockIdx.x);
  int low = 0, high = list.count - 1;  // the last item whose first chunk is not beyond this one
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (list.items[middle].first_chunk <= chunk) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const StepItem& item = list.items[low];
  const std::int64_t begin = (chunk - item.first_chunk) * (threads * turns * width);
  if (list.vectors) {
#pragma unroll
    for (int turn = 0; turn < turns; ++turn) {
      const std::int64_t at = begin + (turn * threads + static_cast<int>(threadIdx.x)) * width;
      if (at + width <= item.numel) {
        step_pack<op, S, Q, width>(list, item, at);
      } else {
        for (std::int64_t i = at; i < item.numel; ++i) step_pack<op, S, Q, 1>(list, item, i);
      }
    }
  } else {
    const std::int64_t end = min(item.numel, begin + threads * turns * width);
    for (std::int64_t i = begin + threadIdx.x; i < end; i += threads) {
      step_pack<op, S, Q, 1>(list, item, i);
    }
  }
}

template <OptimizerOp op, class S, class Q, int capacity>
void launch_list(const StepList<capacity>& list, std::int64_t chunks) {
  step<op, S, Q, capacity><<<static_cast<unsigned>(chunks), threads, 0, stream()>>>(list);
  launched("optimizer_step");
}

template <OptimizerOp op, class S, class Q, int capacity>
void run_lists(const OptimizerCall& call) {
  constexpr std::int64_t chunk = threads * turns * step_width<S>;
  constexpr std::int64_t most_chunks = std::int64_t{1} << 30;
  StepList<capacity> list;
  list.maximize = call.coefficients.maximize;
  list.variants = call.coefficients.variants;
  list.condition = call.condition;
  list.factor = call.factor;
  for (int k = 0; k < max_optimizer_coefficients; ++k) {
    list.coefficients[k] = call.coefficients.values[k];
  }
  std::int64_t chunks = 0;
  list.count = 0;
  list.vectors = true;
  const auto launch = [&] {
    if (list.count != 0) launch_list<op, S, Q>(list, chunks);
    chunks = 0;
    list.count = 0;
    list.vectors = true;
  };
  for (std::int64_t k = 0; k < call.item_count; ++k) {
    const OptimizerItem& item = call.items[k];
    if (item.numel == 0) continue;
    const std::int64_t item_chunks = divide_up(item.numel, chunk);
    const bool vectors =
        are_aligned(item.param, item.grad, item.states[0], item.states[1], item.states[2]);
    if (list.count == capacity || chunks + item_chunks > most_chunks ||
        (list.count != 0 && vectors != list.vectors)) {
      launch();
    }
    StepItem& entry = list.items[list.count++];
    entry = {item.numel, chunks, item.param, item.grad, {}};
    for (int s = 0; s < max_optimizer_states; ++s) entry.states[s] = item.states[s];
    list.vectors = vectors;
    chunks += item_chunks;
  }
  launch();
}

template <OptimizerOp op, class S, class Q>
void run(const OptimizerCall& call) {
  if (call.item_count <= short_list) return run_lists<op, S, Q, short_list>(call);
  run_lists<op, S, Q, long_list>(call);
}

template <OptimizerOp op>
void run_op(const OptimizerCall& call) {
  with_float_type(call.dtype, [&]<class S>() {
    if constexpr (is_half_type<S> && op != OptimizerOp::scale) {
      if (call.state_dtype == DType::float32) return run<op, S, float>(call);
    }
    run<op, S, S>(call);
  });
}

}  // namespace

void optimizer_step(const OptimizerCall& call) {
  if (call.numel == 0) return;
  switch (call.op) {
#define OPTIMIZER(name, ...) \
  case OptimizerOp::name:    \
    return run_op<OptimizerOp::name>(call);
#include "extensor/tables/optimizers.def"
    case OptimizerOp::average:
      return run_op<OptimizerOp::average>(call);
    case OptimizerOp::scale:
      return run_op<OptimizerOp::scale>(call);
  }
}

}  // namespace extensor::backend::cuda
