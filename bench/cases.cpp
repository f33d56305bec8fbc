#include "cases.h"

#include <algorithm>
#include <initializer_list>

namespace extensor::bench {
namespace {

constexpr std::int64_t thousand = 1000, hundred_thousand = 100000, ten_million = 10000000;

double bytes_of(DType dtype) { return static_cast<double>(itemsize(dtype)); }

std::string type_name(DType dtype) {
  switch (dtype) {
    case DType::float64:
      return "float64";
    case DType::float16:
      return "float16";
    case DType::bfloat16:
      return "bfloat16";
    default:
      return "float32";
  }
}

std::string size_name(std::int64_t n) {
  return n == thousand ? "1e3" : n == hundred_thousand ? "1e5" : n == ten_million ? "1e7" : "1";
}

std::string shape_name(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (std::int64_t extent : shape) text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text;
}

// Only memory bandwidth limits work beyond every cache; for smaller work the floor is unknown.
std::function<Floor(int)> elementwise_floor(std::int64_t n, int operands, DType dtype) {
  if (n < ten_million) return {};
  const double bytes = static_cast<double>(n) * (operands + 1) * bytes_of(dtype);
  return [bytes](int threads) { return copy_floor(bytes, threads); };
}

const Row& row(const std::string& name) {
  const auto& rows = table_rows();
  return *std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.name == name; });
}

Case elementwise(const Row& row, std::int64_t n, DType dtype, Goal goal) {
  Case c;
  c.name = row.name + "/" + type_name(dtype) + "/" + size_name(n);
  c.task = {row.name, dtype, {}, all_axes, row.lo, row.hi};
  c.task.operands.assign(static_cast<std::size_t>(row.operands), Operand{{n}});
  c.goal = goal;
  c.floor = elementwise_floor(n, row.operands, dtype);
  return c;
}

Case matmul(std::string label, Operand a, Operand b, DType dtype, Goal goal) {
  Case c;
  c.task = {"matmul", dtype, {std::move(a), std::move(b)}};
  const Gemm gemm(c.task);
  c.name = "matmul/" + type_name(dtype) + "/" + std::to_string(gemm.m) + "x" +
           std::to_string(gemm.n) + "x" + std::to_string(gemm.k) + label;
  c.goal = goal;
  const double flops = gemm.flops();
  if (gemm.n == 1) {
    const double bytes = static_cast<double>(gemm.m * gemm.k) * bytes_of(dtype);
    c.floor = [bytes](int threads) { return read_floor(bytes, threads); };
  } else if (dtype == DType::float32 || dtype == DType::float64) {
    c.floor = [flops, dtype](int threads) { return fma_floor(flops, dtype, threads); };
  }
  if (flops > 2e9) c.rounds = 11;
  return c;
}

Case square_matmul(std::int64_t n, DType dtype, Goal goal) {
  return matmul("", {{n, n}}, {{n, n}}, dtype, goal);
}

void add_elementwise(std::vector<Case>& cases) {
  Case tiny = elementwise(row("add"), 1, DType::float32, {.amount = 120e-9});
  cases.push_back(tiny);
  cases.push_back(elementwise(row("add"), ten_million, DType::float32, {.torch = 4, .floor = 0.9}));
  Case into_buffer = elementwise(row("add"), ten_million, DType::float32, {.torch = 1.2});
  into_buffer.name += " (torch: out=)";
  into_buffer.task.into_buffer = true;
  cases.push_back(into_buffer);
  for (DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
    for (const char* name : {"exp", "tanh", "sigmoid", "gelu", "log", "sin"}) {
      for (std::int64_t n : {thousand, hundred_thousand, ten_million}) {
        cases.push_back(elementwise(row(name), n, dtype, {.torch = 1.5}));
      }
    }
  }
}

void add_layouts(std::vector<Case>& cases) {
  const Goal goal{.torch = 1.2};
  cases.push_back({"add/broadcast/1024x1+1x1024",
                   {"add", DType::float32, {{{1024, 1}}, {{1, 1024}}}},
                   goal,
                   {},
                   {}});
  const double bytes = 2.0 * 4096 * 4096 * 4;
  cases.push_back({"copy/transposed/4096x4096",
                   {"contiguous", DType::float32, {{{4096, 4096}, true}}},
                   goal,
                   [bytes](int threads) { return copy_floor(bytes, threads); },
                   {}});
  const Operand strided{{1024, 2048}, false, 2};
  cases.push_back({"add/strided/1024x1024 of 1024x2048",
                   {"add", DType::float32, {strided, strided}},
                   goal,
                   {},
                   {}});
}

