// Cases of resampling, volumes, statistics, sequence losses and rotary embedding, each forward and
// backward where it has one, and their ExTensor implementation.
#include <extensor/extensor.h>

#include "cases.h"

namespace extensor::bench {

namespace {

// Integers from 1 to limit − 1, the same for ExTensor and every peer.
Tensor labels(std::int64_t n, std::int64_t limit) {
  Tensor values = empty({n}, DType::float32), result = empty({n}, DType::int64);
  fill(values.data<float>(), n, 0, 1e6, 9);
  for (std::int64_t i = 0; i < n; ++i) {
    result.data<std::int64_t>()[i] =
        1 + static_cast<std::int64_t>(values.data<float>()[i]) % (limit - 1);
  }
  return result;
}

const std::vector<std::pair<std::string, InterpolateMode>> modes = {
    {"nearest", InterpolateMode::nearest},
    {"bilinear", InterpolateMode::bilinear},
    {"bicubic", InterpolateMode::bicubic}};

}  // namespace

void add_network_ops(std::vector<Case>& cases) {
  using Dimensions = std::vector<std::int64_t>;
  const auto add = [&](const std::string& op, const std::string& size,
                       std::initializer_list<Dimensions> operands) {
    Case c;
    c.name = op + " forward + backward/" + size;
    c.task.op = op;
    for (const Dimensions& operand : operands) c.task.operands.push_back({operand});
    c.goal.torch = 1;
    c.rounds = 15;
    cases.push_back(std::move(c));
  };
  for (const auto& [name, mode] : modes) {
    add("interpolate/" + name, "8x64x56x56 by 2", {{8, 64, 56, 56}, {8, 64, 112, 112}});
    add("interpolate/" + name, "4x3x256x256 to 224x224", {{4, 3, 256, 256}, {4, 3, 224, 224}});
  }
  add("pixel_shuffle", "8x64x56x56 by 2", {{8, 64, 56, 56}, {8, 16, 112, 112}});
  add("conv3d", "2x16x16x32x32, 32 of 3x3x3",
      {{2, 16, 16, 32, 32}, {32, 16, 3, 3, 3}, {2, 32, 16, 32, 32}});
  add("conv_transpose1d", "8x64x1024, 32 of 4, stride 2",
      {{8, 64, 1024}, {64, 32, 4}, {8, 32, 2048}});
  add("conv_transpose3d", "2x16x8x16x16, 8 of 2x2x2, stride 2",
      {{2, 16, 8, 16, 16}, {16, 8, 2, 2, 2}, {2, 8, 16, 32, 32}});
  add("max_pool1d", "16x64x4096 by 2", {{16, 64, 4096}, {16, 64, 2048}});
  add("max_pool3d", "2x16x16x64x64 by 2", {{2, 16, 16, 64, 64}, {2, 16, 8, 32, 32}});
  add("avg_pool3d", "2x16x16x64x64 by 2", {{2, 16, 16, 64, 64}, {2, 16, 8, 32, 32}});
  add("rotary_embedding", "8x12x512x64", {{8, 12, 512, 64}, {8, 12, 512, 64}});
  add("ctc_loss", "200x16x32, 30 labels", {{200, 16, 32}});
  add("cosine_embedding_loss", "4096x256", {{4096, 256}, {4096, 256}});
  add("gaussian_nll_loss", "1024x1024", {{1024, 1024}, {1024, 1024}, {1024, 1024}});
  add("quantile", "1000x1000, axis 1", {{1000, 1000}, {1000}});
  add("median", "1000x1000, axis 1", {{1000, 1000}, {1000}});
  add("histogram", "1000000, 100 bins", {{1000000}});
  add("bincount", "1000000 below 1000", {{1000000}});
}

Work network_ops_work(const Task& task) {
  const auto operand = [&](std::size_t k) { return task_operand(task, k); };
  for (const auto& [name, mode] : modes) {
    if (task.op != "interpolate/" + name) continue;
    const Tensor x = operand(0), g = operand(1);
    const InterpolateOptions options{.size = Size2d{g.size(2), g.size(3)}, .mode = mode};
    return [=] {
      interpolate(x, options);
      interpolate_backward(g, x.shape(), options);
    };
  }
  if (task.op == "pixel_shuffle") {
    return [x = operand(0), g = operand(1)] {
      pixel_shuffle(x, 2);
      pixel_unshuffle(g, 2);
    };
  }
  if (task.op == "conv3d") {
    return [x = operand(0), w = operand(1), g = operand(2)] {
      conv3d(x, w, {}, {.padding = 1});
      conv3d_backward(g, x, w, {.padding = 1}, {true, true, false});
    };
  }
  if (task.op == "conv_transpose1d") {
    return [x = operand(0), w = operand(1), g = operand(2)] {
      const ConvTranspose1dOptions options{.stride = 2, .padding = 1};
      conv_transpose1d(x, w, {}, options);
      conv_transpose1d_backward(g, x, w, options, {true, true, false});
    };
  }
  if (task.op == "conv_transpose3d") {
    return [x = operand(0), w = operand(1), g = operand(2)] {
      conv_transpose3d(x, w, {}, {.stride = 2});
      conv_transpose3d_backward(g, x, w, {.stride = 2}, {true, true, false});
    };
  }
  if (task.op == "max_pool1d") {
    return [x = operand(0), g = operand(1)] {
      max_pool1d(x, 2);
      max_pool1d_backward(g, x, 2);
    };
  }
  if (task.op == "max_pool3d") {
    return [x = operand(0), g = operand(1)] {
      max_pool3d(x, 2);
      max_pool3d_backward(g, x, 2);
    };
  }
  if (task.op == "avg_pool3d") {
    return [x = operand(0), g = operand(1)] {
      avg_pool3d(x, 2);
      avg_pool3d_backward(g, x.shape(), 2);
    };
  }
  if (task.op == "rotary_embedding") {
    return [x = operand(0), g = operand(1)] {
      rotary_embedding(x);
      rotary_embedding_backward(g);
    };
  }
  if (task.op == "ctc_loss") {
    const Tensor x = log_softmax(operand(0), 2);
    const std::int64_t batch = x.size(1);
    const Tensor targets = labels(batch * 30, x.size(2)).reshape({batch, 30});
    const Dims inputs(static_cast<std::size_t>(batch), x.size(0)),
        lengths(static_cast<std::size_t>(batch), 30);
    return [=, g = ones({})] {
      ctc_loss(x, targets, inputs, lengths);
      ctc_loss_backward(g, x, targets, inputs, lengths);
    };
  }
  if (task.op == "cosine_embedding_loss") {
    const Tensor y = labels(task.operands[0].shape[0], 3) * 2 - 3;  // −1 or 1
    return [=, a = operand(0), b = operand(1), g = ones({})] {
      cosine_embedding_loss(a, b, y);
      cosine_embedding_loss_backward(g, a, b, y);
    };
  }
  if (task.op == "gaussian_nll_loss") {
    return [x = operand(0), y = operand(1), v = abs(operand(2)) + 0.5, g = ones({})] {
      gaussian_nll_loss(x, y, v);
      gaussian_nll_loss_backward(g, x, y, v);
    };
  }
  if (task.op == "quantile") {
    return [x = operand(0), g = operand(1)] {
      quantile(x, 0.3, 1);
      quantile_backward(g, x, 0.3, 1);
    };
  }
  if (task.op == "median") {
    return [x = operand(0), g = operand(1)] {
      median(x, 1);
      median_backward(g, x, 1);
    };
  }
  if (task.op == "histogram") {
    return [x = operand(0)] { histogram(x, 100, std::pair(-1.0, 1.0)); };
  }
  if (task.op == "bincount") {
    return [x = labels(task.operands[0].shape[0], 1000)] { bincount(x); };
  }
  return {};
}

}  // namespace extensor::bench
