// Layers: linear, convolution, pooling, normalization, dropout, embedding. Parameters have
// PyTorch's names, shapes and initial distributions; options have its names and defaults.
//
// A layer requires inputs of its parameters' float dtype and throws DTypeError otherwise, since
// promotion would turn the rest of the network into the wider dtype. Convert the input with
// x.to(float32), or the layer with layer.to(float64). Under Autocast, float32 and the half dtypes
// may be mixed.
#pragma once

#include <optional>

#include "extensor/activation.h"
#include "extensor/convolution.h"
#include "extensor/export.h"
#include "extensor/nn/module.h"
#include "extensor/normalization.h"
#include "extensor/pooling.h"

EXTENSOR_BEGIN_API

namespace extensor::nn {

struct LinearOptions {
  bool bias = true;
  DType dtype = default_float;
};
// Computes x·weightᵀ + bias over the last axis.
class Linear final : public Module<Linear> {
 public:
  Linear(std::int64_t in_features, std::int64_t out_features, const LinearOptions& options = {});
  // The activation is fused with the product.
  Tensor forward(const Tensor& x, Activation activation = Activation::none) const;
  std::string describe() const;
  void visit(Walker& walk) { walk("weight", weight)("bias", bias); }

  Parameter weight;  // [out, in]
  Parameter bias;    // [out]
};

// ---- convolution

using ConvOptions1d = Conv1dOptions;
using ConvOptions2d = Conv2dOptions;
using ConvTransposeOptions2d = ConvTranspose2dOptions;

class Conv1d final : public Module<Conv1d> {
 public:
  Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel,
         const Conv1dOptions& options = {});
  Tensor forward(const Tensor& x) const;
  std::string describe() const;
  void visit(Walker& walk) { walk("weight", weight)("bias", bias); }

  Parameter weight;  // [out, in / groups, kernel]
  Parameter bias;

 private:
  Conv1dOptions options_;
};

class Conv2d final : public Module<Conv2d> {
 public:
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, const Size2d& kernel,
         const Conv2dOptions& options = {});
  Tensor forward(const Tensor& x) const;
  std::string describe() const;
  void visit(Walker& walk) { walk("weight", weight)("bias", bias); }

  Parameter weight;  // [out, in / groups, height, width]
  Parameter bias;

 private:
  Conv2dOptions options_;
};

class ConvTranspose2d final : public Module<ConvTranspose2d> {
 public:
  ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, const Size2d& kernel,
                  const ConvTranspose2dOptions& options = {});
  Tensor forward(const Tensor& x) const;
  std::string describe() const;
  void visit(Walker& walk) { walk("weight", weight)("bias", bias); }

  Parameter weight;  // [in, out / groups, height, width]
  Parameter bias;

 private:
  ConvTranspose2dOptions options_;
};

// ---- pooling

class MaxPool2d final : public Module<MaxPool2d> {
 public:
  explicit MaxPool2d(const Size2d& kernel, const MaxPool2dOptions& options = {});
  Tensor forward(const Tensor& x) const { return max_pool2d(x, kernel_, options_); }
  std::string describe() const;
  void visit(Walker&) {}

 private:
  Size2d kernel_;
  MaxPool2dOptions options_;
};

class AvgPool2d final : public Module<AvgPool2d> {
 public:
  explicit AvgPool2d(const Size2d& kernel, const AvgPool2dOptions& options = {});
  Tensor forward(const Tensor& x) const { return avg_pool2d(x, kernel_, options_); }
  std::string describe() const;
  void visit(Walker&) {}

 private:
  Size2d kernel_;
  AvgPool2dOptions options_;
};

class AdaptiveAvgPool2d final : public Module<AdaptiveAvgPool2d> {
 public:
  explicit AdaptiveAvgPool2d(const Size2d& output);
  Tensor forward(const Tensor& x) const { return adaptive_avg_pool2d(x, output_); }
  std::string describe() const;
  void visit(Walker&) {}

 private:
  Size2d output_;
};

// Merges all axes from `first` to `last` into one.
class Flatten final : public Module<Flatten> {
 public:
  explicit Flatten(StrictInt first = 1, StrictInt last = -1) : first_(first), last_(last) {}
  Tensor forward(const Tensor& x) const;
  void visit(Walker&) {}

 private:
  std::int64_t first_, last_;
};

// ---- normalization

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;
  bool affine = true;
  bool track_running_stats = true;
  DType dtype = default_float;
};
// Common base of the batch norms. x must have a rank from `least_rank` to `most_rank`.
class BatchNorm {
 public:
  Parameter weight, bias;            // [features]
  Buffer running_mean, running_var;  // [features]
  Buffer num_batches_tracked;        // one int64
  Training training;

 protected:
  BatchNorm(const char* name, std::int64_t features, const BatchNormOptions& options);
  Tensor normalize(const char* name, const Tensor& x, std::int64_t least_rank,
                   std::int64_t most_rank) const;
  Tensor normalize_add_relu(const char* name, const Tensor& x, const Tensor& residual,
                            std::int64_t least_rank, std::int64_t most_rank) const;
  void visit_members(Walker& walk);
  std::string describe_members() const;

 private:
  std::int64_t features_;
  // Checks x and counts the batch. Returns whether to use the statistics of the batch.
  bool begin(const char* name, const Tensor& x, std::int64_t least_rank,
             std::int64_t most_rank) const;

