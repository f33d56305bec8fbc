// ExTensor's implementation of the tasks. Elementwise functions come from the op tables: a new row
// is measured without an edit here.
#include <extensor/extensor.h>

#include <map>

#include "cases.h"

namespace extensor::bench {
namespace {

// The forward or backward of one row; operands that it does not have are undefined.
using Call = void (*)(const Tensor& a, const Tensor& b, const Tensor& c);

#define CALL(name, expression)                                                                     \
  {name, [](const Tensor& a, [[maybe_unused]] const Tensor& b, [[maybe_unused]] const Tensor& c) { \
     expression;                                                                                   \
   }},

const std::map<std::string, Call> rows = {
#define UNARY(name, ...) \
  CALL(#name, extensor::name(a)) CALL(#name "_backward", name##_backward(a, b))
#define UNARY_2_NUMERIC(name, p, q, ...)    \
  CALL(#name, extensor::name(a, -1.0, 1.0)) \
  CALL(#name "_backward", name##_backward(a, b, -1.0, 1.0))
#include "extensor/tables/unary.def"
#define BINARY(name, ...) \
  CALL(#name, extensor::name(a, b)) CALL(#name "_backward", name##_backward(a, b, c))
#define BINARY_LINEAR(name, ...)    \
  CALL(#name, extensor::name(a, b)) \
  CALL(#name "_backward", name##_backward(a, b.shape(), c.shape()))
#include "extensor/tables/binary.def"
#define COMPARE(name, ...) CALL(#name, extensor::name(a, b))
#define PREDICATE(name, ...) CALL(#name, extensor::name(a))
#include "extensor/tables/logical.def"
};

}  // namespace

Tensor task_operand(const Task& task, std::size_t index) {
  const Operand& operand = task.operands[index];
  Tensor values = empty(operand.shape, DType::float32);
  fill(values.data<float>(), count(operand), task.lo, task.hi,
       static_cast<std::uint32_t>(index + 1));
  values = values.to(task.dtype);
  if (operand.transposed) values = values.transpose();
  if (operand.step != 1) values = values.slice(-1, {}, {}, operand.step);
  return values;
}

Work extensor_work(const Task& task) {
  for (const auto family : {convolution_work, network_ops_work, layers_work, attention_work,
                            training_work, networks_work, linalg_work}) {
    if (Work work = family(task)) return work;
  }
  const Tensor a = task_operand(task, 0);
  const Tensor b = task.operands.size() > 1 ? task_operand(task, 1) : Tensor();
  const Tensor c = task.operands.size() > 2 ? task_operand(task, 2) : Tensor();
  const Axes axes = task.axis == all_axes ? Axes() : Axes(task.axis);

  if (const auto row = rows.find(task.op); row != rows.end()) {
    return [a, b, c, call = row->second] { call(a, b, c); };
  }
  if (task.op == "multiply_backward in two steps") {
    return [g = a, x = b, w = c] {
      multiply(g, w);
      reduce_broadcast_dims(multiply(g, x), w.shape());
    };
  }
  if (task.op == "matmul") return [a, b] { matmul(a, b); };
  if (task.op == "contiguous") return [a] { a.contiguous(); };
  if (task.op == "sum") return [a, axes] { sum(a, axes); };
  if (task.op == "max_reduce") return [a, axes] { max_reduce(a, axes); };
  if (task.op == "softmax") return [a, axis = task.axis] { softmax(a, axis); };
  if (task.op == "softmax_backward") {
    return [g = a, y = softmax(b, task.axis), axis = task.axis] { softmax_backward(g, y, axis); };
  }
  return {};
}

const std::vector<Row>& table_rows() {
  static const std::vector<Row> rows = {
#define UNARY(name, lo, hi, ...) {#name, 1, lo, hi}, {#name "_backward", 2, lo, hi},
#include "extensor/tables/unary.def"
#define BINARY(name, lo, hi, ...) {#name, 2, lo, hi}, {#name "_backward", 3, lo, hi},
#include "extensor/tables/binary.def"
#define COMPARE(name, ...) {#name, 2, -4, 4},
#define PREDICATE(name, ...) {#name, 1, -4, 4},
#include "extensor/tables/logical.def"
  };
  return rows;
}

}  // namespace extensor::bench
