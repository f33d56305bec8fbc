// Prints tensors like NumPy's str(): brackets, lines of at most 75 characters, and only the edges
// beyond 1000 elements. Only elements that are shown are read.
#include <ostream>

#include "core/format_number.h"
#include "core/make_tensor.h"
#include "extensor/tensor.h"

namespace extensor {

namespace {

using detail::TensorImpl;

constexpr std::int64_t summary_threshold = 1000;
constexpr std::int64_t edge_items = 3;
constexpr std::size_t line_width = 75;

class Layout {
 public:
  explicit Layout(const TensorImpl& tensor)
      : tensor_(tensor), summarised_(tensor.numel > summary_threshold) {
    collect(0, 0);
    words_ = detail::format_elements(tensor, shown_);
  }

  std::string text() { return block(0, " ", line_width); }

 private:
  bool cuts(std::size_t axis) const { return summarised_ && tensor_.shape[axis] > 2 * edge_items; }

  // Calls `each(position)` for the shown positions of an axis, and `gap()` where some are left out.
  template <class Each, class Gap>
  void walk(std::size_t axis, const Each& each, const Gap& gap) {
    const std::int64_t size = tensor_.shape[axis];
    const bool cut = cuts(axis);
    for (std::int64_t i = 0; i < (cut ? edge_items : size); ++i) each(i);
    if (!cut) return;
    gap();
    for (std::int64_t i = size - edge_items; i < size; ++i) each(i);
  }

  void collect(std::size_t axis, std::int64_t offset) {
    if (axis == tensor_.shape.size()) {
      shown_.push_back(offset);
      return;
    }
    walk(
        axis, [&](std::int64_t i) { collect(axis + 1, offset + i * tensor_.strides[axis]); },
        [] {});
  }

  // The text from `axis` inwards; lines after the first start with `indent`.
  std::string block(std::size_t axis, const std::string& indent, std::size_t width) {
    const std::size_t axes_left = tensor_.shape.size() - axis;
    return axes_left == 1 ? row(axis, indent, width) : nested(axis, indent, width);
  }

  std::string row(std::size_t axis, const std::string& indent, std::size_t width) {
    std::string text;
    std::string line = indent;
    const std::size_t most = width - 1;  // a bracket or a space follows
    const auto extend = [&](const std::string& word) {
      const bool wraps = line.size() + word.size() > most && line.size() > indent.size();
      if (wraps) {
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
        line = indent;
      }
      line += word;
      line += ' ';
    };
    walk(
        axis, [&](std::int64_t) { extend(words_[next_word_++]); }, [&] { extend("..."); });
    line.pop_back();  // no space before the bracket
    text += line;
    return "[" + text.substr(indent.size()) + "]";
  }

  std::string nested(std::size_t axis, const std::string& indent, std::size_t width) {
    const std::size_t axes_left = tensor_.shape.size() - axis;
    const std::string separator(axes_left - 1, '\n');
    std::string text;
    const auto append = [&](const std::string& part) {
      if (!text.empty()) text += separator + indent;
      text += part;
    };
    walk(
        axis, [&](std::int64_t) { append(block(axis + 1, indent + " ", width - 1)); },
        [&] { append("..."); });
    return "[" + text + "]";
  }

  const TensorImpl& tensor_;
  bool summarised_;
  std::vector<std::int64_t> shown_;
  std::vector<std::string> words_;
  std::size_t next_word_ = 0;
};

}  // namespace

std::string to_string(const Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  if (tensor.device() != cpu_device) {
    return to_string(detail::copied_to("to_string", tensor, cpu_device));
  }
  const TensorImpl& impl = tensor.impl();
  if (impl.shape.empty()) return detail::format_scalar(impl);
  if (impl.numel == 0) return "[]";
  return Layout(impl).text();
}

std::ostream& operator<<(std::ostream& stream, DType dtype) { return stream << name(dtype); }

std::ostream& operator<<(std::ostream& stream, const Tensor& tensor) {
  return stream << to_string(tensor);
}

}  // namespace extensor
