// Attention a block of keys at a time (flash attention): the scores of a block never leave the
// cache, and the running maximum and sum of each query rescale the earlier sums.
//
// The scores are kept transposed, one query per lane: the maximum and the sum need no reduction
// across lanes, only the queries are packed, and keys and values are read in place.
#include <cmath>

#include "backend/cpu/attention/attention.h"
#include "backend/cpu/attention/blocks.h"
#include "backend/cpu/convert.h"

namespace extensor::cpu {

namespace {

using backend::AttentionCall;
using backend::AttentionMatrix;

constexpr std::int64_t query_block = 128;
constexpr std::int64_t key_block = 96;  // divides into whole tiles on every SIMD target

template <class T>
class Forward {
 public:
  explicit Forward(const AttentionCall& call)
      : call_(call),
        item_(static_cast<std::int64_t>(itemsize(call.dtype))),
        blocks_((call.queries + query_block - 1) / query_block),
        threads_(attention_threads(call)) {
    if (call.dtype != dtype_of<T>) {
      widen_ = convert_loop(call.dtype, dtype_of<T>);
      narrow_ = convert_loop(dtype_of<T>, call.dtype);
    }
    const std::int64_t spill = 2 * width_;  // packing may write past its end
    queries_ = scratch_.add(query_block * call.width + spill);
    stage_ = scratch_.add(width_ * std::max(call.width, key_block));
    scores_ = scratch_.add(width_ * key_block);
    if (call.mask.data != nullptr) bias_ = scratch_.add(width_ * key_block + spill);
    maximum_ = scratch_.add(query_block);
    sum_ = scratch_.add(query_block);
    correction_ = scratch_.add(query_block);
    if (widen_ != nullptr) {
      wide_keys_ = scratch_.add(key_block * call.width);
      wide_values_ = scratch_.add(key_block * call.value_width);
      wide_out_ = scratch_.add(query_block * call.value_width);
    }
    scratch_.allocate("scaled_dot_product_attention", threads_);
  }

  void run() {
    detail::parallel_tasks(threads_, call_.batch * blocks_, [&](std::int64_t task, int thread) {
      // Causal blocks grow: start with the largest.
      const std::int64_t block = blocks_ - 1 - task % blocks_;
      run_block(task / blocks_, block * query_block, scratch_.of_thread(thread));
    });
  }

 private:
  const std::byte* row(const AttentionMatrix& matrix, std::int64_t batch, std::int64_t row) const {
    return matrix.data + (matrix.offsets[batch] + row * matrix.row_stride) * item_;
  }

  // `count` rows as T: in place, or widened into `room`.
  LeftOperand<T> rows_of(const AttentionMatrix& matrix, std::int64_t batch, std::int64_t first,
                         std::int64_t count, std::int64_t columns, T* room) const {
    if (widen_ == nullptr) {
      return {reinterpret_cast<const T*>(row(matrix, batch, first)), matrix.row_stride, 1};
    }
    for (std::int64_t i = 0; i < count; ++i) {
      widen_(row(matrix, batch, first + i), room + i * columns, static_cast<std::size_t>(columns));
    }
    return {room, columns, 1};
  }

  // Packs scaled queries into a panel, the right operand of a product; lanes without a query are 0.
  void pack_queries(std::int64_t batch, std::int64_t first, std::int64_t count, T* stage,
                    T* panel) const {
    const std::int64_t columns = call_.width;
    const T scale = static_cast<T>(call_.scale);
    const LeftOperand<T> from = rows_of(call_.q, batch, first, count, columns, stage);
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        stage[i * columns + j] = from.data[i * from.row_stride + j] * scale;
      }
    }
    std::fill(stage + count * columns, stage + width_ * columns, T(0));
    kernels<T>().pack(stage, columns, 1, width_, columns, width_, panel);
  }

  // The mask as addends, transposed like the scores.
  const T* bias(std::int64_t batch, std::int64_t query, std::int64_t count, std::int64_t key,
                std::int64_t keys, T* memory) const {
    if (call_.mask.data == nullptr) return nullptr;
    T* stage = memory + stage_;
    for (std::int64_t i = 0; i < width_; ++i) {
      T* room = stage + i * key_block;
      const T* values = i < count ? mask_row(call_.mask, batch, query + i, key, keys, room) : stage;
      if (values != room) std::copy(values, values + keys, room);
    }
    kernels<T>().pack(stage, key_block, 1, width_, keys, width_, memory + bias_);
    return memory + bias_;
  }

