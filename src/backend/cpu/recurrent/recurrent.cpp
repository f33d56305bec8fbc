// Runs the time steps in order: the state's product with weights that are packed once, then the
// cell. A part of the work is some samples and some hidden units. Parts wait for each other after
// every step only if the units of one sample belong to different parts.
#include "backend/cpu/recurrent/recurrent.h"

#include <algorithm>

#include "backend/cpu/gemm/kernels.h"
#include "backend/cpu/gemm/parallel.h"
#include "backend/cpu/recurrent/kernels.h"

namespace extensor::cpu {

namespace {

using backend::RecurrentBackwardCall;
using backend::RecurrentCall;
using backend::RecurrentCell;

constexpr double work_that_pays = 256.0 * 1024;  // multiply-adds that pay for a second thread
constexpr double work_that_waits = 64.0 * 1024;  // of a part, to pay for waiting after every step
constexpr std::int64_t rows_of_a_part = 8;       // with fewer, reading the weights dominates
constexpr std::int64_t longest_sum = 1024;       // terms of a product summed at once

std::int64_t divide_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

struct Part {
  std::int64_t row, rows, unit, units;
};

struct Grid {
  std::int64_t row_parts = 1, unit_parts = 1, rows, units;
  std::int64_t batch, hidden;

  std::int64_t count() const { return row_parts * unit_parts; }
  Part part(std::int64_t index) const {
    const std::int64_t row = index / unit_parts * rows, unit = index % unit_parts * units;
    return {row, std::min(rows, batch - row), unit, std::min(units, hidden - unit)};
  }
};

// Multiply-adds of one step.
double work_of(const RecurrentCall& call) {
  const auto hidden = static_cast<double>(call.hidden);
  return static_cast<double>(call.batch * backend::gates_of(call.cell)) * hidden * hidden;
}

Grid make_grid(const RecurrentCall& call, int threads, std::int64_t tile_columns) {
  Grid grid;
  grid.batch = call.batch;
  grid.hidden = call.hidden;
  grid.row_parts = std::clamp<std::int64_t>(call.batch / rows_of_a_part, 1, threads);
  grid.rows = divide_up(call.batch, grid.row_parts);
  grid.row_parts = divide_up(call.batch, grid.rows);
  const std::int64_t tiles = divide_up(call.hidden, tile_columns);
  const double most = work_of(call) / static_cast<double>(grid.row_parts) / work_that_waits;
  grid.unit_parts = std::min({threads / grid.row_parts, tiles, static_cast<std::int64_t>(most)});
  grid.units = divide_up(tiles, std::max<std::int64_t>(1, grid.unit_parts)) * tile_columns;
  grid.unit_parts = divide_up(call.hidden, grid.units);
  return grid;
}

// Calls before(step, part) for all parts and, once they are done, after(step, part). The next step
// of a part may follow at once: it reads only data written by its own `after`.
template <class Before, class After>
void for_each_step(int threads, const Grid& grid, std::int64_t steps, const Before& before,
                   const After& after) {
  if (grid.unit_parts == 1) {  // parts are independent: each runs all its steps
    return run_tasks(threads, grid.count(), [&](std::int64_t k) {
      for (std::int64_t step = 0; step < steps; ++step) {
        before(step, k);
        after(step, k);
      }
    });
  }
  for (std::int64_t step = 0; step <= steps; ++step) {
    run_tasks(threads, grid.count(), [&](std::int64_t k) {
      if (step > 0) after(step - 1, k);
      if (step < steps) before(step, k);
    });
  }
}

template <class T>
class Layer {
 public:
  explicit Layer(const RecurrentCall& call)
      : call_(call),
        gemm_(kernels<T>()),
        cells_(recurrent_kernels<T>()),
        gates_(backend::gates_of(call.cell)),
        threads_(gemm_threads(work_of(call) * static_cast<double>(call.steps), work_that_pays)),
        grid_(make_grid(call, threads_, gemm_.tile_columns)) {
    if (grid_.count() == 1) threads_ = 1;
  }

  void forward() {
    // Packs the gates separately, so that every gate's units begin with a panel.
    reserve(gates_, call_.hidden, call_.hidden);
    run_tasks(threads_, gates_, [&](std::int64_t gate) {
      gemm_.pack(weight() + gate * call_.hidden * call_.hidden, call_.hidden, 1, call_.hidden,
                 call_.hidden, gemm_.tile_columns, panels_ + gate * panel_size_);
    });
    for_each_step(
        threads_, grid_, call_.steps,
        [&](std::int64_t step, std::int64_t k) {
          const std::int64_t t = call_.reverse ? call_.steps - 1 - step : step;
          forward_product(t, k);
          forward_cell(t, grid_.part(k));
        },
        [](std::int64_t, std::int64_t) {});
  }

