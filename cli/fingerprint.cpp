#include "cli/fingerprint.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

#include "cli/json_file.h"
#include "io/byte_source.h"

namespace extensor::cli {

namespace {

// A 64-bit hash, 8 bytes at a time. It detects accidental changes, not deliberate collisions: each
// word goes through a bijection of the state, so that a change of one word always changes the
// result.
std::string hash_of(std::span<const std::byte> bytes) {
  constexpr std::uint64_t factor = 0x9e3779b97f4a7c15;
  std::uint64_t state = bytes.size() * factor;
  const auto mix = [&](std::uint64_t word) {
    state = (state ^ word) * factor;
    state ^= state >> 29;
  };
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof word, bytes.size() - at));
    mix(word);
  }
  mix(0);
  std::string digits(16, '0');
  for (std::size_t k = 0; k < 16; ++k) {
    digits[k] = "0123456789abcdef"[state >> (60 - 4 * k) & 15];
  }
  return digits;
}

}  // namespace

FingerprintPart fingerprint_of(const std::string& name, const Tensor& tensor) {
  const Tensor elements = tensor.contiguous();
  return {name, std::string(extensor::name(tensor.dtype())) + " " + to_string(tensor.shape()),
          hash_of(io::bytes_of(elements))};
}

FingerprintPart fingerprint_of(const std::string& name, const std::string& text) {
  return {name, std::to_string(text.size()) + " bytes", hash_of(std::as_bytes(std::span(text)))};
}

std::string difference(const Fingerprint& before, const Fingerprint& now) {
  std::string text;
  const auto add = [&](const std::string& name, const std::string& what) {
    text += (text.empty() ? "" : "; ") + name + ": " + what;
  };
  for (const FingerprintPart& part : now) {
    const auto old = std::ranges::find(before, part.name, &FingerprintPart::name);
    if (old == before.end()) {
      add(part.name, "not there when the run began");
    } else if (old->size != part.size) {
      add(part.name, old->size + " when the run began, " + part.size + " now");
    } else if (old->hash != part.hash) {
      add(part.name, "other contents than when the run began (" + part.size + ")");
    }
  }
  for (const FingerprintPart& old : before) {
    if (std::ranges::find(now, old.name, &FingerprintPart::name) == now.end()) {
      add(old.name, "not there any more");
    }
  }
  return text;
}

Fingerprint read_fingerprint(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return {};
  const nlohmann::json json = read_json(path);
  Fingerprint fingerprint;
  try {
    for (const auto& [name, part] : json.items()) {
      // Older versions wrote "held-out images".
      constexpr std::string_view old = "held-out ";
      const bool is_old = name.starts_with(old);
      fingerprint.push_back({is_old ? "validation " + name.substr(old.size()) : name,
                             part.at("size"), part.at("hash")});
    }
  } catch (const nlohmann::json::exception& error) {
    throw FormatError("'" + path.string() + "' is no fingerprint of data: " + error.what());
  }
  return fingerprint;
}

void write_fingerprint(const std::filesystem::path& path, const Fingerprint& fingerprint) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const FingerprintPart& part : fingerprint) {
    json[part.name] = {{"size", part.size}, {"hash", part.hash}};
  }
  write_json(path, json);
}

}  // namespace extensor::cli
