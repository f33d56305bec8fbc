// Attention. cuDNN computes long sequences of halves; matrix products compute all else: every
// dtype, mask and width. Their scores exist for a part of the batch at a time, and halves are
// widened, so that probabilities are not rounded.
#include <algorithm>
#include <limits>
#include <optional>

#include "backend/cuda/context.h"
#include "backend/cuda/cudnn.h"
#include "backend/cuda/kernels.h"
#include "backend/cuda/product.h"

namespace extensor::backend::cuda {

namespace {

constexpr int row_threads = 256;
constexpr std::int64_t most_score_bytes = std::int64_t{256} << 20;  // of one matrix of scores

// ---- operands as dense matrices

// dense[b, i, j] = rows[b][i][j]
template <class T, class W>
__global__ void gather_rows(const T* rows, std::int64_t row_stride, const BatchOffsets offsets,
                            std::int64_t batch, std::int64_t count, std::int64_t width, W* dense) {
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < batch * count * width; i += threads) {
    const std::int64_t row = i / width;
    dense[i] = load_as_compute(rows[offsets[row / count] + row % count * row_stride + i % width]);
  }
}

// rows[b][i][j] = dense[b, i, j]
template <class T, class W>
__global__ void scatter_rows(const W* dense, std::int64_t row_stride, const BatchOffsets offsets,
                             std::int64_t batch, std::int64_t count, std::int64_t width, T* rows) {
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < batch * count * width; i += threads) {
    const std::int64_t row = i / width;
    rows[offsets[row / count] + row % count * row_stride + i % width] =
        store_from_compute<T>(dense[i]);
  }
}

// A matrix per element of the batch, `step` elements apart, in the compute type.
template <class W>
struct Matrices {
  W* data = nullptr;
  std::int64_t row_stride = 0, step = 0;
  std::int64_t count = 0, width = 0;
  std::optional<Scratch> memory;  // if they are a copy

  Matrix from(std::int64_t batch, std::int64_t row, bool transposed = false) const {
    Matrix matrix;
    matrix.data = reinterpret_cast<const std::byte*>(data + batch * step + row * row_stride);
    matrix.row_stride = transposed ? 1 : row_stride;
    matrix.column_stride = transposed ? row_stride : 1;
    matrix.offsets = BatchOffsets(step);
    return matrix;
  }
};

bool is_regular(const BatchOffsets& offsets) { return offsets.levels <= 1; }
std::int64_t step_of(const BatchOffsets& offsets) {
  return offsets.levels == 0 ? 0 : offsets.strides[0];
}

// The operand itself if it has the compute type and its matrices are one step apart, else a copy.
template <class T>
void open_input(Matrices<Compute<T>>& to, const AttentionMatrix& from, std::int64_t batch,
                std::int64_t count, std::int64_t width, const char* operation) {
  using W = Compute<T>;
  to.count = count;
  to.width = width;
  if (std::is_same_v<T, W> && is_regular(from.offsets)) {
    to.data = reinterpret_cast<W*>(const_cast<std::byte*>(from.data));  // never written
    to.row_stride = from.row_stride;
    to.step = step_of(from.offsets);
    return;
  }
  to.row_stride = width;
  to.step = count * width;
  const std::int64_t numel = batch * count * width;
  if (numel == 0) return;
  to.memory.emplace(static_cast<std::size_t>(numel) * sizeof(W), operation);
  to.data = to.memory->template as<W>();
  gather_rows<<<blocks_for(numel, row_threads), row_threads, 0, stream()>>>(
      reinterpret_cast<const T*>(from.data), from.row_stride, from.offsets, batch, count, width,
      to.data);
  launched(operation);
}

// Memory for a result: its own under the same conditions, else a copy that close_output writes.
template <class T>
void open_output(Matrices<Compute<T>>& to, const AttentionOutput& out, std::int64_t batch,
                 std::int64_t count, std::int64_t width, const char* operation) {
  using W = Compute<T>;
  to.count = count;
  to.width = width;
  if (std::is_same_v<T, W> && is_regular(out.offsets)) {
    to.data = reinterpret_cast<W*>(out.data);
    to.row_stride = out.row_stride;
    to.step = step_of(out.offsets);
    return;
  }
  to.row_stride = width;
  to.step = count * width;
  const std::int64_t numel = batch * count * width;
  if (numel == 0) return;
  to.memory.emplace(static_cast<std::size_t>(numel) * sizeof(W), operation);
  to.data = to.memory->template as<W>();
}
template <class T>
void close_output(const Matrices<Compute<T>>& from, const AttentionOutput& out, std::int64_t batch,
                  const char* operation) {
  if (!from.memory) return;
  const std::int64_t numel = batch * from.count * from.width;
  scatter_rows<<<blocks_for(numel, row_threads), row_threads, 0, stream()>>>(
      from.data, out.row_stride, out.offsets, batch, from.count, from.width,
      reinterpret_cast<T*>(out.data));
  launched(operation);
}

