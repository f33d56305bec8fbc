// extensor generate: generates text with a trained network.
#include <iostream>
#include <limits>

#include "cli/commands.h"
#include "cli/device_option.h"
#include "cli/generate.h"
#include "cli/output.h"
#include "cli/program.h"
#include "cli/run_parts.h"
#include "cli/validators.h"
#include "io/text.h"

namespace extensor::cli {

namespace {

// Assembles tokens to whole characters: a token may be part of a character.
class Pieces {
 public:
  explicit Pieces(const std::function<void(const std::string&)>& written) : written_(written) {}

  void add(const std::string& bytes) {
    text_ += bytes;
    waiting_ += bytes;
    constexpr std::size_t longest_character = 4;
    std::size_t whole = io::utf8_prefix(waiting_);
    if (waiting_.size() - whole >= longest_character) whole = waiting_.size();  // not UTF-8
    put(whole);
  }
  std::string finish() {
    put(waiting_.size());
    return std::move(text_);
  }

 private:
  void put(std::size_t count) {
    if (written_ && count > 0) written_(waiting_.substr(0, count));
    waiting_.erase(0, count);
  }

  const std::function<void(const std::string&)>& written_;
  std::string text_, waiting_;
};

}  // namespace

std::string generate(const nn::AnyLayer& model, const data::Tokenizer& tokenizer,
                     const GenerateOptions& options,
                     const std::function<void(const std::string&)>& written) {
  data::Tokens prompt = tokenizer.encode(options.prompt);
  Pieces pieces(written);
  pieces.add(tokenizer.decode(prompt));
  if (prompt.empty())
    prompt.push_back(0);  // the model needs a first token; it is not part of the text
  const auto add = [&](const Tensor& token) {
    pieces.add(tokenizer.decode({token.item<std::int64_t>()}));
    return true;
  };
  models::generate(*model.get<models::Gpt>(), from_data(prompt).unsqueeze(0),
                   {.tokens = options.tokens,
                    .temperature = options.temperature,
                    .top_k = options.top_k,
                    .top_p = options.top_p,
                    .seed = options.seed,
                    .on_token = add});
  return pieces.finish();
}

void add_generate_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("generate", "Let a network that learned a text write");
  static std::string run;
  static GenerateOptions options;
  static std::optional<std::string> device;
  constexpr std::int64_t highest = std::int64_t{1} << 30;
  command->add_option("run", run, "The run's directory")->required()->check(not_empty());
  command->add_option("--prompt", options.prompt, "How it begins");
  command->add_option("--tokens", options.tokens, "How many tokens are written")
      ->check(number_between(std::int64_t{0}, highest, "a whole number, 0 to 2^30"));
  command
      ->add_option("--temperature", options.temperature, "0: always the likeliest; 1: as learned")
      ->check(number_between(0.0, 100.0, "a number, 0 to 100"));
  command->add_option("--top-k", options.top_k, "Only the k likeliest; 0: all")
      ->check(number_between(std::int64_t{0}, highest, "a whole number, 0 to 2^30"));
  command
      ->add_option("--top-p", options.top_p,
                   "Only the likeliest whose probabilities sum up to p; 1: all")
      ->check(number_between(0.0, 1.0, "a number, 0 to 1"));
  command->add_option("--seed", options.seed, "Another seed, another text")
      ->check(number_between(std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max(),
                             "a whole number below 2^64"));
  add_device_option(*command, device);
  command->footer(
      "Example:\n  extensor generate runs/text-transformer --prompt ROMEO: --tokens 300");
  command->callback([] {
    const Trained trained = load_trained(run, device);
    if (!trained.language.tokenizer) {
      throw ValueError(
          io::in_quotes(run) + " learned " + trained.recipe.dataset + ", not a text; " +
          command_line({"predict", run, trained.language.table ? "TABLE.csv" : "IMAGE.png"}) +
          " shows what it sees");
    }
    const DefaultDevice there(trained.device);
    generate(trained.model, *trained.language.tokenizer, options, [](const std::string& piece) {
      std::cout << piece;
      flush_output();
    });
    std::cout << '\n';
  });
}

}  // namespace extensor::cli