  void backward(const RecurrentBackwardCall& gradients) {
    gradients_ = &gradients;
    const std::int64_t terms = gates_ * call_.hidden;
    reserve(grid_.unit_parts, grid_.units, terms);
    run_tasks(threads_, grid_.unit_parts, [&](std::int64_t k) {
      const Part part = grid_.part(k);
      gemm_.pack(weight() + part.unit, 1, call_.hidden, part.units, terms, gemm_.tile_columns,
                 panels_ + k * panel_size_);
    });
    for_each_step(
        threads_, grid_, call_.steps,
        [&](std::int64_t step, std::int64_t k) {
          backward_cell(call_.reverse ? step : call_.steps - 1 - step, grid_.part(k));
        },
        [&](std::int64_t step, std::int64_t k) {
          backward_product(call_.reverse ? step : call_.steps - 1 - step, k);
        });
  }

 private:
  const T* weight() const { return reinterpret_cast<const T*>(call_.weight); }
  static T* at(std::byte* base, std::int64_t offset) { return reinterpret_cast<T*>(base) + offset; }
  static const T* at(const std::byte* base, std::int64_t offset) {
    return reinterpret_cast<const T*>(base) + offset;
  }
  std::int64_t slot_before(std::int64_t t) const { return call_.reverse ? t + 1 : t; }
  std::int64_t slot_after(std::int64_t t) const { return call_.reverse ? t : t + 1; }
  // The offset of the units of a sample in a slot of [slots, batch, hidden].
  std::int64_t unit_offset(std::int64_t slot, std::int64_t row, std::int64_t unit) const {
    return (slot * call_.batch + row) * call_.hidden + unit;
  }
  std::int64_t gate_offset(std::int64_t t, std::int64_t row, std::int64_t unit) const {
    return (t * call_.batch + row) * gates_ * call_.hidden + unit;
  }

  // Allocates all memory before anything is written: `count` panels of weights, each of `units`
  // columns and `terms` rows, and the rows of every part.
  void reserve(std::int64_t count, std::int64_t units, std::int64_t terms) {
    const std::int64_t slack = 2 * gemm_.tile_columns;
    const std::int64_t rows = divide_up(grid_.rows, gemm_.tile_rows) * gemm_.tile_rows;
    const std::int64_t columns = divide_up(units, gemm_.tile_columns) * gemm_.tile_columns;
    panel_size_ = divide_up(columns * terms + slack, 64) * 64;
    rows_size_ = divide_up(rows * std::min(terms, longest_sum) + slack, 64) * 64;
    panels_ = reinterpret_cast<T*>(Workspace::reserve(
        static_cast<std::size_t>(count * panel_size_ + grid_.count() * rows_size_) * sizeof(T)));
    rows_ = panels_ + count * panel_size_;
  }

  // A product of rows, packed here, with packed weights; see Block.
  Block<T> start(std::int64_t rows, std::int64_t units) const {
    Block<T> block{};
    block.m = rows;
    block.n = units;
    block.panel_rows = divide_up(rows, divide_up(rows, gemm_.tile_rows));
    block.a_row_stride = 1;
    block.a_k_stride = block.panel_rows;
    block.b_k_stride = gemm_.tile_columns;
    return block;
  }
  void pack_rows(Block<T>& block, std::int64_t index, const T* from, std::int64_t row_stride,
                 std::int64_t terms) const {
    T* packed = rows_ + index * rows_size_;
    gemm_.pack(from, row_stride, 1, block.m, terms, block.panel_rows, packed);
    block.a = packed;
    block.k = terms;
    block.a_panel_stride = block.panel_rows * terms;
  }

  // Adds the state's part to the gates.
  void forward_product(std::int64_t t, std::int64_t index) const {
    const Part part = grid_.part(index);
    const std::int64_t hidden = call_.hidden, tile = gemm_.tile_columns;
    Block<T> block = start(part.rows, part.units);
    block.b_panel_stride = tile * hidden;
    for (std::int64_t p = 0; p < hidden; p += longest_sum) {
      const std::int64_t terms = std::min(longest_sum, hidden - p);
      pack_rows(block, index, at(call_.states, unit_offset(slot_before(t), part.row, p)), hidden,
                terms);
      for (std::int64_t gate = 0; gate < gates_; ++gate) {
        block.b = panels_ + gate * panel_size_ + part.unit * hidden + p * tile;
        // A GRU's reset gate multiplies only the state's part of the new gate.
        const bool apart = call_.cell == RecurrentCell::gru && gate == 2;
        const std::int64_t offset = apart ? unit_offset(t, part.row, part.unit)
                                          : gate_offset(t, part.row, part.unit) + gate * hidden;
        block.sums = at(apart ? call_.cells : call_.gates, offset);
        block.sums_row_stride = apart ? hidden : gates_ * hidden;
        block.accumulate = !apart || p > 0;
        const Epilogue<T> finish{block.sums, block.sums_row_stride,
                                 call_.bias == nullptr ? nullptr : at(call_.bias, part.unit),
                                 Activation::none};
        block.finish = apart && p + terms == hidden ? &finish : nullptr;
        gemm_.block(block);
      }
    }
  }

