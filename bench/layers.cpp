// Cases of losses, normalization and embedding, and their ExTensor implementation.
#include <extensor/extensor.h>

#include <string>

#include "cases.h"

namespace extensor::bench {

namespace {

// ---- cross-entropy and embedding, each forward and backward

// Integers below `limit`, the same for ExTensor and every peer.
Tensor integers(std::int64_t n, std::int64_t limit) {
  Tensor values = empty({n}, DType::float32), result = empty({n}, DType::int64);
  fill(values.data<float>(), n, 0, static_cast<double>(limit), 9);
  for (std::int64_t i = 0; i < n; ++i) {
    result.data<std::int64_t>()[i] = static_cast<std::int64_t>(values.data<float>()[i]) % limit;
  }
  return result;
}

void add_cross_entropy(std::vector<Case>& cases) {
  for (const auto& [shape, goal] :
       {std::pair{std::vector<std::int64_t>{64, 50257}, 4.0}, {{4096, 10}, 0.0}}) {
    cases.push_back({"cross_entropy forward + backward/" + std::to_string(shape[0]) + "x" +
                         std::to_string(shape[1]),
                     {"cross_entropy", DType::float32, {{shape}}, all_axes, -4, 4},
                     {.torch = goal}});
  }
}

void add_embedding(std::vector<Case>& cases) {
  cases.push_back({"embedding forward + backward/50257x768, 4096 ids",
                   {.op = "embedding", .operands = {{{50257, 768}}, {{4096, 768}}}},
                   {.torch = 1.5}});
}

// ---- linear + cross-entropy, one op or two: a recorded forward and its backward

// Operands x, weight and bias.
Work linear_cross_entropy_work(const Task& task) {
  const auto leaf = [&](std::size_t k) { return task_operand(task, k).requires_grad_(); };
  const Tensor x = leaf(0), weight = leaf(1), bias = leaf(2);
  const Tensor target = integers(x.size(0), weight.size(0));
  if (task.op == "linear_cross_entropy") {
    return [=] { grad(linear_cross_entropy(x, weight, bias, target), {x, weight, bias}); };
  }
  return [=] {
    const Tensor logits = linear(x, weight, bias);
    grad(cross_entropy(logits, target), {x, weight, bias});
  };
}

// Peak bytes of tensors other than the operands during a step, as the allocator counts them.
double step_bytes(const Task& task) {
  const Work work = linear_cross_entropy_work(task);
  work();
  const std::size_t before = memory_stats().allocated_bytes;
  reset_peak_memory_stats();
  work();
  return static_cast<double>(memory_stats().peak_allocated_bytes - before);
}

void add_linear_cross_entropy(std::vector<Case>& cases) {
  const std::int64_t tokens = 512, width = 256, vocabulary = 50257;
  const std::string size = "512x256x50257";
  const auto task = [&](const char* op) {
    return Task{op, DType::float32, {{{tokens, width}}, {{vocabulary, width}}, {{vocabulary}}}};
  };
  Case time;
  time.name = "linear_cross_entropy forward + backward/" + size;
  time.task = task("linear_cross_entropy");
  time.reference = task("linear then cross_entropy");
  time.reference_name = "linear then cross_entropy";
  time.goal.reference = 1;
  time.rounds = 11;
  cases.push_back(time);

  // At most a quarter of the unfused form, which holds the logits, their gradient and the weight's.
  for (const auto& [op, goal] :
       {std::pair{"linear_cross_entropy", 68.3e6}, std::pair{"linear then cross_entropy", 0.0}}) {
    Case memory;
    memory.name = std::string(op) + ", peak memory/" + size;
    memory.figure = [task = task(op)] { return step_bytes(task); };
    memory.in_bytes = true;
    memory.goal.amount = goal;
    cases.push_back(memory);
  }
}

Work cross_entropy_work(const Task& task) {
  const Tensor logits = task_operand(task, 0);
  const Tensor target = integers(logits.size(0), logits.size(1));
  return [logits, target, g = ones({})] {
    const auto [loss, statistics] = cross_entropy_with_statistics(logits, target);
    cross_entropy_backward(g, logits, target, {}, Reduction::mean, default_ignore_index, 0, false,
                           statistics);
  };
}

Work embedding_work(const Task& task) {
  const Tensor weight = task_operand(task, 0), g = task_operand(task, 1);
  const Tensor ids = integers(g.size(0), weight.size(0));
  return [weight, g, ids] {
    embedding(weight, ids);
    embedding_backward(g, ids, weight.size(0));
  };
}

// ---- normalization

// x, grad_output, weight and bias; the work is forward and backward.
void add_layer_norm(std::vector<Case>& cases) {
  const std::int64_t rows = 4096, length = 768;
  Case c;
  c.name = "layer_norm forward+backward/4096x768";
  c.task.op = "layer_norm";
  c.task.operands = {{{rows, length}}, {{rows, length}}, {{length}}, {{length}}};
  c.goal.torch = 1.5;
  // Reads x and writes the result, then reads x and grad_output and writes the gradient.
  const double bytes = 5.0 * rows * length * 4;
  c.floor = [bytes](int threads) { return copy_floor(bytes, threads); };
  cases.push_back(c);
}

Work layer_norm_work(const Task& task) {
  if (task.op != "layer_norm") return {};
  const Tensor x = task_operand(task, 0), g = task_operand(task, 1);
  const Tensor w = task_operand(task, 2), b = task_operand(task, 3);
  const Shape normalized = w.shape();
  return [x, g, w, b, normalized] {
    const Tensor y = layer_norm(x, normalized, w, b);
    layer_norm_backward(g, x, normalized, w, b);
  };
}

// ---- fused normalization, compared with single ops

const std::string unfused = ", one op after the other";

// x, residual, and the gradients of sum and output; then weight and bias.
void add_add_norms(std::vector<Case>& cases) {
  for (const char* op : {"add_layer_norm", "add_rms_norm"}) {
    for (std::int64_t rows : {256, 4096}) {
      const std::int64_t length = 768;
      const Operand x{{rows, length}}, parameter{{length}};
      Case c;
      c.name = std::string(op) + " forward+backward/" + std::to_string(rows) + "x768";
      c.task = {.op = op, .operands = {x, x, x, x, parameter, parameter}};
      c.reference = c.task;
      c.reference->op += unfused;
      c.goal.reference = 1;
      cases.push_back(c);
    }
  }
}

// x, residual, grad_output, weight and bias: the end of a ResNet-50 block.
void add_batch_norm_add_relu(std::vector<Case>& cases) {
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{8, 256, 56, 56}, {8, 1024, 14, 14}}) {
    const Operand x{shape}, parameter{{shape[1]}};
    Case c;
    c.name = "batch_norm_add_relu forward+backward/" + std::to_string(shape[0]) + "x" +
             std::to_string(shape[1]) + "x" + std::to_string(shape[2]) + "x" +
             std::to_string(shape[3]);
    c.task = {.op = "batch_norm_add_relu", .operands = {x, x, x, parameter, parameter}};
    c.reference = c.task;
    c.reference->op += unfused;
    c.goal.reference = 1;
    cases.push_back(c);
  }
}

