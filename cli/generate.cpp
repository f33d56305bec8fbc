// extensor generate: text that a trained network writes.
#include <iostream>

#include "cli/commands.h"
#include "cli/generate.h"
#include "cli/ingredients.h"

namespace extensor::cli {

namespace {

// The tokens that come next, less likely ones out of the game.
Tensor next_logits(const nn::AnyLayer& model, const data::Tokens& tokens, std::int64_t block,
                   const GenerateOptions& options) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  const std::int64_t first = std::max<std::int64_t>(0, count - block);
  const data::Tokens window(tokens.begin() + first, tokens.end());
  Tensor logits = model(from_data(window).unsqueeze(0))[{0, -1}];
  if (options.top_k > 0 && options.top_k < logits.numel()) {
    const Tensor least = min_reduce(topk(logits, options.top_k).values);
    logits = where(less(logits, least), full({}, -1e30, logits.dtype()), logits);
  }
  return logits;
}

std::int64_t choose(const Tensor& logits, const GenerateOptions& options, data::Draws& draws) {
  if (options.temperature == 0) return argmax(logits).item<std::int64_t>();
  const auto parts = softmax(logits.to(float64) / options.temperature, 0).to_vector<double>();
  double left = draws.uniform();
  for (std::size_t k = 0; k < parts.size(); ++k) {
    left -= parts[k];
    if (left < 0) return static_cast<std::int64_t>(k);
  }
  return static_cast<std::int64_t>(parts.size()) - 1;
}

}  // namespace

std::string generate(const nn::AnyLayer& model, const data::Tokenizer& tokenizer,
                     std::int64_t block, const GenerateOptions& options) {
  const NoGrad off;
  data::Tokens tokens = tokenizer.encode(options.prompt);
  const bool has_prompt = !tokens.empty();
  if (!has_prompt) tokens.push_back(0);
  data::Draws draws(options.seed, 0, 0);
  for (std::int64_t k = 0; k < options.tokens; ++k) {
    tokens.push_back(choose(next_logits(model, tokens, block, options), options, draws));
  }
  if (!has_prompt) tokens.erase(tokens.begin());
  return tokenizer.decode(tokens);
}

void add_generate_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("generate", "Let a network that learned a text write");
  static std::string run;
  static GenerateOptions options;
  command->add_option("run", run, "The run's directory")->required();
  command->add_option("--prompt", options.prompt, "How it begins");
  command->add_option("--tokens", options.tokens, "How many tokens are written")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 30));
  command
      ->add_option("--temperature", options.temperature, "0: always the likeliest; 1: as learned")
      ->check(CLI::Range(0.0, 100.0));
  command->add_option("--top-k", options.top_k, "Only the k likeliest; 0: all")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 30));
  command->add_option("--seed", options.seed, "Another seed, another text")
      ->check([](const std::string& text) {
        return text.starts_with('-') ? "--seed is " + text + " (allowed: 0 or more)" : "";
      });
  command->footer(
      "Example:\n  extensor generate runs/text-transformer --prompt ROMEO: --tokens 300");
  command->callback([] {
    const Trained trained = load_trained(run);
    if (!trained.language.tokenizer) {
      throw ValueError("'" + run + "' learned " + trained.recipe.dataset +
                       ", not a text; 'extensor predict' shows what it sees");
    }
    std::cout << generate(trained.model, *trained.language.tokenizer, trained.recipe.block, options)
              << '\n';
  });
}

}  // namespace extensor::cli
