// Parses and validates the header of a safetensors file in one pass. The parser builds no document
// and refuses nesting deeper than the format allows.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <unordered_set>

#include "io/json.h"
#include "io/safetensors.h"
#include "io/text.h"

namespace extensor::io {

using detail::message;

static_assert(std::endian::native == std::endian::little, "files are read as they lie in memory");

namespace {

constexpr std::uint64_t longest_header = 100'000'000;
constexpr std::string_view metadata_name = "__metadata__";

// In the order of the dtypes. The format has no complex128.
constexpr std::array<std::string_view, dtype_count + 1> names = {"BOOL", "I8",  "I16", "I32", "I64",
                                                                 "U8",   "U16", "U32", "U64", "F16",
                                                                 "BF16", "F32", "F64", "C64"};
static_assert(static_cast<int>(DType::complex64) == dtype_count);

std::optional<DType> dtype_named(std::string_view name) {
  const auto* found = std::ranges::find(names, name);
  if (found == names.end()) return {};
  return static_cast<DType>(found - names.begin());
}

std::string all_names() {
  std::string text;
  for (const std::string_view name : names) text += message(text.empty() ? "" : ", ", name);
  return text;
}

// Receives the parser's tokens one by one.
class HeaderHandler final : public JsonHandler {
 public:
  HeaderHandler(const std::string& label, SafetensorsHeader& header)
      : JsonHandler(label, "the header"), header_(header) {}

  bool number_integer(number_integer_t value) override {
    unexpected(message("the number ", value, " (allowed: whole numbers from 0)"));
  }
  bool number_float(number_float_t, const string_t& text) override {
    unexpected(message("the number ", in_quotes(text), " (allowed: whole numbers from 0)"));
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ == State::shape) {
      if (value > static_cast<std::uint64_t>(INT64_MAX)) {
        damaged(place(), "a dimension is ", value, " (allowed: at most ", INT64_MAX, ")");
      }
      if (entry_.shape.size() == static_cast<std::size_t>(max_rank)) {
        damaged(place(), "the shape has more than ", max_rank, " dimensions");
      }
      entry_.shape.push_back(static_cast<std::int64_t>(value));
    } else if (state_ == State::offsets) {
      if (offset_count_ == 2) damaged(place(), "data_offsets has more than 2 numbers");
      (offset_count_++ == 0 ? entry_.begin : entry_.end) = value;
    } else {
      unexpected(message("the number ", value));
    }
    return true;
  }