  void forward_cell(std::int64_t t, const Part& part) const {
    const auto hidden = static_cast<std::size_t>(call_.hidden);
    const auto n = static_cast<std::size_t>(part.units);
    for (std::int64_t row = part.row; row < part.row + part.rows; ++row) {
      T* gates = at(call_.gates, gate_offset(t, row, part.unit));
      const std::int64_t before = unit_offset(slot_before(t), row, part.unit);
      const std::int64_t after = unit_offset(slot_after(t), row, part.unit);
      T* h = at(call_.states, after);
      switch (call_.cell) {
        case RecurrentCell::tanh:
          cells_.tanh(gates, h, n);
          break;
        case RecurrentCell::relu:
          cells_.relu(gates, h, n);
          break;
        case RecurrentCell::lstm:
          cells_.lstm(gates, hidden, at(call_.cells, before), at(call_.cells, after), h, n);
          break;
        case RecurrentCell::gru:
          cells_.gru(gates, hidden, at(call_.cells, unit_offset(t, row, part.unit)),
                     at(call_.states, before), h, n);
          break;
      }
    }
  }

  void backward_cell(std::int64_t t, const Part& part) const {
    const auto hidden = static_cast<std::size_t>(call_.hidden);
    const auto n = static_cast<std::size_t>(part.units);
    const RecurrentBackwardCall& g = *gradients_;
    for (std::int64_t row = part.row; row < part.row + part.rows; ++row) {
      const std::int64_t gate = gate_offset(t, row, part.unit);
      const std::int64_t before = unit_offset(slot_before(t), row, part.unit);
      const std::int64_t after = unit_offset(slot_after(t), row, part.unit);
      const std::int64_t own = unit_offset(0, row, part.unit);
      const T* h = at(call_.states, after);
      const T* grad_output = at(g.grad_output, unit_offset(t, row, part.unit));
      T* grad_h = at(g.grad_hidden, own);
      T* grad_gates = at(g.grad_gates, gate);
      switch (call_.cell) {
        case RecurrentCell::tanh:
          cells_.tanh_backward(h, grad_output, grad_h, grad_gates, n);
          break;
        case RecurrentCell::relu:
          cells_.relu_backward(h, grad_output, grad_h, grad_gates, n);
          break;
        case RecurrentCell::lstm:
          cells_.lstm_backward(at(call_.gates, gate), hidden, at(call_.cells, before),
                               at(call_.cells, after), grad_output, grad_h, at(g.grad_cell, own),
                               grad_gates, n);
          break;
        case RecurrentCell::gru:
          cells_.gru_backward(at(call_.gates, gate), hidden,
                              at(call_.cells, unit_offset(t, row, part.unit)),
                              at(call_.states, before), grad_output, grad_h, grad_gates,
                              at(g.grad_recurrent_gates, gate), n);
          break;
      }
    }
  }

  // The gradient that the gates of a step contribute to the state before it.
  void backward_product(std::int64_t t, std::int64_t index) const {
    const Part part = grid_.part(index);
    const std::int64_t all = gates_ * call_.hidden, tile = gemm_.tile_columns;
    const bool is_gru = call_.cell == RecurrentCell::gru;
    const std::byte* grad_gates =
        is_gru ? gradients_->grad_recurrent_gates : gradients_->grad_gates;
    Block<T> block = start(part.rows, part.units);
    block.b_panel_stride = tile * all;
    block.sums = at(gradients_->grad_hidden, unit_offset(0, part.row, part.unit));
    block.sums_row_stride = call_.hidden;
    for (std::int64_t p = 0; p < all; p += longest_sum) {
      pack_rows(block, index, at(grad_gates, gate_offset(t, part.row, p)), all,
                std::min(longest_sum, all - p));
      block.b = panels_ + index % grid_.unit_parts * panel_size_ + p * tile;
      block.accumulate = is_gru || p > 0;
      gemm_.block(block);
    }
  }

  const RecurrentCall& call_;
  const Kernels<T>& gemm_;
  const RecurrentKernels<T>& cells_;
  std::int64_t gates_;
  int threads_;
  Grid grid_;
  const RecurrentBackwardCall* gradients_ = nullptr;
  T* panels_ = nullptr;  // packed weights
  std::int64_t panel_size_ = 0;
  T* rows_ = nullptr;  // of each part, packed for each step
  std::int64_t rows_size_ = 0;
};

bool is_empty(const RecurrentCall& call) {
  return call.steps == 0 || call.batch == 0 || call.hidden == 0;
}

}  // namespace

void recurrent(const RecurrentCall& call) {
  if (is_empty(call)) return;
  if (call.dtype == DType::float64) return Layer<double>(call).forward();
  Layer<float>(call).forward();
}

void recurrent_backward(const RecurrentBackwardCall& call) {
  if (is_empty(call.forward)) return;
  if (call.forward.dtype == DType::float64) return Layer<double>(call.forward).backward(call);
  Layer<float>(call.forward).backward(call);
}

}  // namespace extensor::cpu
