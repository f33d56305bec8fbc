// The CTC loss, composed of other ops. The forward variables alpha[t, n, s] are the log-probability
// of all alignments of the first t + 1 predictions with the first s + 1 of the labels, between
// which blanks are inserted; the backward variables beta are the same from the end. All samples of
// a batch advance together; they lie along the last axis, so that neighbouring states are rows of
// one block of memory.
#include "extensor/ctc_loss.h"

#include <algorithm>
#include <limits>

#include "core/check.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/indexing.h"
#include "extensor/manipulation.h"
#include "extensor/reduction.h"
#include "ops/checked_indices.h"
#include "ops/chunks.h"
#include "ops/launch.h"
#include "ops/loss_support.h"
#include "ops/registry.h"

namespace extensor {

namespace {

using detail::message;
using namespace ops;

// The logarithm of 0: finite, so that differences and gradients stay finite.
constexpr double nothing_log = -1e30;
// Losses above this are those of targets without an alignment.
constexpr double without_alignment = 1e29;

void check_lengths(const char* operation, const char* argument, const Dims& lengths,
                   std::int64_t batch, std::int64_t most) {
  if (static_cast<std::int64_t>(lengths.size()) != batch) {
    throw ShapeError(message(operation, ": ", argument, " has ", lengths.size(),
                             " entries, must have one for each of ", batch, " samples"));
  }
  for (std::int64_t length : lengths) {
    if (length >= 0 && length <= most) continue;
    throw ValueError(
        message(operation, ": ", argument, " contains ", length, ", must be 0 to ", most));
  }
}

struct Alignment {
  std::int64_t steps, batch, classes, states;  // states: labels and the blanks around them
  DType wide;
  Tensor log_probs;    // in the wide dtype
  Tensor places;       // [states · N]: of each state's class in a step's [N · classes]
  Tensor emitted;      // [T, states, N]: the log-probability of each state's class
  Tensor skips;        // [states, N]: 0 where a blank may be skipped, else log 0
  Tensor skips_ahead;  // the same for the state two ahead
  Tensor last;         // [2, N]: the states in which an alignment may end
  Tensor last_exists;  // [2, N]: 0 for those that exist, else log 0
  Tensor final_step;   // [N]: the last prediction
  Dims final_steps;    // the same numbers
  Tensor is_empty;     // [N]: no prediction at all
  Tensor lengths;      // [N]: of the targets, at least 1