// ---- kernels of rows: one block per row of scores

// Every thread receives the result. `shared` has an element per warp.
template <class W, class Combine>
__device__ W reduce_block(W value, W* shared, const Combine& combine) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  __syncthreads();  // earlier reads of `shared` are done
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  W result = shared[0];
  for (int warp = 1; warp < row_threads / 32; ++warp) result = combine(result, shared[warp]);
  return result;
}

// Rows first_row … first_row + rows of the elements first_batch … first_batch + batch, of dense
// scores [batch, rows, keys].
struct ScoreRows {
  std::int64_t first_batch, batch, first_row, rows;
  std::int64_t queries, keys;
  bool causal;
  AttentionMask mask;

  __device__ std::int64_t visible(std::int64_t query) const {
    return causal && query + 1 < keys ? query + 1 : keys;
  }
  // The addend for a key: 0 or −∞ for a bool.
  template <class W>
  __device__ W bias(std::int64_t row_offset, std::int64_t key) const {
    if (mask.data == nullptr) return W(0);
    const std::int64_t at = row_offset + key * mask.key_stride;
    if (mask.dtype == DType::bool_) {
      const bool taken = reinterpret_cast<const unsigned char*>(mask.data)[at] != 0;
      return taken ? W(0) : -std::numeric_limits<W>::infinity();
    }
    return reinterpret_cast<const W*>(mask.data)[at];
  }
  __device__ std::int64_t mask_row(std::int64_t batch_index, std::int64_t query) const {
    return mask.data == nullptr ? 0 : mask.offsets[batch_index] + query * mask.query_stride;
  }
};

// Replaces scores by probabilities.
template <class W>
__global__ void __launch_bounds__(row_threads)
    soften_rows(const ScoreRows call, W* scores, W* logsumexp) {
  __shared__ W shared[row_threads / 32];
  constexpr W lowest = -std::numeric_limits<W>::infinity();
  for (std::int64_t i = blockIdx.x; i < call.batch * call.rows; i += gridDim.x) {
    const std::int64_t batch = call.first_batch + i / call.rows;
    const std::int64_t query = call.first_row + i % call.rows;
    const std::int64_t visible = call.visible(query), mask_row = call.mask_row(batch, query);
    W* const row = scores + i * call.keys;
    W maximum = lowest;  // NaN may be lost here; the exponentials restore it
    for (std::int64_t j = threadIdx.x; j < visible; j += row_threads) {
      const W score = row[j] + call.bias<W>(mask_row, j);
      row[j] = score;
      if (score > maximum) maximum = score;
    }
    maximum = reduce_block(maximum, shared, [](W a, W b) { return a > b ? a : b; });
    const W shift = maximum == lowest ? W(0) : maximum;  // −∞ − −∞ would be NaN
    W sum = 0;
    for (std::int64_t j = threadIdx.x; j < visible; j += row_threads) {
      const W e = exp(row[j] - shift);
      row[j] = e;
      sum += e;
    }
    sum = reduce_block(sum, shared, [](W a, W b) { return a + b; });
    const W factor = sum == W(0) ? W(1) : W(1) / sum;
    for (std::int64_t j = threadIdx.x; j < call.keys; j += row_threads) {
      row[j] = j < visible ? row[j] * factor : W(0);
    }
    if (logsumexp != nullptr && threadIdx.x == 0) {
      logsumexp[batch * call.queries + query] = maximum + log(sum);
    }
  }
}

