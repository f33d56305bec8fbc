#include "extensor/pretrained.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "core/check.h"
#include "extensor/tensor.h"

namespace extensor::models {

using extensor::detail::message;

namespace {

// The names inside of a block. Weights of Conv1D are [in, out], those of nn::Linear [out, in].
struct Entry {
  std::string_view theirs, ours;
  bool transposed;
};
constexpr Entry block_entries[] = {
    {"ln_1.weight", "ln_1.weight", false},
    {"ln_1.bias", "ln_1.bias", false},
    {"attn.c_attn.weight", "attn.in_proj_weight", true},
    {"attn.c_attn.bias", "attn.in_proj_bias", false},
    {"attn.c_proj.weight", "attn.out_proj.weight", true},
    {"attn.c_proj.bias", "attn.out_proj.bias", false},
    {"ln_2.weight", "ln_2.weight", false},
    {"ln_2.bias", "ln_2.bias", false},
    {"mlp.c_fc.weight", "fc.weight", true},
    {"mlp.c_fc.bias", "fc.bias", false},
    {"mlp.c_proj.weight", "proj.weight", true},
    {"mlp.c_proj.bias", "proj.bias", false},
};
// The same in both, behind "transformer." in GPT2LMHeadModel.
constexpr std::string_view outer_names[] = {"wte.weight", "wpe.weight", "ln_f.weight", "ln_f.bias"};
constexpr std::string_view prefix = "transformer.", head = "lm_head.weight";

// Splits "h.12.fc.bias" into "h.12." and "fc.bias"; the first part is empty for other names.
std::pair<std::string_view, std::string_view> split_block(std::string_view name) {
  if (!name.starts_with("h.")) return {{}, name};
  const std::size_t digits = name.find_first_not_of("0123456789", 2);
  if (digits == 2 || digits == std::string_view::npos || name[digits] != '.') return {{}, name};
  return {name.substr(0, digits + 1), name.substr(digits + 1)};
}

Tensor converted(const Tensor& tensor, const Entry& entry) {
  return entry.transposed ? tensor.transpose() : tensor;
}

[[noreturn]] void refuse(const char* operation, const std::string& name, const char* expected) {
  throw ValueError(message(operation, ": '", name, "' is not a name of ", expected));
}

bool is_outer(std::string_view name) {
  return std::ranges::find(outer_names, name) != std::end(outer_names);
}

}  // namespace

NamedTensors from_hugging_face_gpt2(const NamedTensors& state) {
  constexpr const char* operation = "from_hugging_face_gpt2";
  NamedTensors result;
  Tensor embedding;
  bool has_head = false;
  for (const auto& [name, tensor] : state) {
    std::string_view rest = name;
    if (rest.starts_with(prefix)) rest.remove_prefix(prefix.size());
    const auto [block, inner] = split_block(rest);
    if (block.empty()) {
      if (!is_outer(rest) && rest != head) refuse(operation, name, "GPT-2");
      if (rest == "wte.weight") embedding = tensor;
      has_head = has_head || rest == head;
      result.emplace_back(rest, tensor);
      continue;
    }
    if (inner == "attn.bias" || inner == "attn.masked_bias") continue;  // the causal mask
    const auto* const entry = std::ranges::find(block_entries, inner, &Entry::theirs);
    if (entry == std::end(block_entries)) refuse(operation, name, "GPT-2");
    result.emplace_back(std::string(block) + std::string(entry->ours), converted(tensor, *entry));
  }
  if (!has_head && embedding.defined()) result.emplace_back(head, embedding);
  return result;
}

NamedTensors to_hugging_face_gpt2(const NamedTensors& state) {
  NamedTensors result;
  for (const auto& [name, tensor] : state) {
    const auto [block, inner] = split_block(name);
    const auto* const entry = std::ranges::find(block_entries, inner, &Entry::ours);
    if (!block.empty() && entry != std::end(block_entries)) {
      result.emplace_back(std::string(prefix) + std::string(block) + std::string(entry->theirs),
                          converted(tensor, *entry));
    } else if (is_outer(name)) {
      result.emplace_back(std::string(prefix) + name, tensor);
    } else if (name == head) {
      result.emplace_back(name, tensor);
    } else {
      refuse("to_hugging_face_gpt2", name, "models::Gpt");
    }
  }
  return result;
}

}  // namespace extensor::models
