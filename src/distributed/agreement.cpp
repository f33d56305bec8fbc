#include "distributed/agreement.h"

#include <algorithm>

#include "core/check.h"

namespace extensor::distributed {

using detail::message;

namespace {

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// FNV-1a: the ranks exchange their texts only if these differ.
std::string hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char each : text) {
    hash = (hash ^ static_cast<unsigned char>(each)) * 0x100000001b3u;
  }
  return std::to_string(hash);
}

}  // namespace

void check_agreement(const char* operation, Communicator& communicator,
                     const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  const std::vector<std::string> hashes = communicator.all_gather_text(hash_of(text));
  const auto other =
      std::ranges::find_if(hashes, [&](const std::string& hash) { return hash != hashes.front(); });
  if (other == hashes.end()) return;
  const std::vector<std::string> texts = communicator.all_gather_text(text);
  const auto rank = other - hashes.begin();
  const std::vector<std::string> first = split(texts.front());
  const std::vector<std::string> second = split(texts[static_cast<std::size_t>(rank)]);
  const auto [a, b] = std::ranges::mismatch(first, second);
  const auto line = [](const auto& at, const auto& list) {
    return at == list.end() ? std::string("nothing more") : *at;
  };
  throw DistributedError(message(operation, ": the ranks differ: rank 0 has ", line(a, first),
                                 ", rank ", static_cast<std::int64_t>(rank), " has ",
                                 line(b, second)));
}

}  // namespace extensor::distributed