// Replaces scores by probabilities, and the gradients of the probabilities by those of the scores.
// The sum of their products equals Σ out · grad_output, without the rounding of `out` to halves.
template <class T, class W>
__global__ void __launch_bounds__(row_threads)
    differentiate_rows(const ScoreRows call, W* scores, W* gradients, const W* logsumexp,
                       T* grad_mask) {
  __shared__ double shared[row_threads / 32];
  constexpr W lowest = -std::numeric_limits<W>::infinity();
  for (std::int64_t i = blockIdx.x; i < call.batch * call.rows; i += gridDim.x) {
    const std::int64_t batch = call.first_batch + i / call.rows;
    const std::int64_t query = call.first_row + i % call.rows;
    const std::int64_t visible = call.visible(query), mask_row = call.mask_row(batch, query);
    const std::int64_t number = batch * call.queries + query;
    // exp(score − ∞) is 0: a query that saw no key has no gradient.
    const W known = logsumexp[number], shift = known == lowest ? -lowest : known;
    double sum = 0;
    for (std::int64_t j = threadIdx.x; j < call.keys; j += row_threads) {
      const std::int64_t at = i * call.keys + j;
      const W p = j < visible ? exp(scores[at] + call.bias<W>(mask_row, j) - shift) : W(0);
      scores[at] = p;
      if (j < visible) sum += static_cast<double>(p) * static_cast<double>(gradients[at]);
    }
    const W product =
        static_cast<W>(reduce_block(sum, shared, [](double x, double y) { return x + y; }));
    for (std::int64_t j = threadIdx.x; j < call.keys; j += row_threads) {
      const std::int64_t at = i * call.keys + j;
      const W gradient = j < visible ? scores[at] * (gradients[at] - product) : W(0);
      gradients[at] = gradient;
      if (grad_mask != nullptr) {
        grad_mask[number * call.keys + j] = store_from_compute<T>(gradient);
      }
    }
  }
}

// ---- the products

// Calls body(rows) for parts of the scores that fit the scratch memory.
template <class Body>
void for_parts(const AttentionCall& call, std::int64_t item, const Body& body) {
  const std::int64_t most = std::max<std::int64_t>(1, most_score_bytes / item);
  ScoreRows part{};
  part.queries = call.queries;
  part.keys = call.keys;
  part.causal = call.causal;
  part.mask = call.mask;
  // Whole sequences if one fits, else some queries of one.
  const std::int64_t rows = std::clamp<std::int64_t>(most / call.keys, 1, call.queries);
  const std::int64_t batch =
      rows == call.queries ? std::clamp<std::int64_t>(most / call.keys / rows, 1, call.batch) : 1;
  for (part.first_batch = 0; part.first_batch < call.batch; part.first_batch += batch) {
    part.batch = std::min(batch, call.batch - part.first_batch);
    for (part.first_row = 0; part.first_row < call.queries; part.first_row += rows) {
      part.rows = std::min(rows, call.queries - part.first_row);
      body(part);
    }
  }
}
std::size_t scores_in_part(const AttentionCall& call, std::int64_t item) {
  std::int64_t most = 0;
  for_parts(call, item, [&](const ScoreRows& part) {
    most = std::max(most, part.batch * part.rows * part.keys);
  });
  return static_cast<std::size_t>(most);
}

template <class W>
Product product_of(const ScoreRows& part, std::int64_t m, std::int64_t n, std::int64_t k, Matrix a,
                   Matrix b, W* c, std::int64_t c_row, std::int64_t c_step, double scale = 1) {
  Product product{};
  product.dtype = product.result = std::is_same_v<W, double> ? DType::float64 : DType::float32;
  product.m = m;
  product.n = n;
  product.k = k;
  product.batch = part.batch;
  product.a = a;
  product.b = b;
  product.c = reinterpret_cast<std::byte*>(c);
  product.c_row_stride = c_row;
  product.c_offsets = BatchOffsets(c_step);
  product.scale = scale;
  return product;
}

// The dense scores of a part, or their transposes, as an operand.
template <class W>
Matrix scores_of(const ScoreRows& part, const W* scores, bool transposed = false) {
  Matrix matrix;
  matrix.data = reinterpret_cast<const std::byte*>(scores);
  matrix.row_stride = transposed ? 1 : part.keys;
  matrix.column_stride = transposed ? part.keys : 1;
  matrix.offsets = BatchOffsets(part.rows * part.keys);
  return matrix;
}

int row_blocks(const ScoreRows& part) {
  return blocks_for(part.batch * part.rows * row_threads, row_threads);
}

