#include "data/stream_reader.h"

#include "core/check.h"
#include "data/collate.h"

namespace extensor::data {

using detail::message;

StreamDataset::StreamDataset(Open open, const StreamOptions& options)
    : open_(std::move(open)), options_(options) {
  if (!open_) throw ValueError("StreamDataset: there is no function that opens the stream");
  if (!options_.collate) throw ValueError("StreamDataset: there is no collate function");
  if (options_.shuffle_buffer < 0) {
    throw ValueError(message("StreamDataset: shuffle_buffer is ", options_.shuffle_buffer,
                             " (allowed: 0 or more)"));
  }
}

StreamReader::StreamReader(std::shared_ptr<const StreamDataset> stream,
                           const DataLoaderOptions& options, std::int64_t epoch, std::int64_t first)
    : stream_(std::move(stream)),
      batch_size_(options.batch_size),
      epoch_(epoch),
      seed_(options.seed),
      drop_last_(options.drop_last),
      buffered_(options.shuffle ? static_cast<std::size_t>(stream_->options().shuffle_buffer) : 0),
      next_(first),
      source_(stream_->open()(epoch)),
      bits_(options.seed, epoch) {
  if (!source_) throw ValueError("StreamDataset: the function that opens it returned no function");
  for (std::int64_t number = 0; number < first; ++number) {
    for (std::int64_t k = 0; k < batch_size_; ++k) {
      if (draw()) continue;
      // The last batch may be incomplete.
      if (number == first - 1 && k > 0 && !drop_last_) return;
      throw IndexError(message("DataLoader::epoch: first is ", first, ", the stream ends after ",
                               position_, " examples, in batch ", number,
                               " (allowed: a batch within the stream)"));
    }
  }
}

std::optional<StreamReader::Numbered> StreamReader::read() {
  if (ended_) return std::nullopt;
  std::optional<Example> example = source_();
  if (!example) {
    ended_ = true;
    return std::nullopt;
  }
  return Numbered{position_++, *std::move(example)};
}

std::optional<StreamReader::Numbered> StreamReader::draw() {
  if (buffered_ < 2) return read();
  while (buffer_.size() < buffered_) {
    std::optional<Numbered> example = read();
    if (!example) break;
    buffer_.push_back(*std::move(example));
  }
  if (buffer_.empty()) return std::nullopt;
  Numbered& chosen = buffer_[static_cast<std::size_t>(number_below(buffer_.size(), bits_))];
  Numbered result = std::exchange(chosen, std::move(buffer_.back()));
  buffer_.pop_back();
  return result;
}

std::vector<StreamReader::Numbered> StreamReader::draw_batch(std::int64_t number) {
  std::unique_lock lock(mutex_);
  turn_.wait(lock, [&] { return next_ == number; });
  std::vector<Numbered> examples;
  std::exception_ptr error;
  try {
    while (std::ssize(examples) < batch_size_) {
      std::optional<Numbered> example = draw();
      if (!example) break;
      examples.push_back(*std::move(example));
    }
  } catch (...) {
    error = std::current_exception();
    ended_ = true;
    buffer_.clear();
  }
  ++next_;
  lock.unlock();
  turn_.notify_all();
  if (error != nullptr) std::rethrow_exception(error);
  if (drop_last_ && std::ssize(examples) < batch_size_) examples.clear();
  return examples;
}

std::optional<Batch> StreamReader::batch(std::int64_t number) {
  std::vector<Numbered> numbered = draw_batch(number);
  if (numbered.empty()) return std::nullopt;
  const StreamOptions& options = stream_->options();
  std::vector<Example> examples;
  std::vector<std::int64_t> indices;
  for (auto& [position, example] : numbered) {
    Draws draws(seed_, epoch_, position);
    examples.push_back(options.transform ? options.transform(std::move(example), draws)
                                         : std::move(example));
    indices.push_back(position);
  }
  return collated("StreamDataset", options.collate, examples, std::move(indices));
}

}  // namespace extensor::data
