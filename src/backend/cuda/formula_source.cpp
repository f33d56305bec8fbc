#include "backend/cuda/formula_source.h"

#include <algorithm>
#include <cstddef>

#include "core/check.h"

namespace extensor::backend::cuda {

namespace {

using Kind = FormulaValue::Kind;
using detail::message;

constexpr int most_unrolled_steps = 32;

// ---- layouts

bool is_aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

// As many elements as fit 16 bytes of the smallest dtype, but no more than 8.
int widest_pack(const FormulaCall& call) {
  std::size_t smallest = 8;
  for (int k = 0; k < call.input_count; ++k) {
    smallest = std::min(smallest, itemsize(call.inputs[k].dtype));
  }
  for (int k = 0; k < call.output_count; ++k) {
    smallest = std::min(smallest, itemsize(call.outputs[k].dtype));
  }
  return std::min(8, static_cast<int>(16 / smallest));
}

// The dimensions of a call without those of size 1, merged where all inputs allow it. The results
// are dense in the same order.
struct Dimensions {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides[max_formula_inputs];
};

Dimensions merged_dimensions(const FormulaCall& call) {
  Dimensions found;
  for (std::size_t d = 0; d < call.shape->size(); ++d) {
    const std::int64_t size = (*call.shape)[d];
    if (size == 1) continue;
    bool merges = !found.sizes.empty();
    for (int k = 0; k < call.input_count; ++k) {
      merges = merges && found.strides[k].back() == call.inputs[k].strides[d] * size;
    }
    if (merges) {
      found.sizes.back() *= size;
      for (int k = 0; k < call.input_count; ++k) {
        found.strides[k].back() = call.inputs[k].strides[d];
      }
    } else {
      found.sizes.push_back(size);
      for (int k = 0; k < call.input_count; ++k) {
        found.strides[k].push_back(call.inputs[k].strides[d]);
      }
    }
  }
  return found;
}

// Whether the inputs can be read in packs of `width` elements along the innermost dimension.
bool allows_packs(const FormulaCall& call, const Dimensions& dimensions, int width) {
  const std::size_t inner = dimensions.sizes.size() - 1;
  if (inner > 0 && dimensions.sizes[inner] % width != 0) return false;
  for (int k = 0; k < call.input_count; ++k) {
    if (dimensions.strides[k][inner] == 0) continue;
    if (dimensions.strides[k][inner] != 1 || !is_aligned(call.inputs[k].data)) return false;
    for (std::size_t d = 0; d < inner; ++d) {
      if (dimensions.strides[k][d] % width != 0) return false;
    }
  }
  return true;
}

// ---- rows

struct Row {
  const char* function = nullptr;  // in namespace rows
  int parameters = 0;
};

struct Rows {
  Row all[elementwise_op_count];

