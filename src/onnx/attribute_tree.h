// Attributes of recorded calls as data: a tree that is read from the text which every op has of its
// attributes, "axes=[0, 1], keepdims=false".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace extensor::onnx {

// A size that is fixed, or that grows by `slope` with each sample in the batch.
struct Size {
  std::int64_t value = 0;  // for the batch that was recorded
  std::int64_t slope = 0;

  bool is_fixed() const { return slope == 0; }
  friend bool operator==(const Size&, const Size&) = default;
};

struct AttributeTree {
  std::string name;  // empty: an element of a list, or attributes that are no struct
  std::string text;  // of a leaf
  bool is_integer = false;
  Size integer;
  bool is_list = false;  // also a pair, and a struct, whose items have names
  std::vector<AttributeTree> items;

  // Null if there is no item of that name.
  const AttributeTree* find(std::string_view item) const;
  bool is_none() const { return !is_list && text == "none"; }
};

AttributeTree parse_attributes(std::string_view text);

// Merges the attributes of the same call with three sizes of the batch, each one sample more than
// the one before. False if they differ in more than integers that grow evenly.
bool merge(AttributeTree& a, const AttributeTree& b, const AttributeTree& c);
// The same for one size.
std::optional<Size> merged_size(std::int64_t a, std::int64_t b, std::int64_t c);

}  // namespace extensor::onnx
