#include "data/gzip.h"

#include <algorithm>
#include <array>

namespace extensor::io {

namespace {

constexpr std::size_t buffer_size = 1 << 16;

}  // namespace

bool is_gzip(const ByteSource& source) {
  std::array<std::byte, 2> start{};
  if (source.size() < start.size()) return false;
  source.read(0, start);
  return start[0] == std::byte{0x1f} && start[1] == std::byte{0x8b};
}

GzipStream::GzipStream(const ByteSource& source)
    : source_(source),
      inflater_(source.label(), Inflater::Wrapper::gzip),
      buffer_(static_cast<std::size_t>(std::min<std::uint64_t>(buffer_size, source.size()))) {}

void GzipStream::refill() {
  const auto count =
      static_cast<std::size_t>(std::min<std::uint64_t>(buffer_.size(), source_.size() - offset_));
  source_.read(offset_, std::span(buffer_).first(count));
  waiting_ = std::span(buffer_).first(count);
  offset_ += count;
}

std::size_t GzipStream::read(std::span<std::byte> into) {
  const std::size_t room = into.size();
  while (!into.empty()) {
    if (waiting_.empty()) refill();
    if (waiting_.empty() && !inside_) break;
    inside_ = true;
    const std::size_t before = waiting_.size() + into.size();
    if (inflater_.inflate(waiting_, into)) {
      inflater_.restart();
      inside_ = false;
    } else if (waiting_.size() + into.size() == before) {
      damaged(source_.label(), "its compressed data is cut off");
    }
  }
  return room - into.size();
}

}  // namespace extensor::io
