#include <cstring>

#include "core/check.h"
#include "core/make_tensor.h"
#include "data/tokenizer_files.h"
#include "extensor/data/text.h"
#include "io/text.h"

namespace extensor::data {

using detail::message;

std::string load_text(const std::filesystem::path& path) {
  const io::FileSource source("load_text", path);
  std::string text = whole_text(source);
  if (const std::size_t prefix = io::utf8_prefix(text); prefix != text.size()) {
    io::damaged(source.label(), "has ", io::in_quotes(std::string_view(text).substr(prefix, 1)),
                " at byte ", prefix, " (allowed: UTF-8)");
  }
  return text;
}

TextDataset::TextDataset(const Tensor& tokens, std::int64_t block) : block_(block) {
  if (tokens.ndim() != 1) {
    throw ShapeError(message("TextDataset: tokens are ", tokens.shape(), ", must be [count]"));
  }
  if (tokens.dtype() != DType::int64) {
    throw DTypeError(message("TextDataset: tokens are ", tokens.dtype(), ", must be int64"));
  }
  if (block < 1 || tokens.numel() <= block) {
    throw ValueError(message("TextDataset: block is ", block, " and there are ", tokens.numel(),
                             " tokens, must be 1 or more, and less than the tokens"));
  }
  tokens_ = tokens.to(cpu_device).contiguous();
}

std::int64_t TextDataset::size() const { return tokens_.numel() - block_; }

Batch TextDataset::batch(const Request& request) const {
  for (const std::int64_t index : request.indices) {
    if (index < 0 || index >= size()) {
      throw IndexError(message("TextDataset::batch: index ", index, " of ", size(),
                               " examples (allowed: 0 to ", size() - 1, ")"));
    }
  }
  const Shape shape = {static_cast<std::int64_t>(request.indices.size()), block_};
  Batch batch{detail::make_empty("TextDataset::batch", shape, DType::int64, cpu_device),
              detail::make_empty("TextDataset::batch", shape, DType::int64, cpu_device),
              {request.indices.begin(), request.indices.end()}};
  const std::int64_t* tokens = tokens_.data<std::int64_t>();
  auto* inputs = batch.inputs.data<std::int64_t>();
  auto* targets = batch.targets.data<std::int64_t>();
  const std::size_t bytes = static_cast<std::size_t>(block_) * sizeof(std::int64_t);
  for (const std::int64_t index : request.indices) {
    std::memcpy(inputs, tokens + index, bytes);
    std::memcpy(targets, tokens + index + 1, bytes);
    inputs += block_;
    targets += block_;
  }
  return batch;
}

}  // namespace extensor::data
