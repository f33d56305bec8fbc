#include "onnx/attribute_tree.h"

#include <algorithm>
#include <charconv>

namespace extensor::onnx {

const AttributeTree* AttributeTree::find(std::string_view item) const {
  const auto found = std::ranges::find(items, item, &AttributeTree::name);
  return found == items.end() ? nullptr : &*found;
}

namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  // Items up to `end` or the end of the text.
  std::vector<AttributeTree> list(char end) {
    std::vector<AttributeTree> items;
    while (at_ < text_.size() && text_[at_] != end) {
      items.push_back(item());
      if (text_.substr(at_).starts_with(", ")) at_ += 2;
    }
    if (at_ < text_.size()) ++at_;
    return items;
  }

 private:
  AttributeTree item() {
    AttributeTree tree;
    const std::size_t equals = text_.find_first_of("=,([{)]}", at_);
    if (equals != std::string_view::npos && text_[equals] == '=') {
      tree.name = text_.substr(at_, equals - at_);
      at_ = equals + 1;
    }
    const char first = at_ < text_.size() ? text_[at_] : '\0';
    if (first == '(' || first == '[' || first == '{') {
      ++at_;
      tree.is_list = true;
      tree.items = list(first == '(' ? ')' : first == '[' ? ']' : '}');
      return tree;
    }
    const std::size_t end = std::min(text_.find_first_of(",)]}", at_), text_.size());
    tree.text = text_.substr(at_, end - at_);
    at_ = end;
    const char* last = tree.text.data() + tree.text.size();
    const auto [stop, error] = std::from_chars(tree.text.data(), last, tree.integer.value);
    tree.is_integer = error == std::errc() && stop == last;
    return tree;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

AttributeTree parse_attributes(std::string_view text) {
  AttributeTree tree;
  tree.is_list = true;
  tree.items = Parser(text).list('\0');
  return tree;
}

std::optional<Size> merged_size(std::int64_t a, std::int64_t b, std::int64_t c) {
  if (b - a != c - b) return std::nullopt;
  return Size{a, b - a};
}

bool merge(AttributeTree& a, const AttributeTree& b, const AttributeTree& c) {
  if (a.name != b.name || a.name != c.name || a.is_list != b.is_list || a.is_list != c.is_list ||
      a.is_integer != b.is_integer || a.is_integer != c.is_integer ||
      a.items.size() != b.items.size() || a.items.size() != c.items.size()) {
    return false;
  }
  if (a.is_integer) {
    const auto size = merged_size(a.integer.value, b.integer.value, c.integer.value);
    if (size) a.integer = *size;
    return size.has_value();
  }
  for (std::size_t k = 0; k < a.items.size(); ++k) {
    if (!merge(a.items[k], b.items[k], c.items[k])) return false;
  }
  return a.text == b.text && a.text == c.text;
}

}  // namespace extensor::onnx
