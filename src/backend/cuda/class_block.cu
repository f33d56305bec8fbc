// The cross-entropy of rows of logits that exist a block of classes at a time: the sums of a row
// are carried from block to block, and the gradient of a block needs only them.
#include "backend/cuda/class_rows.cuh"
#include "backend/cuda/finish.cuh"
#include "backend/cuda/kernels.h"

namespace extensor::backend::cuda {

namespace {

// A row of ClassBlockCall::statistics.
struct BlockStatistics {
  double m, others, named, spread_logits, spread_total;
};
static_assert(sizeof(BlockStatistics) == ClassBlockCall::statistics_per_row * sizeof(double));

// The softmax of a whole row, with the named class's term apart: its row may hold almost nothing
// else.
struct BlockSoftmax {
  double m, named, others;

  __device__ explicit BlockSoftmax(const BlockStatistics& row) : m(fmax(row.m, row.named)) {
    named = row.named == m ? 1 : exp(row.named - m);
    others = row.others == 0 || row.m == m ? row.others : row.others * exp(row.m - m);
  }
  __device__ double sum() const { return named + others; }
  __device__ double log_sum() const { return named == 1 ? log1p(others) : log(sum()); }
};

template <class C>
struct BlockArguments {
  bool each;  // no reduction
  std::int64_t rows, classes, first_row, row_count, first_class, n;
  const C* x;
  const std::int64_t* indices;
  const C* weight;  // or null
  std::int64_t ignored;
  double smoothing;
  BlockStatistics* statistics;
  const C* g;           // or null: 1
  const double* scale;  // of the mean; null: 1
  C* gradient;
  void* out;
  DType out_dtype;

  __device__ bool is_kept(std::int64_t row) const { return indices[row] != ignored; }
  __device__ double weight_of(std::int64_t index) const {
    return weight == nullptr ? 1 : static_cast<double>(weight[index]);
  }
  // The part of a target that is spread over the classes of the block.
  __device__ ClassSpread<C> spread() const {
    return {nullptr, weight == nullptr ? nullptr : weight + first_class, C(0),
            static_cast<C>(smoothing / static_cast<double>(classes))};
  }
};

template <class C, int width, bool is_block>
__global__ void __launch_bounds__(256, 4) add_block(BlockArguments<C> a) {
  Group<is_block> group;
  for (std::int64_t i = group.number(); i < a.row_count; i += group.count()) {
    const std::int64_t row = a.first_row + i;
    const C* x = a.x + i * a.n;
    BlockStatistics sums{-infinity<double>(), 0, 0, 0, 0};
    if (a.first_class != 0) sums = a.statistics[row];
    if (a.is_kept(row)) {
      const std::int64_t at = a.indices[row] - a.first_class;
      if (at >= 0 && at < a.n) sums.named = static_cast<double>(x[at]);
      SumOfExp<C> start{static_cast<C>(sums.m), group.rank() == 0 ? sums.others : 0};
      start = group.reduce(sum_exponentials<width>(group, x, a.n, at, start),
                           SumOfExp<C>{-infinity<C>(), 0}, MergeSums<C>());
      sums.m = static_cast<double>(start.m);
      sums.others = start.sum;
      if (a.smoothing != 0) {
        const SpreadSums spread = group.reduce(sum_spread(group, x, a.n, C(0), a.spread()),
                                               SpreadSums{0, 0}, MergeSpreads());
        sums.spread_logits -= spread.gap;
        sums.spread_total += spread.total;
      }
    }
    if constexpr (is_block) {
      __syncthreads();  // all threads have read the old sums
    } else {
      __syncwarp();
    }
    if (group.rank() == 0) a.statistics[row] = sums;
  }
}

template <class C>
__device__ double block_row_loss(const BlockArguments<C>& a, std::int64_t row) {
  if (!a.is_kept(row)) return 0;
  const BlockStatistics sums = a.statistics[row];
  const BlockSoftmax softmax(sums);
  const double logarithm = softmax.log_sum();
  const double named = (1 - a.smoothing) * a.weight_of(a.indices[row]);
  const double loss = named * ((softmax.m - sums.named) + logarithm);
  if (a.smoothing == 0) return loss;
  return loss + (softmax.m + logarithm) * sums.spread_total - sums.spread_logits;
}

template <class C>
__global__ void write_losses(BlockArguments<C> a) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t row = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
       row < a.rows; row += step) {
    write_number(block_row_loss(a, row), a.out_dtype, a.out, row);
  }
}
// One block.
template <class C>
__global__ void __launch_bounds__(512) reduce_losses(BlockArguments<C> a, bool mean) {
  Group<true> group;
  double total = 0;
  for (std::int64_t row = threadIdx.x; row < a.rows; row += blockDim.x) {
    total += block_row_loss(a, row);
  }
  total = group.reduce(total, 0.0, Plus());
  const double divisor = mean ? kept_weight(group, a.indices, a.weight, a.rows, a.ignored) : 1;
  if (threadIdx.x == 0) write_number(divisor == 0 ? 0 : total / divisor, a.out_dtype, a.out);
}

