// The model, optimizer and schedule of a recipe, and the models of existing runs.
#include <algorithm>
#include <tuple>

#include "cli/device_option.h"
#include "cli/run_parts.h"

namespace extensor::cli {

nn::AnyLayer make_model(const Recipe& recipe, const Language& language) {
  const std::int64_t outputs = language.outputs();
  if (recipe.model == "transformer") {
    return models::Gpt({.vocabulary = outputs,
                        .block = recipe.block,
                        .layers = recipe.layers,
                        .heads = recipe.heads,
                        .width = recipe.width,
                        .dropout = recipe.dropout});
  }
  if (language.table) {
    std::vector<std::int64_t> widths(static_cast<std::size_t>(recipe.layers + 1), recipe.width);
    widths.front() = language.table->inputs();
    widths.push_back(outputs);
    return models::Mlp(widths);
  }
  const Pictures& pictures = *language.pictures;
  const auto [channels, height, width] =
      std::tuple(pictures.channels, pictures.height, pictures.width);
  if (recipe.model == "mlp") {
    return models::Mlp({channels * height * width, recipe.width, recipe.width / 2 + 1, outputs});
  }
  if (recipe.model == "lenet") return models::LeNet({outputs, channels, height, width});
  const bool small = std::max(height, width) <= usual_side;
  if (recipe.model == "vgg16") return models::Vgg16({outputs, channels, small});
  return models::ResNet18({outputs, channels, small});
}

namespace {

template <class Options>
std::unique_ptr<optim::Optimizer> make_optimizer_of(const Recipe& r,
                                                    const std::vector<Tensor>& parameters) {
  Options options;
  options.lr = r.lr;
  options.weight_decay = r.weight_decay;
  if constexpr (requires { options.momentum; }) options.momentum = r.momentum;
  if constexpr (requires { options.betas; }) options.betas = {r.momentum, r.beta2};
  return std::make_unique<optim::OptimizerOf<Options>>(parameters, options);
}

}  // namespace

std::unique_ptr<optim::Optimizer> make_optimizer(const Recipe& recipe,
                                                 const std::vector<Tensor>& parameters) {
#define OPTIMIZER(name, Class, Options, ...) \
  if (recipe.optimizer == #name) return make_optimizer_of<Options>(recipe, parameters);
#include <extensor/tables/optimizers.def>
  throw ValueError("--optimizer is '" + recipe.optimizer + "'");  // checked by make_recipe
}

Schedule make_schedule(const Recipe& r, optim::Optimizer& optimizer, std::int64_t steps) {
  Schedule schedule;
  const auto add = [&](auto part) {
    schedule.whole = part.get();
    schedule.parts.push_back(std::move(part));
  };
  if (r.schedule == "one-cycle") {
    add(std::make_unique<optim::OneCycleLR>(
        optimizer, optim::OneCycleLROptions{
                       .max_lr = r.lr, .total_steps = steps + 1, .cycle_momentum = false}));
    return schedule;
  }
  const std::int64_t warmup = std::min(r.warmup, std::max<std::int64_t>(0, steps - 1));
  if (warmup > 0) {
    add(std::make_unique<optim::LinearLR>(
        optimizer, optim::LinearLROptions{.start_factor = 1.0 / static_cast<double>(warmup),
                                          .total_iters = warmup}));
  }
  if (r.schedule == "cosine") {
    add(std::make_unique<optim::CosineAnnealingLR>(
        optimizer, optim::CosineAnnealingLROptions{
                       .t_max = std::max<std::int64_t>(1, steps - warmup), .eta_min = r.lr / 10}));
  }
  if (schedule.parts.size() == 2) {
    add(std::make_unique<optim::SequentialLR>(
        optimizer,
        std::vector<std::reference_wrapper<optim::LRScheduler>>{*schedule.parts[0],
                                                                *schedule.parts[1]},
        std::vector<std::int64_t>{warmup}));
  }
  return schedule;
}

Trained load_trained(const std::filesystem::path& path, const std::optional<std::string>& device) {
  RunDirectory directory{path};
  check_run(directory);
  const Recipe recipe = make_recipe(read_fields(directory.config()), {});
  const Device place = device_for_run(device, recipe.device);
  Language language = load_language(recipe, directory);
  const std::filesystem::path weights = trained_weights(directory);
  nn::AnyLayer model = make_model(recipe, language);
  const train::ModelReference reference(model);
  reference.load_state_dict(load_safetensors(weights).tensors);
  reference.train(false);
  reference.to(place);
  return {recipe, std::move(directory), std::move(model), std::move(language), weights, place};
}

}  // namespace extensor::cli