  BatchNormOptions options_;
};
// x: [n, features] or [n, features, length]
class BatchNorm1d final : public Module<BatchNorm1d>, public BatchNorm {
 public:
  explicit BatchNorm1d(std::int64_t features, const BatchNormOptions& options = {})
      : BatchNorm("BatchNorm1d", features, options) {}
  Tensor forward(const Tensor& x) const { return normalize("BatchNorm1d", x, 2, 3); }
  std::string describe() const { return describe_members(); }
  void visit(Walker& walk) { visit_members(walk); }
};
// x: [n, features, height, width]
class BatchNorm2d final : public Module<BatchNorm2d>, public BatchNorm {
 public:
  explicit BatchNorm2d(std::int64_t features, const BatchNormOptions& options = {})
      : BatchNorm("BatchNorm2d", features, options) {}
  Tensor forward(const Tensor& x) const { return normalize("BatchNorm2d", x, 4, 4); }
  // Computes relu(forward(x) + residual) as one op; without a residual, relu(forward(x)).
  Tensor forward_add_relu(const Tensor& x, const Tensor& residual = {}) const {
    return normalize_add_relu("BatchNorm2d", x, residual, 4, 4);
  }
  std::string describe() const { return describe_members(); }
  void visit(Walker& walk) { visit_members(walk); }
};

struct LayerNormOptions {
  double eps = 1e-5;
  bool affine = true;
  bool bias = true;
  DType dtype = default_float;
};
// Normalizes over the last axes, which have `normalized_shape`.
class LayerNorm final : public Module<LayerNorm> {
 public:
  explicit LayerNorm(const Shape& normalized_shape, const LayerNormOptions& options = {});
  explicit LayerNorm(std::int64_t width, const LayerNormOptions& options = {})
      : LayerNorm(Shape{width}, options) {}
  Tensor forward(const Tensor& x) const;
  // Returns x + residual and its norm, computed as one op.
  AddNormResult forward_add(const Tensor& x, const Tensor& residual) const;
  std::string describe() const;
  void visit(Walker& walk) { walk("weight", weight)("bias", bias); }

  Parameter weight, bias;

 private:
  Shape shape_;
  double eps_;
};

struct RMSNormOptions {
  std::optional<double> eps = {};  // default: epsilon of the dtype
  bool affine = true;
  DType dtype = default_float;
};
class RMSNorm final : public Module<RMSNorm> {
 public:
  explicit RMSNorm(const Shape& normalized_shape, const RMSNormOptions& options = {});
  explicit RMSNorm(std::int64_t width, const RMSNormOptions& options = {})
      : RMSNorm(Shape{width}, options) {}
  Tensor forward(const Tensor& x) const;
  // Returns x + residual and its norm, computed as one op.
  AddNormResult forward_add(const Tensor& x, const Tensor& residual) const;
  std::string describe() const;
  void visit(Walker& walk) { walk("weight", weight); }

  Parameter weight;

 private:
  Shape shape_;
  std::optional<double> eps_;
};

struct GroupNormOptions {
  double eps = 1e-5;
  bool affine = true;
  DType dtype = default_float;
};
class GroupNorm final : public Module<GroupNorm> {
 public:
  GroupNorm(std::int64_t groups, std::int64_t channels, const GroupNormOptions& options = {});
  Tensor forward(const Tensor& x) const;
  std::string describe() const;
  void visit(Walker& walk) { walk("weight", weight)("bias", bias); }

  Parameter weight, bias;

 private:
  std::int64_t groups_, channels_;
  double eps_;
};

struct InstanceNormOptions {
  double eps = 1e-5;
  bool affine = false;
  DType dtype = default_float;
};
// Normalizes each channel of each sample separately; any number of axes may follow the channels.
class InstanceNorm final : public Module<InstanceNorm> {
 public:
  explicit InstanceNorm(std::int64_t features, const InstanceNormOptions& options = {});
  Tensor forward(const Tensor& x) const;
  std::string describe() const;
  void visit(Walker& walk) { walk("weight", weight)("bias", bias); }

  Parameter weight, bias;

 private:
  std::int64_t features_;
  double eps_;
};

// ---- others

// During training, zeroes elements with probability p and scales the others by 1 / (1 − p).
class Dropout final : public Module<Dropout> {
 public:
  explicit Dropout(StrictDouble p = 0.5);
  Tensor forward(const Tensor& x) const;
  std::string describe() const;
  void visit(Walker& walk) { walk("training", training); }

  Training training;

 private:
  double p_;
};

// The same for whole channels of x [n, channels, …].
class Dropout2d final : public Module<Dropout2d> {
 public:
  explicit Dropout2d(StrictDouble p = 0.5);
  Tensor forward(const Tensor& x) const;
  std::string describe() const;
  void visit(Walker& walk) { walk("training", training); }

  Training training;

 private:
  double p_;
};

struct EmbeddingOptions {
  std::optional<std::int64_t> padding_idx = {};  // index of the row that is and stays zero
  DType dtype = default_float;
};
class Embedding final : public Module<Embedding> {
 public:
  Embedding(std::int64_t rows, std::int64_t width, const EmbeddingOptions& options = {});
  Tensor forward(const Tensor& ids) const;
  std::string describe() const;
  void visit(Walker& walk) { walk("weight", weight); }

  Parameter weight;  // [rows, width]

 private:
  std::optional<std::int64_t> padding_idx_;
};

}  // namespace extensor::nn

EXTENSOR_END_API