  Alignment(const char* operation, const Tensor& given, const Tensor& targets,
            const Dims& input_lengths, const Dims& target_lengths, std::int64_t blank) {
    check_float(operation, "log_probs", given);
    if (given.ndim() != 3) {
      throw ShapeError(message(operation, ": log_probs is ", given.shape(),
                               ", must be [steps, batch, classes]"));
    }
    steps = given.size(0);
    batch = given.size(1);
    classes = given.size(2);
    if (targets.ndim() != 2 || targets.size(0) != batch) {
      throw ShapeError(message(operation, ": targets are ", targets.shape(), ", must be [", batch,
                               ", length] for log_probs ", given.shape()));
    }
    if (is_floating_point(targets.dtype()) || targets.dtype() == DType::bool_) {
      throw DTypeError(message(operation, ": targets are ", targets.dtype(),
                               ", must be class indices of an integer dtype"));
    }
    if (steps == 0) {
      throw ShapeError(message(operation, ": log_probs is ", given.shape(), ", has no steps"));
    }
    if (blank < 0 || blank >= classes) {
      throw ValueError(message(operation, ": blank is ", blank, ", must be 0 to ", classes - 1));
    }
    check_lengths(operation, "input_lengths", input_lengths, batch, steps);
    check_lengths(operation, "target_lengths", target_lengths, batch, targets.size(1));
    const Device device = given.device();
    const std::int64_t width = targets.size(1);
    states = 2 * width + 1;
    wide = compute_dtype(given.dtype());
    log_probs = given.to(wide);

    const TensorOptions integers{DType::int64, device};
    const auto row = [&](const std::vector<std::int64_t>& values) {
      return from_data(values, {1, batch}).to(device);
    };
    const auto as_log = [&](const Tensor& exists) {
      return where(exists, zeros({}, {wide, cpu_device}),
                   full({}, nothing_log, {wide, cpu_device}));
    };
    std::vector<std::int64_t> inputs(input_lengths.begin(), input_lengths.end()),
        labels(target_lengths.begin(), target_lengths.end());
    const Tensor label_count = row(labels), positions = arange(width, integers).unsqueeze(1);
    // Labels beyond the length are padding and may have any value.
    const Tensor blanks = full({1, 1}, blank, integers);
    const Tensor checked = checked_indices(
        operation,
        where(less(positions, label_count), targets.to(DType::int64).transpose({1, 0}), blanks)
            .transpose({1, 0}),
        {.size = classes, .counted = "classes", .argument = "targets"});
    const Tensor spread = stack({checked.transpose({1, 0}), blanks.broadcast_to({width, batch})}, 1)
                              .reshape({2 * width, batch});
    const Tensor state_classes =
        concatenate({blanks.broadcast_to({1, batch}), spread}, 0);  // blank, label, blank …
    places = (state_classes + arange(batch, integers) * classes).flatten();
    emitted = take(log_probs.reshape({steps, batch * classes}), places, 1)
                  .reshape({steps, states, batch});

    // State s may follow s − 2 if both are labels and differ.
    Tensor may_skip = zeros({states, batch}, {DType::bool_, device});
    if (states > 2) {
      const Tensor now = state_classes.slice(0, 2), before = state_classes.slice(0, 0, states - 2);
      may_skip = concatenate({zeros({2, batch}, {DType::bool_, device}),
                              logical_and(not_equal(now, blanks), not_equal(now, before))},
                             0);
    }
    skips = as_log(may_skip);
    const std::int64_t ahead = std::min<std::int64_t>(2, states);
    skips_ahead = concatenate({skips.slice(0, ahead), nothing_rows(ahead)}, 0);

    // An alignment ends in the last label or in the blank after it.
    const Tensor end = label_count * 2;
    last = concatenate({end, maximum(end - 1, 0)}, 0);
    last_exists = as_log(concatenate({greater_equal(end, 0), greater(end, 0)}, 0));
    const Tensor input_count = row(inputs);
    final_step = maximum(input_count - 1, 0).reshape({batch});
    for (std::int64_t length : input_lengths) {
      final_steps.push_back(std::max<std::int64_t>(0, length - 1));
    }
    is_empty = equal(input_count, 0).reshape({batch});
    lengths = maximum(label_count, 1).reshape({batch}).to(wide);
  }

  Tensor nothing_rows(std::int64_t count) const {
    return full({count, batch}, nothing_log, {wide, log_probs.device()});
  }
  Tensor emitted_at(std::int64_t t) const { return emitted.slice(0, t, t + 1).squeeze(0); }

  // [T, states, N]
  Tensor alphas() const {
    // The first prediction is the first blank or the first label.
    const std::int64_t first = std::min<std::int64_t>(2, states);
    std::vector<Tensor> all{
        concatenate({emitted_at(0).slice(0, 0, first), nothing_rows(states - first)}, 0)};
    const Tensor before = nothing_rows(2);
    for (std::int64_t t = 1; t < steps; ++t) {
      const Tensor padded = concatenate({before, all.back()}, 0);
      const Tensor stay_or_step = logaddexp(all.back(), padded.slice(0, 1, states + 1));
      all.push_back(logaddexp(stay_or_step, padded.slice(0, 0, states) + skips) + emitted_at(t));
    }
    return stack(all);
  }

  // [T, states, N]; the log-probability from step t on, that of step t included.
  Tensor betas() const {
    const Tensor beyond = nothing_rows(2);
    const Tensor state = arange(states, {DType::int64, log_probs.device()}).unsqueeze(1);
    // 0 in the states where an alignment may end, else log 0.
    const auto ends_at = [&](std::int64_t k) {
      const Tensor place = last.slice(0, k, k + 1), exists = last_exists.slice(0, k, k + 1);
      return where(equal(state, place), exists, nothing_rows(1));
    };
    const Tensor ends = maximum(ends_at(0), ends_at(1));
    std::vector<Tensor> all(static_cast<std::size_t>(steps));
    const Tensor step_of_end = final_step.unsqueeze(0);
    Tensor next = nothing_rows(states);
    for (std::int64_t t = steps - 1; t >= 0; --t) {
      const Tensor padded = concatenate({next, beyond}, 0);
      const Tensor stay_or_step = logaddexp(next, padded.slice(0, 1, states + 1));
      next = logaddexp(stay_or_step, padded.slice(0, 2, states + 2) + skips_ahead);
      if (std::find(final_steps.begin(), final_steps.end(), t) != final_steps.end()) {
        next = where(equal(step_of_end, t), ends, next);
      }
      next = next + emitted_at(t);
      all[static_cast<std::size_t>(t)] = next;
    }
    return stack(all);
  }