  bool string(string_t& value) override {
    if (state_ == State::metadata) {
      header_.metadata[key_] = value;
    } else if (state_ == State::tensor && key_ == "dtype") {
      const std::optional<DType> dtype = dtype_named(value);
      if (!dtype) damaged(place(), "dtype ", in_quotes(value), " (allowed: ", all_names(), ")");
      entry_.dtype = *dtype;
    } else {
      unexpected(message("the string ", in_quotes(value)));
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (state_ == State::before) {
      state_ = State::names;
    } else if (state_ == State::names && key_ == metadata_name) {
      state_ = State::metadata;
    } else if (state_ == State::names) {
      state_ = State::tensor;
      entry_ = {};
      entry_.name = key_;
      offset_count_ = 0;
      fields_.clear();
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool key(string_t& value) override {
    if (state_ == State::names) {
      if (!seen_.insert(value).second) {
        damaged(label_, "the name ", in_quotes(value),
                " is there twice (allowed: every name once)");
      }
      if (const std::string_view fault = fault_of_name(value); !fault.empty()) {
        damaged(label_, "the name ", in_quotes(value), " has ", fault);
      }
    } else if (state_ == State::metadata) {
      if (header_.metadata.contains(value)) {
        damaged(label_, metadata_name, " has the key ", in_quotes(value),
                " twice (allowed: every key once)");
      }
    } else {
      if (value != "dtype" && value != "shape" && value != "data_offsets") {
        damaged(place(), "unknown key ", in_quotes(value),
                " (allowed: dtype, shape, data_offsets)");
      }
      if (std::ranges::find(fields_, value) != fields_.end()) {
        damaged(place(), value, " is there twice");
      }
      fields_.push_back(value);
    }
    key_ = value;
    return true;
  }

  bool end_object() override {
    if (state_ == State::tensor) {
      if (fields_.size() != 3) {
        damaged(place(), "dtype, shape and data_offsets are needed, ", fields_.size(),
                " of them are there");
      }
      check_span();
      header_.entries.push_back(std::move(entry_));
    }
    state_ = state_ == State::names ? State::after : State::names;
    return true;
  }

  bool start_array(std::size_t) override {
    if (state_ == State::tensor && key_ == "shape") {
      state_ = State::shape;
    } else if (state_ == State::tensor && key_ == "data_offsets") {
      state_ = State::offsets;
    } else {
      unexpected("an array");
    }
    return true;
  }

  bool end_array() override {
    if (state_ == State::offsets && offset_count_ != 2) {
      damaged(place(), "data_offsets has ", offset_count_, " numbers (allowed: 2)");
    }
    state_ = State::tensor;
    return true;
  }

 private:
  enum class State { before, names, metadata, tensor, shape, offsets, after };

  std::string tensor() const { return message("tensor ", in_quotes(entry_.name)); }
  std::string place() const { return message(label_, ": ", tensor()); }

  std::string fault(const std::string& found) const override {
    switch (state_) {
      case State::before:
      case State::after:
        return message("the header is ", found, " (allowed: an object)");
      case State::names:
        return message(in_quotes(key_), " is ", found, " (allowed: an object)");
      case State::metadata:
        return message(metadata_name, ": ", in_quotes(key_), " is ", found, " (allowed: a string)");
      case State::tensor:
        return message(tensor(), ": ", key_, " is ", found,
                       " (allowed: ", key_ == "dtype" ? "a string)" : "an array)");
      case State::shape:
      case State::offsets:
        return message(tensor(), ": ", key_, " holds ", found, " (allowed: whole numbers from 0)");
    }
    return found;
  }

  // Formats the tensor's name only for an error message: a file may have a million tensors.
  std::size_t byte_count_of_entry() const {
    try {
      return byte_count("", entry_.shape, entry_.dtype);
    } catch (const FormatError&) {
      return byte_count(place(), entry_.shape, entry_.dtype);
    }
  }

  void check_span() const {
    const std::size_t bytes = byte_count_of_entry();
    if (entry_.begin > entry_.end) {
      damaged(place(), "data_offsets [", entry_.begin, ", ", entry_.end, "] end before they begin");
    }
    if (entry_.end - entry_.begin != bytes) {
      damaged(place(), "data_offsets span ", entry_.end - entry_.begin, " bytes, shape ",
              entry_.shape, " of ", entry_.dtype, " needs ", bytes);
    }
  }

  SafetensorsHeader& header_;
  State state_ = State::before;
  std::string key_;
  SafetensorsEntry entry_;
  int offset_count_ = 0;
  std::vector<std::string> fields_;
  std::unordered_set<std::string> seen_;
};

// Checks that the spans cover the data from its first byte to its last.
void check_layout(const std::string& label, SafetensorsHeader& header, std::uint64_t data_size) {
  const auto order = [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  };
  // Most files are already in order.
  if (!std::ranges::is_sorted(header.entries, order)) {
    std::ranges::stable_sort(header.entries, order);
  }
  std::uint64_t at = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    if (entry.begin != at) {
      damaged(label, "tensor ", in_quotes(entry.name), ": its data begins at byte ", entry.begin,
              ", ",
              entry.begin < at ? "inside that of another, which ends at " : "the last ends at ", at,
              " (allowed: no overlap and no gap)");
    }
    at = entry.end;
    if (at > data_size) {
      damaged(label, "tensor ", in_quotes(entry.name), ": its data ends at byte ", at, " of ",
              data_size, " that are there");
    }
  }
  if (at != data_size) {
    damaged(label, "the tensors end at byte ", at, " of the data, which has ", data_size,
            " (allowed: no bytes left over)");
  }
}

}  // namespace

std::string_view safetensors_name(DType dtype) {
  if (dtype == DType::complex128) {
    throw DTypeError(message("safetensors: dtype is ", dtype,
                             " (allowed: real dtypes and complex64; the format has no other)"));
  }
  return names[static_cast<std::size_t>(dtype)];
}

SafetensorsHeader read_safetensors_header(const ByteSource& source) {
  const std::string& label = source.label();
  const std::uint64_t size = source.size();
  if (size < 8) damaged(label, "has ", size, " bytes (allowed: at least 8, a header's length)");
  std::uint64_t length = 0;
  source.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > longest_header || length > size - 8) {
    damaged(label, "the header's length is ", length, " (allowed: at most ", longest_header,
            " and the ", size - 8, " bytes that follow)");
  }
  std::string text(static_cast<std::size_t>(length), '\0');
  source.read(8, std::as_writable_bytes(std::span(text)));
  SafetensorsHeader header;
  header.data_begin = 8 + length;
  HeaderHandler handler(label, header);
  parse_json(text, handler);
  check_layout(label, header, size - header.data_begin);
  return header;
}

}  // namespace extensor::io