// The gradients of x · w with a smaller w, next to evaluating that of w in the whole shape first.
void add_summed_gradients(std::vector<Case>& cases) {
  const std::pair<const char*, std::vector<std::vector<std::int64_t>>> sizes[] = {
      {"4096x4096 * 4096", {{4096, 4096}, {4096, 4096}, {4096}}},
      {"4096x4096 * 4096x1", {{4096, 4096}, {4096, 4096}, {4096, 1}}},
      {"16x64x128x128 * 64x1x1", {{16, 64, 128, 128}, {16, 64, 128, 128}, {64, 1, 1}}}};
  for (const auto& [name, operands] : sizes) {
    Case c;
    c.name = std::string("multiply_backward/") + name;
    c.task.op = "multiply_backward";
    for (const auto& operand : operands) c.task.operands.push_back({operand});
    c.goal = {.torch = 1.2, .reference = 1};
    c.reference = c.task;
    c.reference->op = "multiply_backward in two steps";
    c.reference_name = "two steps";
    cases.push_back(std::move(c));
  }
}

void add_reductions(std::vector<Case>& cases) {
  const double bytes = 4096.0 * 4096 * 4;
  for (const char* op : {"sum", "max_reduce"}) {
    for (int axis : {all_axes, 0, 1}) {
      const std::string where = axis == all_axes ? "all" : "axis" + std::to_string(axis);
      cases.push_back({op + ("/" + where) + "/4096x4096",
                       {op, DType::float32, {{{4096, 4096}}}, axis},
                       {.torch = 1, .floor = 0.9},
                       [bytes](int threads) { return read_floor(bytes, threads); },
                       {}});
    }
  }
}

void add_softmax(std::vector<Case>& cases) {
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{1024, 1024}, std::vector<std::int64_t>{64, 50257}}) {
    const Goal goal{.torch = 1.8};
    cases.push_back({"softmax/" + shape_name(shape),
                     {"softmax", DType::float32, {{shape}}, -1, -4, 4},
                     goal,
                     {},
                     {}});
    cases.push_back({"softmax_backward/" + shape_name(shape),
                     {"softmax_backward", DType::float32, {{shape}, {shape}}, -1, -4, 4},
                     goal,
                     {},
                     {}});
  }
}

void add_matmul(std::vector<Case>& cases) {
  const Goal goal{.torch = 1, .library = 0.95};
  cases.push_back(square_matmul(16, DType::float32, {.torch = 5, .library = 0.95}));
  for (std::int64_t n : {64, 128, 512, 2048})
    cases.push_back(square_matmul(n, DType::float32, goal));
  cases.push_back(matmul("", {{256, 768}}, {{768, 3072}}, DType::float32, goal));
  cases.push_back(matmul(" gemv", {{4096, 4096}}, {{4096}}, DType::float32, goal));

  // A 784-512-256-10 network at batch 64, weights stored [out, in]: y = x·Wᵀ, dx = dy·W, dW =
  // dyᵀ·x.
  const std::int64_t batch = 64, widths[] = {784, 512, 256, 10};
  for (int i = 0; i < 3; ++i) {
    const std::int64_t in = widths[i], out = widths[i + 1];
    cases.push_back(matmul(" NT", {{batch, in}}, {{out, in}, true}, DType::float32, goal));
    if (i > 0) cases.push_back(matmul(" NN", {{batch, out}}, {{out, in}}, DType::float32, goal));
    cases.push_back(matmul(" TN", {{batch, out}, true}, {{batch, in}}, DType::float32, goal));
  }

  for (DType dtype : {DType::float16, DType::bfloat16}) {
    Case half = square_matmul(512, dtype, {.reference = 0.7});
    half.reference = square_matmul(512, DType::float32, {}).task;
    cases.push_back(half);
  }
  for (std::int64_t n : {512, 1024}) {
    cases.push_back(square_matmul(n, DType::float64, {.library = 0.95}));
  }
}

void add_library(std::vector<Case>& cases) {
  const auto add = [&](const char* name, double at_most, double (*measure)(), bool in_bytes) {
    Case c;
    c.name = name;
    c.goal.amount = at_most;
    c.figure = measure;
    c.in_bytes = in_bytes;
    cases.push_back(c);
  };
  add("library/include at -O0", 1.5, include_seconds, false);
  add("library/start, add, end", 20e-3, startup_seconds, false);
  add("library/stripped size", 8e6, library_bytes, true);
}

// Rows without a goal are measured at one size, so that a slow one is noticed.
void add_other_rows(std::vector<Case>& cases) {
  for (const Row& row : table_rows()) {
    Case c = elementwise(row, hundred_thousand, DType::float32, {});
    const auto same = [&](const Case& other) { return other.name == c.name; };
    if (std::none_of(cases.begin(), cases.end(), same)) cases.push_back(std::move(c));
  }
}

}  // namespace

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  add_elementwise(cases);
  add_summed_gradients(cases);
  add_layouts(cases);
  add_reductions(cases);
  add_softmax(cases);
  add_matmul(cases);
  add_convolution(cases);
  add_layers(cases);
  add_network_ops(cases);
  add_linalg(cases);
  add_training(cases);
  add_networks(cases);
  add_attention(cases);
  add_library(cases);
  add_other_rows(cases);
  return cases;
}

}  // namespace extensor::bench