  void run_block(std::int64_t batch, std::int64_t first, T* memory) const {
    const std::int64_t rows = std::min(query_block, call_.queries - first);
    const std::int64_t columns = call_.value_width;
    const backend::AttentionOutput& to = call_.out;
    std::byte* const result = to.data + (to.offsets[batch] + first * to.row_stride) * item_;
    T* const out = widen_ == nullptr ? reinterpret_cast<T*>(result) : memory + wide_out_;
    const std::int64_t stride = widen_ == nullptr ? to.row_stride : columns;
    for (std::int64_t i = 0; i < rows; i += width_) {
      pack_queries(batch, first + i, std::min(width_, rows - i), memory + stage_,
                   memory + queries_ + i * call_.width);
    }
    std::fill(memory + maximum_, memory + maximum_ + query_block,
              -std::numeric_limits<T>::infinity());
    std::fill(memory + sum_, memory + sum_ + query_block, T(0));

    const std::int64_t seen = call_.causal ? std::min(call_.keys, first + rows) : call_.keys;
    for (std::int64_t key = 0; key < seen; key += key_block) {
      const std::int64_t keys = std::min(key_block, seen - key);
      const LeftOperand<T> k = rows_of(call_.k, batch, key, keys, call_.width, memory + wide_keys_);
      const LeftOperand<T> v = rows_of(call_.v, batch, key, keys, columns, memory + wide_values_);
      for (std::int64_t i = 0; i < rows; i += width_) {
        const std::int64_t count = std::min(width_, rows - i);
        const std::int64_t query = first + i;
        const std::int64_t visible = call_.causal ? std::min(keys, query + count - key) : keys;
        if (visible <= 0) continue;
        T* const scores = memory + scores_;
        multiply_block(visible, width_, call_.width, k,
                       packed(memory + queries_ + i * call_.width, call_.width), scores, width_,
                       false);
        ScorePanel<T> panel;
        panel.scores = scores;
        panel.bias = bias(batch, query, count, key, visible, memory);
        panel.keys = visible;
        panel.first_hidden = call_.causal ? query - key : visible;
        panel.maximum = memory + maximum_ + i;
        panel.sum = memory + sum_ + i;
        panel.correction = memory + correction_;
        kernels_.soften(panel);
        T* const sums = out + i * stride;
        if (key != 0) kernels_.scale_rows(sums, count, columns, stride, panel.correction);
        multiply_block(count, columns, visible, LeftOperand<T>{scores, 1, width_},
                       in_place(v.data, v.row_stride), sums, stride, key != 0);
      }
    }
    finish(batch, first, rows, out, stride, memory);
    if (narrow_ == nullptr) return;
    for (std::int64_t i = 0; i < rows; ++i) {
      narrow_(out + i * columns, result + i * to.row_stride * item_,
              static_cast<std::size_t>(columns));
    }
  }

  void finish(std::int64_t batch, std::int64_t first, std::int64_t rows, T* out,
              std::int64_t stride, T* memory) const {
    const T* maximum = memory + maximum_;
    const T* sum = memory + sum_;
    T* factors = memory + correction_;
    T* logsumexp = call_.logsumexp == nullptr
                       ? nullptr
                       : reinterpret_cast<T*>(call_.logsumexp) + batch * call_.queries + first;
    for (std::int64_t i = 0; i < rows; ++i) {
      factors[i] = 1 / sum[i];
      if (sum[i] == 0) {  // no key was seen
        factors[i] = 1;
        std::fill(out + i * stride, out + i * stride + call_.value_width, T(0));
      }
      if (logsumexp != nullptr) logsumexp[i] = maximum[i] + std::log(sum[i]);
    }
    kernels_.scale_rows(out, rows, call_.value_width, stride, factors);
  }

  const AttentionCall& call_;
  const AttentionKernels<T>& kernels_ = attention_kernels<T>();
  const std::int64_t width_ = kernels_.panel_width;
  const std::int64_t item_, blocks_;
  const int threads_;
  ConvertLoop widen_ = nullptr;
  ConvertLoop narrow_ = nullptr;
  // Offsets into a thread's scratch.
  std::int64_t queries_ = 0, stage_ = 0, scores_ = 0, bias_ = 0, maximum_ = 0, sum_ = 0,
               correction_ = 0, wide_keys_ = 0, wide_values_ = 0, wide_out_ = 0;
  mutable AttentionScratch<T> scratch_;
};

}  // namespace

void attention(const AttentionCall& call) {
  if (call.dtype == DType::float64) return Forward<double>(call).run();
  Forward<float>(call).run();
}

}  // namespace extensor::cpu