Work add_norm_work(const Task& task) {
  const Tensor x = task_operand(task, 0), residual = task_operand(task, 1);
  const Tensor grad_sum = task_operand(task, 2), g = task_operand(task, 3);
  const Tensor w = task_operand(task, 4), b = task_operand(task, 5);
  const Shape normalized = w.shape();
  if (task.op == "add_layer_norm") {
    return [=] {
      const auto [sum, output] = add_layer_norm(x, residual, normalized, w, b);
      add_layer_norm_backward(grad_sum, g, sum, normalized, w, b);
    };
  }
  if (task.op == "add_layer_norm" + unfused) {
    return [=] {
      const Tensor sum = x + residual, output = layer_norm(sum, normalized, w, b);
      grad_sum + layer_norm_backward(g, sum, normalized, w, b).x;
    };
  }
  if (task.op == "add_rms_norm") {
    return [=] {
      const auto [sum, output] = add_rms_norm(x, residual, normalized, w);
      add_rms_norm_backward(grad_sum, g, sum, normalized, w);
    };
  }
  return [=] {
    const Tensor sum = x + residual, output = rms_norm(sum, normalized, w);
    grad_sum + rms_norm_backward(g, sum, normalized, w).first;
  };
}

Work batch_norm_add_relu_work(const Task& task) {
  const Tensor x = task_operand(task, 0), residual = task_operand(task, 1);
  const Tensor g = task_operand(task, 2), w = task_operand(task, 3), b = task_operand(task, 4);
  const Tensor mean = zeros(w.shape()), var = ones(w.shape());
  if (task.op == "batch_norm_add_relu") {
    return [=] {
      const Tensor y = batch_norm_add_relu(x, residual, mean, var, w, b, true);
      batch_norm_add_relu_backward(g, x, residual, y, mean, var, w, b, true);
    };
  }
  return [=] {
    const Tensor y = relu(batch_norm(x, mean, var, w, b, true) + residual);
    batch_norm_backward(relu_backward(g, y), x, mean, var, w, b, true);
  };
}

}  // namespace

void add_layers(std::vector<Case>& cases) {
  add_cross_entropy(cases);
  add_linear_cross_entropy(cases);
  add_embedding(cases);
  add_layer_norm(cases);
  add_add_norms(cases);
  add_batch_norm_add_relu(cases);
}

Work layers_work(const Task& task) {
  if (task.op.starts_with("linear")) return linear_cross_entropy_work(task);
  if (task.op == "cross_entropy") return cross_entropy_work(task);
  if (task.op == "embedding") return embedding_work(task);
  if (task.op.starts_with("add_layer_norm") || task.op.starts_with("add_rms_norm")) {
    return add_norm_work(task);
  }
  if (task.op.starts_with("batch_norm_add_relu")) return batch_norm_add_relu_work(task);
  return layer_norm_work(task);
}

}  // namespace extensor::bench
