#include "extensor/train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>

#include "core/check.h"
#include "io/atomic_file.h"
#include "io/byte_source.h"
#include "io/checksums.h"
#include "io/safetensors.h"
#include "io/text.h"
#include "train/checkpoint_format.h"

namespace extensor::train {

using detail::message;
using io::in_quotes;

namespace {

constexpr std::string_view format_key = "format", format_name = "extensor checkpoint 1";
constexpr std::string_view number_key = "number.", text_key = "text.";

// The shortest decimal form that parses to the same number.
std::string text_of(double number) {
  char digits[32];
  const auto result = std::to_chars(std::begin(digits), std::end(digits), number);
  return {digits, result.ptr};
}

double number_of(const std::string& label, std::string_view key, const std::string& text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  if (result.ec != std::errc() || result.ptr != end) {
    io::damaged(label, "the number ", in_quotes(key), " is ", in_quotes(text));
  }
  return number;
}

Metadata metadata_of(const Checkpoint& checkpoint) {
  Metadata metadata{{std::string(format_key), std::string(format_name)}};
  for (const auto& [name, number] : checkpoint.numbers) {
    metadata[std::string(number_key) + name] = text_of(number);
  }
  for (const auto& [name, text] : checkpoint.texts) metadata[std::string(text_key) + name] = text;
  io::add_checksums(io::checkpoint_checksum, checkpoint.tensors, metadata);
  return metadata;
}

void check_format(const std::string& label, const Safetensors& file) {
  const auto format = file.metadata.find(std::string(format_key));
  if (format != file.metadata.end() && format->second == format_name) return;
  io::damaged(label, "is no checkpoint: its format is ",
              format == file.metadata.end() ? "not said" : in_quotes(format->second),
              " (allowed: ", in_quotes(format_name), ")");
}

}  // namespace

void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint,
                      io::FileOperations& files) {
  io::check_safetensors("save_checkpoint", checkpoint.tensors, {});
  const Metadata metadata = metadata_of(checkpoint);
  io::check_safetensors("save_checkpoint", {}, metadata);
  io::AtomicFile file("save_checkpoint", path, files);
  io::write_safetensors(file, checkpoint.tensors, metadata);
  file.commit();
}

std::vector<std::byte> checkpoint_bytes(const Checkpoint& checkpoint) {
  io::MemorySink sink;
  io::write_safetensors(sink, checkpoint.tensors, metadata_of(checkpoint));
  return std::move(sink.bytes);
}

Checkpoint read_checkpoint(const io::ByteSource& source) {
  Safetensors file = io::read_safetensors(source);
  check_format(source.label(), file);
  io::check_checksums(io::checkpoint_checksum, source.label(), file);
  Checkpoint checkpoint;
  checkpoint.tensors = std::move(file.tensors);
  for (auto& [key, value] : file.metadata) {
    if (key.starts_with(number_key)) {
      checkpoint.numbers[key.substr(number_key.size())] = number_of(source.label(), key, value);
    } else if (key.starts_with(text_key)) {
      checkpoint.texts[key.substr(text_key.size())] = value;
    }
  }
  return checkpoint;
}

void save_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint) {
  write_checkpoint(path, checkpoint, io::system_files());
}

Checkpoint load_checkpoint(const std::filesystem::path& path) {
  return read_checkpoint(io::FileSource("load_checkpoint", path));
}

// ---- directories of checkpoints

namespace {

constexpr std::string_view before = "step-", behind = ".safetensors";

// The step in a checkpoint's file name; nullopt for any other file.
std::optional<std::int64_t> step_of(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(before) || !name.ends_with(behind)) return {};
  if (name.size() <= before.size() + behind.size()) return {};
  const char* first = name.data() + before.size();
  const char* last = name.data() + name.size() - behind.size();
  std::int64_t step = 0;
  const auto result = std::from_chars(first, last, step);
  if (result.ec != std::errc() || result.ptr != last || step < 0) return {};
  return step;
}

std::string file_name(std::int64_t step) {
  std::string digits = std::to_string(step);
  if (digits.size() < 8) digits.insert(0, 8 - digits.size(), '0');
  return message(before, digits, behind);
}

// Whether the file is a temporary of AtomicFile that a killed process left.
bool is_left_over(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with(message(".", before)) && name.ends_with(".tmp");
}

}  // namespace

Checkpoints::Checkpoints(std::filesystem::path directory, std::int64_t keep)
    : directory_(std::move(directory)), keep_(keep) {
  if (keep < 1) throw ValueError(message("Checkpoints: keep is ", keep, ", must be at least 1"));
}

std::vector<std::filesystem::path> Checkpoints::list() const {
  std::vector<std::pair<std::int64_t, std::filesystem::path>> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, error)) {
    if (const auto step = step_of(entry.path())) found.emplace_back(*step, entry.path());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw IoError(message("Checkpoints: ", in_quotes(directory_.native()),
                          " cannot be read: ", error.message()));
  }
  std::ranges::sort(found);
  std::vector<std::filesystem::path> paths;
  paths.reserve(found.size());
  for (auto& [step, path] : found) paths.push_back(std::move(path));
  return paths;
}

std::filesystem::path Checkpoints::save(std::int64_t step, const Checkpoint& checkpoint) const {
  if (step < 0) throw ValueError(message("Checkpoints: step is ", step, ", must be 0 or more"));
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  if (error) {
    throw IoError(message("Checkpoints: ", in_quotes(directory_.native()),
                          " cannot be made: ", error.message()));
  }
  std::filesystem::path path = directory_ / file_name(step);
  save_checkpoint(path, checkpoint);

  // Removal is best effort: the next save tries again.
  std::vector<std::filesystem::path> old = list();
  std::erase(old, path);
  const auto others = static_cast<std::size_t>(keep_ - 1);
  for (std::size_t k = 0; k + others < old.size(); ++k) std::filesystem::remove(old[k], error);
  std::vector<std::filesystem::path> left_over;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, error)) {
    if (is_left_over(entry.path())) left_over.push_back(entry.path());
  }
  for (const auto& file : left_over) std::filesystem::remove(file, error);
  return path;
}

std::optional<Checkpoints::Found> Checkpoints::newest() const {
  std::vector<std::filesystem::path> paths = list();
  if (paths.empty()) return {};
  Found found;
  for (std::size_t k = paths.size(); k-- > 0;) {
    try {
      found.state = load_checkpoint(paths[k]);
      found.path = paths[k];
      found.step = step_of(paths[k]).value_or(0);
      return found;
    } catch (const Error& error) {
      found.damaged.emplace_back(error.what());
    }
  }
  std::string all;
  for (const std::string& text : found.damaged) all += "\n  " + text;
  throw FormatError(message("Checkpoints: every checkpoint in ", in_quotes(directory_.native()),
                            " is damaged:", all));
}

}  // namespace extensor::train
