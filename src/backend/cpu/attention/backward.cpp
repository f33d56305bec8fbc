// The gradients of attention, a block of keys at a time: the probabilities of a block are
// recomputed from the scores and their logsumexp. One thread processes a whole sequence, with
// blocks of keys outermost, so that every gradient is summed in one fixed order.
#include <cmath>

#include "backend/cpu/attention/attention.h"
#include "backend/cpu/attention/blocks.h"

namespace extensor::cpu {

namespace {

using backend::AttentionBackwardCall;
using backend::AttentionCall;
using backend::AttentionMatrix;
using backend::AttentionOutput;

constexpr std::int64_t query_block = 96;
constexpr std::int64_t key_block = 96;  // divides into whole tiles on every SIMD target

template <class T>
class Backward {
 public:
  explicit Backward(const AttentionBackwardCall& call)
      : call_(call), forward_(call.forward), threads_(attention_threads(call.forward)) {
    const std::int64_t spill = 2 * kernels<T>().tile_columns;  // packing may write past its end
    const std::int64_t padded_keys = key_block + spill;
    keys_ = scratch_.add(key_block * forward_.width);
    key_panels_ = scratch_.add(padded_keys * forward_.width + spill);
    value_panels_ = scratch_.add(padded_keys * forward_.value_width + spill);
    scores_ = scratch_.add(query_block * key_block);
    gradients_ = scratch_.add(query_block * key_block);
    bias_ = scratch_.add(key_block);
    logsumexp_ = scratch_.add(forward_.queries);
    inner_ = scratch_.add(forward_.queries);
    scratch_.allocate("scaled_dot_product_attention_backward", threads_);
  }

  void run() {
    detail::parallel_tasks(threads_, forward_.batch, [&](std::int64_t batch, int thread) {
      run_sequence(batch, scratch_.of_thread(thread));
    });
  }

 private:
  static const T* matrix(const AttentionMatrix& of, std::int64_t batch) {
    return reinterpret_cast<const T*>(of.data) + of.offsets[batch];
  }
  static T* matrix(const AttentionOutput& of, std::int64_t batch) {
    return reinterpret_cast<T*>(of.data) + of.offsets[batch];
  }
  static T* dense(std::byte* of, std::int64_t batch, std::int64_t elements) {
    return reinterpret_cast<T*>(of) + batch * elements;
  }

  void run_sequence(std::int64_t batch, T* memory) const {
    const std::int64_t queries = forward_.queries, columns = forward_.value_width;
    const T* out = matrix(forward_.out, batch);
    const T* logsumexp = dense(forward_.logsumexp, batch, queries);
    const T* grad_output = matrix(call_.grad_output, batch);
    for (std::int64_t i = 0; i < queries; ++i) {
      // exp(score − ∞) is 0: a query that saw no key has no gradient.
      memory[logsumexp_ + i] = logsumexp[i] == -std::numeric_limits<T>::infinity()
                                   ? std::numeric_limits<T>::infinity()
                                   : logsumexp[i];
      memory[inner_ + i] = kernels_.dot(out + i * forward_.out.row_stride,
                                        grad_output + i * call_.grad_output.row_stride, columns);
    }
    for (std::int64_t key = 0; key < forward_.keys; key += key_block) {
      run_keys(batch, key, std::min(key_block, forward_.keys - key), memory);
    }
  }

  void run_keys(std::int64_t batch, std::int64_t key, std::int64_t keys, T* memory) const {
    const std::int64_t width = forward_.width, columns = forward_.value_width;
    const T* k = matrix(forward_.k, batch) + key * forward_.k.row_stride;
    const T* v = matrix(forward_.v, batch) + key * forward_.v.row_stride;
    T* const scaled = memory + keys_;
    const T scale = static_cast<T>(forward_.scale);
    for (std::int64_t j = 0; j < keys; ++j) {
      for (std::int64_t p = 0; p < width; ++p) {
        scaled[j * width + p] = k[j * forward_.k.row_stride + p] * scale;
      }
    }
    const Kernels<T>& gemm = kernels<T>();
    gemm.pack(scaled, width, 1, keys, width, gemm.tile_columns, memory + key_panels_);
    gemm.pack(v, forward_.v.row_stride, 1, keys, columns, gemm.tile_columns,
              memory + value_panels_);

    const std::int64_t k_stride = call_.grad_k.row_stride, v_stride = call_.grad_v.row_stride;
    T* const grad_k = matrix(call_.grad_k, batch) + key * k_stride;
    T* const grad_v = matrix(call_.grad_v, batch) + key * v_stride;
    for (std::int64_t j = 0; j < keys; ++j) {
      std::fill_n(grad_k + j * k_stride, width, T(0));
      std::fill_n(grad_v + j * v_stride, columns, T(0));
    }
    // Queries before the first key of the block see none of its keys.
    const std::int64_t first = forward_.causal ? key : 0;
    for (std::int64_t query = first; query < forward_.queries; query += query_block) {
      const std::int64_t rows = std::min(query_block, forward_.queries - query);
      const std::int64_t visible = forward_.causal ? std::min(keys, query + rows - key) : keys;
      run_block(batch, query, rows, key, visible, grad_k, grad_v, memory);
    }
    for (std::int64_t j = 0; j < keys; ++j) {
      for (std::int64_t p = 0; p < width; ++p) grad_k[j * k_stride + p] *= scale;
    }
  }

