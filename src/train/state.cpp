#include "train/state.h"

#include <charconv>

#include "io/byte_source.h"
#include "io/text.h"

namespace extensor::train {

void put(Checkpoint& checkpoint, const std::string& prefix, const optim::StateDict& state) {
  for (const auto& [name, tensor] : state.tensors) {
    checkpoint.tensors.emplace_back(prefix + name, tensor);
  }
  for (const auto& [name, value] : state.numbers) checkpoint.numbers[prefix + name] = value;
}

// As text: a double cannot represent all 64-bit values.
void put(Checkpoint& checkpoint, const std::string& prefix, const RandomState& state) {
  checkpoint.texts[prefix + "seed"] = std::to_string(state.seed);
  checkpoint.texts[prefix + "stream"] = std::to_string(state.stream);
  checkpoint.texts[prefix + "offset"] = std::to_string(state.offset);
}

double number(const std::string& label, const Checkpoint& checkpoint, const std::string& name) {
  const auto found = checkpoint.numbers.find(name);
  if (found == checkpoint.numbers.end()) io::damaged(label, "has no number ", io::in_quotes(name));
  return found->second;
}

RandomState random_state(const std::string& label, const Checkpoint& checkpoint,
                         const std::string& prefix) {
  const auto read = [&](const char* name) {
    const auto found = checkpoint.texts.find(prefix + name);
    const std::string text = found == checkpoint.texts.end() ? "" : found->second;
    std::uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto result = std::from_chars(text.data(), end, value);
    if (result.ec != std::errc() || result.ptr != end) {
      io::damaged(label, "the ", name, " of the random generator is ", io::in_quotes(text));
    }
    return value;
  };
  return {read("seed"), read("stream"), read("offset")};
}

NamedTensors tensors_of(const Checkpoint& checkpoint, const std::string& prefix) {
  NamedTensors tensors;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (name.starts_with(prefix)) tensors.emplace_back(name.substr(prefix.size()), tensor);
  }
  return tensors;
}

optim::StateDict state_dict_of(const Checkpoint& checkpoint, const std::string& prefix) {
  optim::StateDict state;
  for (auto& [name, tensor] : tensors_of(checkpoint, prefix)) state.tensors[name] = tensor;
  for (const auto& [name, value] : checkpoint.numbers) {
    if (name.starts_with(prefix)) state.numbers[name.substr(prefix.size())] = value;
  }
  return state;
}

}  // namespace extensor::train