  Rows() {
    const auto set = [this](ElementwiseOp op, const char* function, int parameters) {
      all[static_cast<int>(op)] = {function, parameters};
    };
#define EXTENSOR_ROWS(name, forward, backward)     \
  set(ElementwiseOp::name, #name "_row", forward); \
  set(ElementwiseOp::name##_backward, #name "_backward_row", backward);
#define UNARY(name, ...) EXTENSOR_ROWS(name, 0, 0)
#define UNARY_EPS(name, ...) EXTENSOR_ROWS(name, 0, 1)
#define UNARY_1(name, ...) EXTENSOR_ROWS(name, 1, 1)
#define UNARY_2(name, ...) EXTENSOR_ROWS(name, 2, 2)
#define UNARY_2_NUMERIC(name, ...) EXTENSOR_ROWS(name, 2, 2)
#include "extensor/tables/unary.def"
#undef EXTENSOR_ROWS
#define EXTENSOR_ROWS(name, gradient)                                       \
  set(ElementwiseOp::name, #name "_row", 0);                                \
  set(ElementwiseOp::name##_gradient_a, #name "_gradient_a_row", gradient); \
  set(ElementwiseOp::name##_gradient_b, #name "_gradient_b_row", gradient);
#define BINARY(name, ...) EXTENSOR_ROWS(name, 0)
#define BINARY_EPS(name, ...) EXTENSOR_ROWS(name, 1)
#define BINARY_NUMERIC_EPS(name, ...) EXTENSOR_ROWS(name, 1)
#include "extensor/tables/binary.def"
#undef EXTENSOR_ROWS
#define COMPARE(name, ...) set(ElementwiseOp::name, #name "_test", 0);
#define PREDICATE(name, ...) set(ElementwiseOp::name, #name "_test", 0);
#include "extensor/tables/logical.def"
    set(ElementwiseOp::fma, "fma_row", 0);
  }
};

Row row_of(ElementwiseOp op) {
  static const Rows rows;
  return rows.all[static_cast<int>(op)];
}

bool is_logical(ElementwiseOp op) {
  return op == ElementwiseOp::logical_and || op == ElementwiseOp::logical_or ||
         op == ElementwiseOp::logical_xor || op == ElementwiseOp::logical_not;
}

}  // namespace

bool lay_out(const FormulaCall& call, FormulaLayout& layout) {
  for (int k = 0; k < call.step_count; ++k) {
    const ElementwiseOp op = call.steps[k].op;
    if (op != ElementwiseOp::where && row_of(op).function == nullptr) return false;
  }
  Dimensions dimensions = merged_dimensions(call);
  if (dimensions.sizes.empty()) {  // one element
    for (int k = 0; k < call.input_count; ++k) layout.is_single[k] = true;
    return true;
  }
  const std::size_t rank = dimensions.sizes.size(), inner = rank - 1;
  if (rank > max_kernel_dims) return false;
  const int widest = widest_pack(call);
  layout.width = allows_packs(call, dimensions, widest) ? widest : 1;
  layout.flat = rank == 1;
  for (int k = 0; k < call.input_count; ++k) {
    const std::int64_t step = dimensions.strides[k][inner];
    layout.is_single[k] = step == 0;
    layout.flat = layout.flat && (step == 0 || step == 1);
  }
  if (layout.flat) return true;
  dimensions.sizes[inner] /= layout.width;
  FormulaIteration& over = layout.over;
  over.count = 1;
  over.dims = static_cast<int>(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t size = dimensions.sizes[d];
    over.count *= size;
    over.sizes[d] = size;
    if (size < (std::int64_t{1} << 31))
      over.dividers[d] = Divider(static_cast<std::uint32_t>(size));
    for (int k = 0; k < call.input_count; ++k) {
      over.strides[k][d] = dimensions.strides[k][d] * (d == inner ? layout.width : 1);
    }
  }
  over.short_count = over.count < (std::int64_t{1} << 31);
  return true;
}

// ---- the text of a formula

namespace {

const char* type_name(DType dtype) {
  switch (dtype) {
    case DType::bool_:
    case DType::uint8:
      return "std::uint8_t";
    case DType::int8:
      return "std::int8_t";
    case DType::int16:
      return "std::int16_t";
    case DType::int32:
      return "std::int32_t";
    case DType::int64:
      return "std::int64_t";
    case DType::uint16:
      return "std::uint16_t";
    case DType::uint32:
      return "std::uint32_t";
    case DType::uint64:
      return "std::uint64_t";
    case DType::float16:
      return "Half";
    case DType::bfloat16:
      return "BFloat16";
    case DType::float32:
      return "float";
    case DType::float64:
      return "double";
    default:  // complex numbers are refused before
      return "";
  }
}

class Writer {
 public:
  Writer(const FormulaCall& call, const FormulaLayout& layout) : call_(call), layout_(layout) {}

  std::string source() {
    const std::size_t numbers = std::max<std::size_t>(1, formula_numbers(call_).size());
    line("#include \"backend/cuda/formula_kernel.cuh\"");
    line("using namespace extensor::backend::cuda;");
    line("namespace rows = extensor::cpu::N_CUDA;");
    line("using rows::Parameter;");
    line("using C = ", call_.compute == DType::float64 ? "double" : "float", ";");
    line("using V = rows::Lanes<C>;");
    line("using N = Numbers<C, ", numbers, ">;");
    write_compute();
    write_kernel();
    return std::move(text_);
  }

 private:
  template <class... Parts>
  void line(const Parts&... parts) {
    text_ += message(parts...);
    text_ += '\n';
  }

  bool is_mask(const FormulaValue& value) const {
    return value.kind == Kind::step && is_test(call_.steps[value.index].op);
  }
  std::string name(const FormulaValue& value) {
    if (value.kind == Kind::number) return message("n.at[", next_number_++, "]");
    return message(value.kind == Kind::input ? "i" : "s", value.index);
  }
  std::string as_value(const FormulaValue& value) {
    const bool plain = value.kind == Kind::number;
    const std::string text = name(value);
    return is_mask(value) ? message("V(C(", text, "))") : plain ? message("V(", text, ")") : text;
  }
  std::string as_number(const FormulaValue& value) {
    const bool plain = value.kind == Kind::number;
    const std::string text = name(value);
    return is_mask(value) ? message("C(", text, ")") : plain ? text : text + ".v.raw";
  }
  std::string as_mask(const FormulaValue& value) {
    return is_mask(value) ? name(value) : message("(", as_number(value), " != 0)");
  }

  void write_step(int index) {
    const FormulaStep& step = call_.steps[index];
    if (step.op == ElementwiseOp::where) {
      const std::string condition = as_mask(step.inputs[0]), yes = as_value(step.inputs[1]),
                        no = as_value(step.inputs[2]);
      return line("  const V s", index, " = ", condition, " ? ", yes, " : ", no, ";");
    }
    const Row row = row_of(step.op);
    const bool test = is_test(step.op);
    std::string arguments;
    for (int k = 0; k < step.input_count; ++k) {
      const FormulaValue& input = step.inputs[k];
      if (k > 0) arguments += ", ";
      arguments += is_logical(step.op) ? as_mask(input) : test ? as_number(input) : as_value(input);
    }
    if (test) {
      return line("  const bool s", index, " = rows::", row.function, "::apply(", arguments, ");");
    }
    if (row.parameters > 0) {
      std::string list;
      for (int k = 0; k < row.parameters; ++k) {
        list += message(k > 0 ? ", " : "", "{n.at[", next_number_++, "], 0}");
      }
      line("  const Parameter p", index, "[2] = {", list, "};");
    }
    line("  const V s", index, " = rows::", row.function, "<V>::apply(",
         row.parameters > 0 ? message("p", index) : std::string("nullptr"), ", ", arguments, ");");
  }

  void write_compute() {
    std::string parameters;
    for (int k = 0; k < call_.input_count; ++k) parameters += message(", C x", k);
    for (int k = 0; k < call_.output_count; ++k) parameters += message(", C& y", k);
    line("__device__ __forceinline__ void compute(const N& n", parameters, ") {");
    for (int k = 0; k < call_.input_count; ++k) line("  const V i", k, "(x", k, ");");
    for (int k = 0; k < call_.step_count; ++k) write_step(k);
    for (int k = 0; k < call_.output_count; ++k) {
      line("  y", k, " = ", as_number(call_.outputs[k].value), ";");
    }
    line("}");
  }

  // Computes `width` elements from element `at` of the results on.
  void write_elements(int width) {
    for (int k = 0; k < call_.input_count; ++k) {
      const bool single = layout_.is_single[k];
      const std::string offset = !layout_.flat ? message("offsets[", k, "]") : single ? "0" : "at";
      line("    C x", k, "[", width, "];");
      line("    ", single ? "load_single<" : "load<", type_name(call_.inputs[k].dtype),
           ">(operands.inputs[", k, "], ", offset, ", x", k, ");");
    }
    std::string arguments;
    for (int k = 0; k < call_.input_count; ++k) arguments += message(", x", k, "[e]");
    for (int k = 0; k < call_.output_count; ++k) {
      line("    C y", k, "[", width, "];");
      arguments += message(", y", k, "[e]");
    }
    // A long formula is compiled once: unrolled, it would take seconds.
    line(call_.step_count > most_unrolled_steps ? "#pragma unroll 1" : "#pragma unroll");
    line("    for (int e = 0; e < ", width, "; ++e) compute(numbers", arguments, ");");
    for (int k = 0; k < call_.output_count; ++k) {
      line("    store<", type_name(call_.outputs[k].dtype), ">(operands.outputs[", k, "], at, y", k,
           ");");
    }
  }

  void write_kernel() {
    const int width = layout_.width;
    line("extern \"C\" __global__ void __launch_bounds__(", formula_threads, ")");
    line(
        "formula(const __grid_constant__ FormulaOperands operands, const __grid_constant__ N "
        "numbers",
        layout_.flat ? "" : ", const __grid_constant__ FormulaIteration over", ") {");
    line("  for (std::int64_t p = first_index(); p < operands.packs; p += index_step()) {");
    line("    const std::int64_t at = p * ", width, ";");
    if (!layout_.flat) {
      line("    std::int64_t offsets[", call_.input_count, "];");
      line("    find_offsets(over, p, offsets);");
    }
    write_elements(width);
    line("  }");
    if (layout_.flat && width > 1) {
      line("  const std::int64_t at = operands.packs * ", width, " + first_index();");
      line("  if (at < operands.count) {");
      write_elements(1);
      line("  }");
    }
    line("}");
  }

  const FormulaCall& call_;
  const FormulaLayout& layout_;
  std::string text_;
  int next_number_ = 0;  // in the order of formula_numbers
};

}  // namespace

std::string formula_source(const FormulaCall& call, const FormulaLayout& layout) {
  return Writer(call, layout).source();
}

std::vector<double> formula_numbers(const FormulaCall& call) {
  std::vector<double> numbers;
  const auto add = [&](const FormulaValue& value) {
    if (value.kind == Kind::number) numbers.push_back(value.number);
  };
  for (int index = 0; index < call.step_count; ++index) {
    const FormulaStep& step = call.steps[index];
    for (int k = 0; k < step.input_count; ++k) add(step.inputs[k]);
    const int parameters = row_of(step.op).parameters;
    numbers.insert(numbers.end(), step.parameters, step.parameters + parameters);
  }
  for (int k = 0; k < call.output_count; ++k) add(call.outputs[k].value);
  return numbers;
}

std::string formula_key(const FormulaCall& call, const FormulaLayout& layout) {
  std::string key;
  const auto add = [&](int value) {
    key += static_cast<char>(value & 255);
    key += static_cast<char>(value >> 8 & 255);
  };
  const auto add_value = [&](const FormulaValue& value) {
    add(static_cast<int>(value.kind));
    add(value.index);
  };
  for (const int value : {static_cast<int>(call.compute), layout.width, int{layout.flat},
                          call.input_count, call.output_count, call.step_count}) {
    add(value);
  }
  for (int k = 0; k < call.input_count; ++k) {
    add(static_cast<int>(call.inputs[k].dtype));
    add(layout.is_single[k]);
  }
  for (int k = 0; k < call.output_count; ++k) {
    add(static_cast<int>(call.outputs[k].dtype));
    add_value(call.outputs[k].value);
  }
  for (int index = 0; index < call.step_count; ++index) {
    const FormulaStep& step = call.steps[index];
    add(static_cast<int>(step.op));
    for (int k = 0; k < step.input_count; ++k) add_value(step.inputs[k]);
  }
  return key;
}

}  // namespace extensor::backend::cuda
