#include "cli/json_file.h"

#include <extensor/extensor.h>

#include <set>
#include <string>
#include <vector>

#include "io/atomic_file.h"
#include "io/byte_source.h"
#include "io/text.h"

namespace extensor::cli {

namespace {

constexpr int deepest = 8;

// Tracks the keys of the open objects, to refuse duplicate keys.
class StrictParser {
 public:
  explicit StrictParser(std::string label) : label_(std::move(label)) {}

  nlohmann::json parse(const std::string& text) {
    try {
      return nlohmann::json::parse(
          text, [this](int depth, nlohmann::json::parse_event_t event, nlohmann::json& value) {
            see(depth, event, value);
            return true;
          });
    } catch (const nlohmann::json::parse_error& error) {
      io::damaged(label_, "is no JSON object: ", io::printable(error.what()));
    }
  }

 private:
  void see(int depth, nlohmann::json::parse_event_t event, const nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (depth >= deepest) {
        io::damaged(label_, "is nested more than ", deepest, " deep (allowed: at most ", deepest,
                    ")");
      }
    }
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (event == Event::key) {
      const auto key = value.get<std::string>();
      if (!keys_.back().insert(key).second) {
        io::damaged(label_, "has the key ", io::in_quotes(key), " twice (allowed: every key once)");
      }
    }
  }

  std::string label_;
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

nlohmann::json read_json(const std::filesystem::path& path) {
  const io::FileSource source("read", path);
  constexpr std::uint64_t most = 16 << 20;
  if (source.size() > most) {
    io::damaged(source.label(), "has ", source.size(), " bytes (allowed: at most ", most, ")");
  }
  std::string text(static_cast<std::size_t>(source.size()), '\0');
  source.read(0, std::as_writable_bytes(std::span(text)));
  nlohmann::json json = StrictParser(source.label()).parse(text);
  if (!json.is_object()) io::damaged(source.label(), "is no JSON object");
  return json;
}

void write_json(const std::filesystem::path& path, const nlohmann::ordered_json& json) {
  io::AtomicFile file("write", path);
  file.write(json.dump(2) + "\n");
  file.commit();
}

}  // namespace extensor::cli
