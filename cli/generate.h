// Generates text with a network, token by token.
#pragma once

#include <extensor/extensor.h>

#include <cstdint>
#include <functional>
#include <string>

namespace extensor::cli {

struct GenerateOptions {
  std::string prompt;
  std::int64_t tokens = 300;
  double temperature = 0.8;
  std::int64_t top_k = 0;
  double top_p = 1;
  std::uint64_t seed = 0;
};

// Returns the prompt and its continuation. `written` is called with each piece of whole characters
// as soon as it exists. `model` is the models::Gpt of a text recipe. Throws ValueError for a prompt
// with a character that has no token.
std::string generate(const nn::AnyLayer& model, const data::Tokenizer& tokenizer,
                     const GenerateOptions& options,
                     const std::function<void(const std::string&)>& written = {});

}  // namespace extensor::cli
