// Limited-memory BFGS: a quasi-Newton method for smooth losses of all data at once.
//
//   optim::LBFGS optimizer(model.parameters(), {.line_search = optim::LineSearch::strong_wolfe});
//   for (int k = 0; k < 20; ++k) {
//     optimizer.step([&] {
//       optimizer.zero_grad();
//       Tensor loss = loss_of(model);
//       loss.backward();
//       return loss;
//     });
//   }
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "extensor/export.h"
#include "extensor/optim/state_dict.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor::optim {

enum class LineSearch : std::uint8_t { none, strong_wolfe };

// Names, defaults and numbers are PyTorch's.
struct LBFGSOptions {
  double lr = 1;
  std::int64_t max_iter = 20;  // iterations per step
  std::optional<std::int64_t> max_eval =
      {};                          // calls of the closure per step; default max_iter · 5/4
  double tolerance_grad = 1e-7;    // stop if no gradient is larger
  double tolerance_change = 1e-9;  // stop if neither the loss nor a parameter changes more
  std::int64_t history_size = 100;
  LineSearch line_search = LineSearch::none;
};

// All parameters form one vector; they must have one float dtype and one device. A step calls the
// closure several times, which computes the loss and its gradients. Unlike the other optimizers, it
// has one group of parameters, and schedules do not apply to it.
class LBFGS {
 public:
  // ValueError for an option out of range, no parameters, or a parameter that is repeated or not a
  // leaf; DTypeError unless all have one float dtype; DeviceError unless all are on one device.
  explicit LBFGS(std::vector<Tensor> parameters, const LBFGSOptions& options = {});

  // Returns the loss of the first call, before the step. ValueError for an empty closure or a loss
  // that is not one number.
  Tensor step(const std::function<Tensor()>& closure);
  void zero_grad();

  const std::vector<Tensor>& parameters() const { return parameters_; }
  const LBFGSOptions& options() const { return options_; }

  // The state of the iteration without the options, with PyTorch's names.
  StateDict state_dict() const;
  // ValueError for a missing or unknown name, ShapeError for the state of another model.
  void load_state_dict(const StateDict& saved);

 private:
  struct Point;
  class Search;

  Tensor gradient() const;  // of all parameters, flat
  Tensor values() const;    // of all parameters, flat
  void move(const Tensor& from, double step, const Tensor& direction);
  double evaluate(const std::function<Tensor()>& closure, Tensor* first) const;
  Tensor direction_of(const Tensor& gradient) const;

  std::vector<Tensor> parameters_;
  LBFGSOptions options_;

  struct Pair {
    Tensor change, gradient_change;
    double curvature;  // 1 / their product
  };
  std::deque<Pair> history_;
  Tensor direction_, previous_gradient_;
  double step_length_ = 0, scale_ = 1, previous_loss_ = 0;
  std::int64_t iterations_ = 0, evaluations_ = 0;
};

}  // namespace extensor::optim

EXTENSOR_END_API