template <class C, int width, bool is_block>
__global__ void __launch_bounds__(256, 4) block_gradient(BlockArguments<C> a) {
  Group<is_block> group;
  const double common = a.scale == nullptr ? 1 : *a.scale;
  for (std::int64_t i = group.number(); i < a.row_count; i += group.count()) {
    const std::int64_t row = a.first_row + i;
    const C* x = a.x + i * a.n;
    C* out = a.gradient + i * a.n;
    if (!a.is_kept(row)) {
      const C zeros[width] = {};
      for (std::int64_t at = group.rank() * width; at < a.n; at += group.size() * width) {
        store_pack<width>(zeros, out, at, a.n);
      }
      continue;
    }
    const double factor =
        common * (a.g == nullptr ? 1 : static_cast<double>(a.g[a.each ? row : 0]));
    const BlockStatistics sums = a.statistics[row];
    const BlockSoftmax softmax(sums);
    const std::int64_t index = a.indices[row];
    const double named = (1 - a.smoothing) * a.weight_of(index);
    const double total = named + sums.spread_total;
    // T · softmax − t of the named class, computed from the other classes: directly it may be
    // almost 1 − 1.
    const double own =
        a.smoothing == 0 ? 0 : a.weight_of(index) * a.smoothing / static_cast<double>(a.classes);
    const double rest = total - named - own;
    const double of_named =
        factor * (rest * softmax.named - (named + own) * softmax.others) / softmax.sum();
    const ClassSpread<C> spread = a.spread();
    write_gradient<width, C>(group, x, a.n, static_cast<C>(softmax.m),
                             static_cast<C>(factor * total / softmax.sum()),
                             a.smoothing == 0 ? nullptr : &spread, static_cast<C>(factor),
                             index - a.first_class, static_cast<C>(of_named), out);
  }
}

// ---- launches

template <class C, bool adds>
void launch_block(const BlockArguments<C>& a) {
  if (a.row_count == 0 || (a.n == 0 && !adds)) return;
  const auto launch = [&]<int width>() {
    const bool is_block = a.n > 1024;
    const unsigned grid = grid_for(is_block ? a.row_count : divide_up(a.row_count, 8));
    constexpr unsigned threads = 256;
    if constexpr (adds) {
      if (is_block) {
        add_block<C, width, true><<<grid, threads, 0, stream()>>>(a);
      } else {
        add_block<C, width, false><<<grid, threads, 0, stream()>>>(a);
      }
    } else {
      if (is_block) {
        block_gradient<C, width, true><<<grid, threads, 0, stream()>>>(a);
      } else {
        block_gradient<C, width, false><<<grid, threads, 0, stream()>>>(a);
      }
    }
    launched("class_block");
  };
  if (a.n % pack_width<C> == 0 && are_aligned(a.x, a.gradient)) {
    launch.template operator()<pack_width<C>>();
  } else {
    launch.template operator()<1>();
  }
}

template <class C>
void run(const ClassBlockCall& call) {
  BlockArguments<C> a{};
  a.each = call.reduction == LossReduction::none;
  a.rows = call.rows;
  a.classes = call.classes;
  a.first_row = call.first_row;
  a.row_count = call.row_count;
  a.first_class = call.first_class;
  a.n = call.class_count;
  a.x = elements<C>(call.x);
  a.indices = call.indices;
  a.weight = elements<C>(call.weight);
  a.ignored = call.ignore_index;
  a.smoothing = call.label_smoothing;
  a.statistics = reinterpret_cast<BlockStatistics*>(call.statistics);
  a.g = elements<C>(call.g);
  a.out_dtype = call.out_dtype;
  const bool mean = call.reduction == LossReduction::mean;
  switch (call.step) {
    case ClassBlockStep::add:
      return launch_block<C, true>(a);
    case ClassBlockStep::finish:
      a.out = call.out;
      if (!a.each) {
        reduce_losses<<<1, 512, 0, stream()>>>(a, mean);
        return launched("class_block");
      }
      if (a.rows == 0) return;
      write_losses<<<blocks_for(a.rows, 256), 256, 0, stream()>>>(a);
      return launched("class_block");
    case ClassBlockStep::gradient: {
      a.gradient = elements<C>(call.out);
      if (a.row_count == 0 || a.n == 0) return;
      const Scratch scale(sizeof(double), "class_block");
      if (mean) {
        write_mean_scale<<<1, 1024, 0, stream()>>>(a.indices, a.weight, a.rows, a.ignored,
                                                   scale.as<double>());
        launched("class_block");
        a.scale = scale.as<double>();
      }
      return launch_block<C, false>(a);
    }
  }
}

}  // namespace

void class_block(const ClassBlockCall& call) {
  if (call.dtype == DType::float64) return run<double>(call);
  run<float>(call);
}

}  // namespace extensor::backend::cuda