template <class T>
void run_forward(const AttentionCall& call) {
  constexpr const char* operation = "scaled_dot_product_attention";
  using W = Compute<T>;
  Matrices<W> q, k, v, out;
  open_input<T>(q, call.q, call.batch, call.queries, call.width, operation);
  open_input<T>(k, call.k, call.batch, call.keys, call.width, operation);
  open_input<T>(v, call.v, call.batch, call.keys, call.value_width, operation);
  open_output<T>(out, call.out, call.batch, call.queries, call.value_width, operation);
  const Scratch memory(scores_in_part(call, sizeof(W)) * sizeof(W), operation);
  W* const scores = memory.as<W>();
  for_parts(call, sizeof(W), [&](const ScoreRows& part) {
    multiply(product_of(part, part.rows, part.keys, call.width,
                        q.from(part.first_batch, part.first_row), k.from(part.first_batch, 0, true),
                        scores, part.keys, part.rows * part.keys, call.scale),
             operation);
    soften_rows<<<row_blocks(part), row_threads, 0, stream()>>>(
        part, scores, reinterpret_cast<W*>(call.logsumexp));
    launched(operation);
    if (call.value_width == 0) return;
    multiply(product_of(part, part.rows, call.value_width, part.keys, scores_of(part, scores),
                        v.from(part.first_batch, 0),
                        out.data + part.first_batch * out.step + part.first_row * out.row_stride,
                        out.row_stride, out.step),
             operation);
  });
  close_output<T>(out, call.out, call.batch, operation);
}

template <class T>
void run_backward(const AttentionBackwardCall& call) {
  constexpr const char* operation = "scaled_dot_product_attention_backward";
  using W = Compute<T>;
  const AttentionCall& forward = call.forward;
  const std::int64_t batch = forward.batch, queries = forward.queries, keys = forward.keys;
  const std::int64_t width = forward.width, columns = forward.value_width;
  Matrices<W> q, k, v, g, grad_q, grad_k, grad_v;
  open_input<T>(q, forward.q, batch, queries, width, operation);
  open_input<T>(k, forward.k, batch, keys, width, operation);
  open_input<T>(v, forward.v, batch, keys, columns, operation);
  open_input<T>(g, call.grad_output, batch, queries, columns, operation);
  open_output<T>(grad_q, call.grad_q, batch, queries, width, operation);
  open_output<T>(grad_k, call.grad_k, batch, keys, width, operation);
  open_output<T>(grad_v, call.grad_v, batch, keys, columns, operation);

  const std::size_t count = scores_in_part(forward, sizeof(W));
  const Scratch scores_memory(count * sizeof(W), operation),
      gradients_memory(count * sizeof(W), operation);
  W* const scores = scores_memory.as<W>();
  W* const gradients = gradients_memory.as<W>();

  for_parts(forward, sizeof(W), [&](const ScoreRows& part) {
    const std::int64_t first = part.first_batch, row = part.first_row;
    const std::int64_t score_step = part.rows * keys;
    multiply(product_of(part, part.rows, keys, width, q.from(first, row), k.from(first, 0, true),
                        scores, keys, score_step, forward.scale),
             operation);
    multiply(product_of(part, part.rows, keys, columns, g.from(first, row), v.from(first, 0, true),
                        gradients, keys, score_step),
             operation);
    differentiate_rows<<<row_blocks(part), row_threads, 0, stream()>>>(
        part, scores, gradients, reinterpret_cast<const W*>(forward.logsumexp),
        reinterpret_cast<T*>(call.grad_mask));
    launched(operation);
    multiply(product_of(part, part.rows, width, keys, scores_of(part, gradients), k.from(first, 0),
                        grad_q.data + first * grad_q.step + row * grad_q.row_stride,
                        grad_q.row_stride, grad_q.step, forward.scale),
             operation);
    // The queries of a sequence add up, part by part.
    Product of_k = product_of(part, keys, width, part.rows, scores_of(part, gradients, true),
                              q.from(first, row), grad_k.data + first * grad_k.step,
                              grad_k.row_stride, grad_k.step, forward.scale);
    Product of_v = product_of(part, keys, columns, part.rows, scores_of(part, scores, true),
                              g.from(first, row), grad_v.data + first * grad_v.step,
                              grad_v.row_stride, grad_v.step);
    of_k.accumulate = of_v.accumulate = row != 0;
    multiply(of_k, operation);
    multiply(of_v, operation);
  });
  close_output<T>(grad_q, call.grad_q, batch, operation);
  close_output<T>(grad_k, call.grad_k, batch, operation);
  close_output<T>(grad_v, call.grad_v, batch, operation);
}

bool is_empty(const AttentionCall& call) {
  return call.batch == 0 || call.queries == 0 || call.keys == 0;
}

}  // namespace

void attention(const AttentionCall& call) {
  if (is_empty(call) || attend_with_cudnn(call)) return;
  with_float_type(call.dtype, [&]<class T>() { run_forward<T>(call); });
}

void attention_backward(const AttentionBackwardCall& call) {
  if (is_empty(call.forward) || attend_backward_with_cudnn(call)) return;
  with_float_type(call.forward.dtype, [&]<class T>() { run_backward<T>(call); });
}

}  // namespace extensor::backend::cuda