  // The losses [N].
  Tensor losses(const Tensor& alpha) const {
    const Tensor at_end = take_along_axis(
        alpha, final_step.reshape({1, 1, batch}).broadcast_to({1, states, batch}), 0);
    const Tensor ways = take_along_axis(at_end.squeeze(0), last, 0) + last_exists;
    const Tensor likelihood = logaddexp(ways.slice(0, 0, 1), ways.slice(0, 1, 2)).reshape({batch});
    // Without predictions only an empty target has an alignment.
    const Tensor without =
        where(greater(last.slice(0, 0, 1).reshape({batch}), 0),
              full({}, nothing_log, {wide, cpu_device}), zeros({}, {wide, cpu_device}));
    return negative(where(is_empty, without, likelihood));
  }
};

struct CtcAttributes {
  Dims input_lengths, target_lengths;
  CtcOptions options;
};

Tensor ctc_forward(const Run& run, const CtcAttributes& attributes, const Tensor& log_probs,
                   const Tensor& targets) {
  const CtcOptions& options = attributes.options;
  const Alignment alignment(run.name(), log_probs, targets, attributes.input_lengths,
                            attributes.target_lengths, options.blank);
  detail::check_option(run.name(), "reduction", options.reduction, Reduction::none);
  Tensor losses = alignment.losses(alignment.alphas());
  const Tensor impossible = greater(losses, without_alignment);
  const double instead = options.zero_infinity ? 0 : std::numeric_limits<double>::infinity();
  losses = where(impossible, full({}, instead, {losses.dtype(), cpu_device}), losses);
  if (options.reduction == Reduction::mean) losses = losses / alignment.lengths;
  return reduced_loss(losses, options.reduction).to(log_probs.dtype());
}

Gradients ctc_gradient(const GradientCall& call, const CtcAttributes& attributes) {
  return {ctc_loss_backward(call.grad(), call.input(0), call.input(1), attributes.input_lengths,
                            attributes.target_lengths, attributes.options),
          Tensor()};
}

constexpr auto ctc_loss_op =
    define<ctc_forward, ctc_gradient>({.name = "ctc_loss",
                                       .inputs = {"log_probs", "targets"},
                                       .reads = {input(0) | input(1), no_gradient},
                                       .cast = Cast::up});

}  // namespace

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Dims& input_lengths,
                const Dims& target_lengths, const CtcOptions& options) {
  return dispatch(ctc_loss_op, {input_lengths, target_lengths, options}, log_probs, targets);
}

Tensor ctc_loss_backward(const Tensor& grad_output, const Tensor& log_probs, const Tensor& targets,
                         const Dims& input_lengths, const Dims& target_lengths,
                         const CtcOptions& options) {
  const char* operation = "ctc_loss_backward";
  const Alignment alignment(operation, log_probs, targets, input_lengths, target_lengths,
                            options.blank);
  const Tensor g = loss_gradient_input(operation, grad_output, {alignment.batch}, options.reduction,
                                       log_probs.dtype());
  if (alignment.batch == 0) return zeros_like(log_probs);
  const Tensor alpha = alignment.alphas(), beta = alignment.betas();
  const Tensor zero = zeros({}, {alignment.wide, cpu_device});
  Tensor losses = alignment.losses(alpha);
  const Tensor counts =
      logical_and(less(losses, without_alignment), logical_not(alignment.is_empty));
  losses = where(counts, losses, zero);
  Tensor scale = negative(g).broadcast_to({alignment.batch});
  if (options.reduction == Reduction::mean) {
    scale = scale / (alignment.lengths * static_cast<double>(alignment.batch));
  }
  scale = where(counts, scale, zero);
  // The probability, given the target, that an alignment passes through each state.
  const Tensor inputs[] = {alpha, beta, alignment.emitted, losses, scale};
  const DType outputs[] = {alignment.wide};
  const std::vector<Tensor> of_states = evaluate_in_chunks(
      {operation, alpha.shape(), inputs, outputs, alignment.wide},
      [](std::span<const expression::Value> in, std::span<expression::Value> out) {
        out[0] = exp(in[0] + in[1] - in[2] + in[3]) * in[4];
      });
  return take_backward(of_states[0].reshape({alignment.steps, alignment.states * alignment.batch}),
                       {alignment.steps, alignment.batch * alignment.classes}, alignment.places, 1)
      .reshape(log_probs.shape())
      .to(log_probs.dtype());
}

constinit const OpList ops::ctc_loss_ops = listed<ctc_loss_op>;

}  // namespace extensor
