// Resampling, volumes, statistics, sequence losses and rotary embedding in PyTorch's C++ API. A
// backward that PyTorch has only in autograd is composed of the functions that autograd would call.
#include <ATen/core/Reduction.h>

#include "peers/torch_work.h"

namespace extensor::bench {

namespace {

// Integers from 1 to limit − 1, the same for ExTensor and every peer.
at::Tensor labels(std::int64_t n, std::int64_t limit) {
  at::Tensor values = at::empty({n}, at::kFloat), result = at::empty({n}, at::kLong);
  fill(values.data_ptr<float>(), n, 0, 1e6, 9);
  for (std::int64_t i = 0; i < n; ++i) {
    result.data_ptr<std::int64_t>()[i] =
        1 + static_cast<std::int64_t>(values.data_ptr<float>()[i]) % (limit - 1);
  }
  return result;
}

Work interpolate_work(const Task& task) {
  const at::Tensor x = torch_operand(task, 0), g = torch_operand(task, 1);
  const std::vector<std::int64_t> in(x.sizes().begin(), x.sizes().end());
  const std::vector<std::int64_t> out{g.size(2), g.size(3)};
  if (task.op.ends_with("nearest")) {
    return [=] {
      at::upsample_nearest2d(x, out);
      at::upsample_nearest2d_backward(g, out, in);
    };
  }
  if (task.op.ends_with("bilinear")) {
    return [=] {
      at::upsample_bilinear2d(x, out, false);
      at::upsample_bilinear2d_backward(g, out, in, false);
    };
  }
  return [=] {
    at::upsample_bicubic2d(x, out, false);
    at::upsample_bicubic2d_backward(g, out, in, false);
  };
}

Work convolution_work(const Task& task, std::vector<std::int64_t> stride,
                      std::vector<std::int64_t> padding, bool transposed) {
  const at::Tensor x = torch_operand(task, 0), w = torch_operand(task, 1),
                   g = torch_operand(task, 2);
  const std::vector<std::int64_t> one(stride.size(), 1), none(stride.size(), 0);
  return [=] {
    at::convolution(x, w, {}, stride, padding, one, transposed, none, 1);
    at::convolution_backward(g, x, w, at::OptionalIntArrayRef(), stride, padding, one, transposed,
                             none, 1, {true, true, false});
  };
}

// As in Hugging Face's Llama: x · cos + rotate_half(x) · sin, with tables in float32.
Work rotary_work(const Task& task) {
  const at::Tensor x = torch_operand(task, 0), g = torch_operand(task, 1);
  const std::int64_t length = x.size(-2), width = x.size(-1);
  const auto rotated = [=](const at::Tensor& a, double direction) {
    const at::Tensor rates = at::pow(
        10000.0, at::arange(0, width / 2, at::kFloat) * (-2.0 / static_cast<double>(width)));
    const at::Tensor half = at::outer(at::arange(0, length, at::kFloat), rates);
    const at::Tensor angle = at::cat({half, half}, -1);
    const at::Tensor turned =
        at::cat({a.slice(-1, width / 2).neg(), a.slice(-1, 0, width / 2)}, -1);
    return a * angle.cos() + turned * (angle.sin() * direction);
  };
  return [=] {
    rotated(x, 1);
    rotated(g, -1);
  };
}

Work ctc_work(const Task& task) {
  const at::Tensor x = at::log_softmax(torch_operand(task, 0), 2);
  const std::int64_t batch = x.size(1);
  const at::Tensor targets = labels(batch * 30, x.size(2)).reshape({batch, 30});
  const std::vector<std::int64_t> inputs(static_cast<std::size_t>(batch), x.size(0)),
      lengths(static_cast<std::size_t>(batch), 30);
  const at::Tensor g = at::full({batch}, 1.0 / (30.0 * static_cast<double>(batch)));
  return [=] {
    const auto [losses, alpha] = at::_ctc_loss(x, targets, inputs, lengths);
    (losses / 30).mean();
    at::_ctc_loss_backward(g, x, targets, inputs, lengths, losses, alpha, 0);
  };
}

Work cosine_work(const Task& task) {
  const at::Tensor a = torch_operand(task, 0), b = torch_operand(task, 1);
  const at::Tensor y = labels(a.size(0), 3) * 2 - 3;
  return [=] {
    at::cosine_embedding_loss(a, b, y);
    const at::Tensor of_a = (a * a).sum(1, true) + 1e-12, of_b = (b * b).sum(1, true) + 1e-12;
    const at::Tensor lengths = (of_a * of_b).sqrt(), c = (a * b).sum(1, true) / lengths;
    const at::Tensor g =
        at::where(y.unsqueeze(1) == 1, at::scalar_tensor(-1.0 / static_cast<double>(a.size(0))),
                  (c > 0).to(at::kFloat) / static_cast<double>(a.size(0)));
    const at::Tensor across = g / lengths, along = g * c;
    across* b - along / of_a* a;
    across* a - along / of_b* b;
  };
}

Work gaussian_work(const Task& task) {
  const at::Tensor x = torch_operand(task, 0), y = torch_operand(task, 1),
                   v = torch_operand(task, 2).abs() + 0.5;
  const double scale = 1.0 / static_cast<double>(x.numel());
  return [=] {
    const at::Tensor floored = v.clone().clamp_min_(1e-6);
    (0.5 * (floored.log() + (x - y).square() / floored)).mean();
    const at::Tensor slope = (x - y) / floored, of_x = slope * scale;
    of_x.neg();
    (floored.reciprocal() - slope.square()) * (0.5 * scale);
  };
}

}  // namespace

Work torch_network_ops(const Task& task) {
  const auto operand = [&](std::size_t k) { return torch_operand(task, k); };
  if (task.op.starts_with("interpolate/")) return interpolate_work(task);
  if (task.op == "pixel_shuffle") {
    return [x = operand(0), g = operand(1)] {
      at::pixel_shuffle(x, 2);
      at::pixel_unshuffle(g, 2);
    };
  }
  if (task.op == "conv3d") return convolution_work(task, {1, 1, 1}, {1, 1, 1}, false);
  if (task.op == "conv_transpose1d") return convolution_work(task, {2}, {1}, true);
  if (task.op == "conv_transpose3d") return convolution_work(task, {2, 2, 2}, {0, 0, 0}, true);
  if (task.op == "max_pool1d") {
    return [x = operand(0), g = operand(1)] {
      const auto [y, indices] = at::max_pool1d_with_indices(x, {2}, {2});
      at::max_pool2d_with_indices_backward(g.unsqueeze(2), x.unsqueeze(2), {1, 2}, {1, 2}, {0, 0},
                                           {1, 1}, false, indices.unsqueeze(2));
    };
  }
  if (task.op == "max_pool3d") {
    return [x = operand(0), g = operand(1)] {
      const auto [y, indices] = at::max_pool3d_with_indices(x, {2, 2, 2}, {2, 2, 2});
      at::max_pool3d_with_indices_backward(g, x, {2, 2, 2}, {2, 2, 2}, {0, 0, 0}, {1, 1, 1}, false,
                                           indices);
    };
  }
  if (task.op == "avg_pool3d") {
    return [x = operand(0), g = operand(1)] {
      at::avg_pool3d(x, {2, 2, 2}, {2, 2, 2});
      at::avg_pool3d_backward(g, x, {2, 2, 2}, {2, 2, 2}, {0, 0, 0}, false, true, {});
    };
  }
  if (task.op == "rotary_embedding") return rotary_work(task);
  if (task.op == "ctc_loss") return ctc_work(task);
  if (task.op == "cosine_embedding_loss") return cosine_work(task);
  if (task.op == "gaussian_nll_loss") return gaussian_work(task);
  if (task.op == "quantile") {
    // Its backward scatters to the two elements around the position.
    return [x = operand(0), g = operand(1).unsqueeze(1)] {
      at::quantile(x, 0.3, 1);
      const auto order = at::argsort(x, std::int64_t{1}).slice(1, 299, 301);
      at::zeros_like(x).scatter_add_(1, order, at::cat({g * 0.3, g * 0.7}, 1));
    };
  }
  if (task.op == "median") {
    return [x = operand(0), g = operand(1).unsqueeze(1)] {
      const auto [values, indices] = at::median(x, 1, true);
      at::zeros_like(x).scatter_(1, indices, g);
    };
  }
  if (task.op == "histogram") {
    return [x = operand(0)] { at::histogram(x, 100, c10::ArrayRef<double>({-1.0, 1.0})); };
  }
  if (task.op == "bincount") {
    return [x = labels(task.operands[0].shape[0], 1000)] { at::bincount(x); };
  }
  return {};
}

}  // namespace extensor::bench
