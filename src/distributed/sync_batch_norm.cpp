#include "extensor/distributed/sync_batch_norm.h"

#include "core/check.h"
#include "core/graph.h"
#include "extensor/autograd.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/manipulation.h"
#include "extensor/normalization.h"
#include "extensor/reduction.h"
#include "nn/layer_checks.h"

namespace extensor::distributed {

using detail::message;

namespace {

// All axes but that of the channels, and the shape in which a value of each channel broadcasts.
Axes other_axes(const Tensor& x) {
  Dims axes{0};
  for (std::int64_t d = 2; d < x.ndim(); ++d) axes.push_back(d);
  return Axes(axes);
}
Shape channel_shape(const Tensor& x) {
  Shape shape(static_cast<std::size_t>(x.ndim()), 1);
  shape[1] = x.size(1);
  return shape;
}

// Of all ranks, in float64: [features] each.
struct Statistics {
  Tensor mean, squares;  // squares: the sum of squared differences from the mean
  double count = 0;
};

// Every rank combines the statistics of all in the same order.
Statistics combined(const Tensor& x, Communicator& communicator) {
  const std::int64_t features = x.size(1);
  const auto own_count = static_cast<double>(x.numel()) / static_cast<double>(features);
  const Axes axes = other_axes(x);
  const Tensor own_mean = mean(x, axes);
  const Tensor own_squares = sum(square(x - own_mean.reshape(channel_shape(x))), axes);
  const Tensor all = communicator.all_gather(
      concatenate({full({1}, own_count, {DType::float64, x.device()}), own_mean, own_squares})
          .unsqueeze(0));
  const Tensor counts = all.slice(1, 0, 1), means = all.slice(1, 1, 1 + features);
  Statistics result;
  result.count = sum(counts).item<double>();
  result.mean = sum(counts * means, {0}) / result.count;
  result.squares =
      sum(all.slice(1, 1 + features) + counts * square(means - result.mean.unsqueeze(0)), {0});
  return result;
}

// (x − mean) · scale, with the gradient through the statistics of all ranks.
Tensor normalized(const Tensor& x, const Statistics& statistics, double eps,
                  Communicator& communicator) {
  const Shape shape = channel_shape(x);
  const Tensor scale = 1.0 / sqrt(statistics.squares / statistics.count + eps);
  const Tensor wide = detail::unrecorded([&] {
    return (x.to(DType::float64) - statistics.mean.reshape(shape)) * scale.reshape(shape);
  });
  const auto backward = [wide, scale, shape, &communicator, count = statistics.count,
                         dtype = x.dtype()](const Tensor& grad) {
    if (detail::recording_enabled()) {
      throw ValueError(
          "SyncBatchNorm: backward with create_graph: the sums over ranks are not "
          "recorded (allowed: gradients of first order)");
    }
    const Tensor g = grad.to(DType::float64);
    const Axes axes = other_axes(g);
    Tensor sums = concatenate({sum(g, axes), sum(g * wide, axes)});
    communicator.all_reduce(sums);
    const std::int64_t features = g.size(1);
    const Tensor of_g = (sums.slice(0, 0, features) / count).reshape(shape);
    const Tensor of_product = (sums.slice(0, features) / count).reshape(shape);
    return detail::Gradients(((g - of_g - wide * of_product) * scale.reshape(shape)).to(dtype));
  };
  Tensor result = detail::unrecorded([&] { return wide.to(x.dtype()); });
  if (result.impl_or_null() == wide.impl_or_null()) result = wide.clone();
  return detail::record("sync_batch_norm", {x}, result, backward);
}

}  // namespace

SyncBatchNorm::SyncBatchNorm(std::int64_t features, const nn::BatchNormOptions& options,
                             Communicator& communicator)
    : features_(features), options_(options), communicator_(&communicator) {
  nn::detail::check_positive("SyncBatchNorm", "features", features);
  if (!(options.momentum >= 0 && options.momentum <= 1)) {
    throw ValueError(
        message("SyncBatchNorm: momentum is ", options.momentum, ", must be in [0, 1]"));
  }
  if (options.affine) {
    weight = nn::Parameter(ones({features}, options.dtype));
    bias = nn::Parameter(zeros({features}, options.dtype));
  }
  if (options.track_running_stats) {
    running_mean = nn::Buffer(zeros({features}, options.dtype));
    running_var = nn::Buffer(ones({features}, options.dtype));
    num_batches_tracked = nn::Buffer(zeros({}, int64));
  }
}

Tensor SyncBatchNorm::forward(const Tensor& x) const {
  if (x.ndim() < 2 || x.size(1) != features_) {
    throw ShapeError(message("SyncBatchNorm: x is ", x.shape(),
                             ", must have 2 or more dimensions, the second of them ", features_));
  }
  if (!is_floating_point(x.dtype())) {
    throw DTypeError(message("SyncBatchNorm: x is ", x.dtype(), ", must be a float dtype"));
  }
  if (!training && running_mean.defined()) {
    return batch_norm(x, running_mean.tensor(), running_var.tensor(), weight, bias, false,
                      options_.momentum, options_.eps);
  }
  if (x.numel() == 0) {
    throw ValueError(message("SyncBatchNorm: x is ", x.shape(), " on rank ", communicator_->rank(),
                             " (allowed: at least one example on every rank; "
                             "DataLoaderOptions::drop_last omits smaller batches)"));
  }
  Statistics statistics;
  {
    const NoGrad off;
    statistics = combined(x.to(DType::float64), *communicator_);
    if (statistics.count == 1) {
      throw ValueError(message("SyncBatchNorm: x is ", x.shape(),
                               ", has one value per channel on all ranks, which has no variance"));
    }
    if (training && running_mean.defined()) {
      const auto update = [&](const nn::Buffer& buffer, const Tensor& value) {
        Tensor target = buffer.tensor();
        target.copy_from(target * (1 - options_.momentum) + value * options_.momentum);
      };
      update(running_mean, statistics.mean);
      update(running_var, statistics.squares / (statistics.count - 1));
      Tensor count = num_batches_tracked.tensor();
      count += 1;
    }
  }
  Tensor y = normalized(x, statistics, options_.eps, *communicator_);
  if (!weight.defined()) return y;
  const Shape shape = channel_shape(x);
  return (y * weight.reshape(shape) + bias.reshape(shape)).to(x.dtype());
}

std::string SyncBatchNorm::describe() const { return message(features_); }

void SyncBatchNorm::visit(nn::Walker& walk) {
  walk("weight", weight)("bias", bias)("running_mean", running_mean)("running_var", running_var)(
      "num_batches_tracked", num_batches_tracked)("training", training);
}

}  // namespace extensor::distributed