  void run_block(std::int64_t batch, std::int64_t query, std::int64_t rows, std::int64_t key,
                 std::int64_t keys, T* grad_k, T* grad_v, T* memory) const {
    const std::int64_t width = forward_.width, columns = forward_.value_width;
    const std::int64_t q_stride = forward_.q.row_stride, g_stride = call_.grad_output.row_stride;
    const T* q = matrix(forward_.q, batch) + query * q_stride;
    const T* g = matrix(call_.grad_output, batch) + query * g_stride;
    T* const scores = memory + scores_;
    T* const gradients = memory + gradients_;
    multiply_block(rows, keys, width, LeftOperand<T>{q, q_stride, 1},
                   packed(memory + key_panels_, width), scores, key_block, false);
    multiply_block(rows, keys, columns, LeftOperand<T>{g, g_stride, 1},
                   packed(memory + value_panels_, columns), gradients, key_block, false);
    for (std::int64_t i = 0; i < rows; ++i) gradient_row(batch, query + i, i, key, keys, memory);
    if (call_.grad_mask != nullptr) store_mask_gradient(batch, query, rows, key, keys, memory);

    const LeftOperand<T> probabilities_transposed{scores, 1, key_block};
    const LeftOperand<T> gradients_transposed{gradients, 1, key_block};
    multiply_block(keys, columns, rows, probabilities_transposed, in_place(g, g_stride), grad_v,
                   call_.grad_v.row_stride, true);
    multiply_block(keys, width, rows, gradients_transposed, in_place(q, q_stride), grad_k,
                   call_.grad_k.row_stride, true);
    const std::int64_t grad_stride = call_.grad_q.row_stride;
    T* const grad_q = matrix(call_.grad_q, batch) + query * grad_stride;
    multiply_block(rows, width, keys, LeftOperand<T>{gradients, key_block, 1},
                   in_place(memory + keys_, width), grad_q, grad_stride, key != 0);
  }

  void gradient_row(std::int64_t batch, std::int64_t query, std::int64_t row, std::int64_t key,
                    std::int64_t keys, T* memory) const {
    const std::int64_t visible = forward_.causal ? std::min(keys, query + 1 - key) : keys;
    GradientRow<T> call;
    call.scores = memory + scores_ + row * key_block;
    call.gradients = memory + gradients_ + row * key_block;
    call.bias = forward_.mask.data == nullptr
                    ? nullptr
                    : mask_row(forward_.mask, batch, query, key, visible, memory + bias_);
    call.n = visible;
    call.logsumexp = memory[logsumexp_ + query];
    call.inner = memory[inner_ + query];
    kernels_.gradient_row(call);
    std::fill(call.scores + visible, call.scores + keys, T(0));
    std::fill(call.gradients + visible, call.gradients + keys, T(0));
  }

  // The mask is added to the scores, so it has their gradients.
  void store_mask_gradient(std::int64_t batch, std::int64_t query, std::int64_t rows,
                           std::int64_t key, std::int64_t keys, const T* memory) const {
    T* const grad_mask = dense(call_.grad_mask, batch, forward_.queries * forward_.keys);
    for (std::int64_t i = 0; i < rows; ++i) {
      const T* from = memory + gradients_ + i * key_block;
      std::copy(from, from + keys, grad_mask + (query + i) * forward_.keys + key);
    }
  }

  const AttentionBackwardCall& call_;
  const AttentionCall& forward_;
  const AttentionKernels<T>& kernels_ = attention_kernels<T>();
  const int threads_;
  // Offsets into a thread's scratch.
  std::int64_t keys_ = 0, key_panels_ = 0, value_panels_ = 0, scores_ = 0, gradients_ = 0,
               bias_ = 0, logsumexp_ = 0, inner_ = 0;
  mutable AttentionScratch<T> scratch_;
};

}  // namespace

void attention_backward(const AttentionBackwardCall& call) {
  if (call.forward.dtype == DType::float64) return Backward<double>(call).run();
  Backward<float>(call).run();
}

}  // namespace extensor::cpu
