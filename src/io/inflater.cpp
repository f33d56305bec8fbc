#include "io/inflater.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "io/byte_source.h"

namespace extensor::io {

using detail::message;

namespace {

// zlib's windowBits argument.
int window_bits(Inflater::Wrapper wrapper) {
  switch (wrapper) {
    case Inflater::Wrapper::none:
      return -MAX_WBITS;
    case Inflater::Wrapper::gzip:
      return MAX_WBITS + 16;
    default:
      return MAX_WBITS;
  }
}

}  // namespace

Inflater::Inflater(std::string label, Wrapper wrapper) : label_(std::move(label)) {
  if (inflateInit2(&stream_, window_bits(wrapper)) != Z_OK) {
    throw OutOfMemoryError(message(label_, ": no memory to inflate it"));
  }
}

Inflater::~Inflater() { inflateEnd(&stream_); }

bool Inflater::inflate(std::span<const std::byte>& from, std::span<std::byte>& into) {
  constexpr std::size_t most = std::numeric_limits<uInt>::max();
  const auto given = static_cast<uInt>(std::min(from.size(), most));
  const auto room = static_cast<uInt>(std::min(into.size(), most));
  // zlib does not write through next_in, but the pointer is not const.
  stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(from.data()));
  stream_.avail_in = given;
  stream_.next_out = reinterpret_cast<Bytef*>(into.data());
  stream_.avail_out = room;
  const int result = ::inflate(&stream_, Z_NO_FLUSH);
  from = from.subspan(given - stream_.avail_in);
  into = into.subspan(room - stream_.avail_out);
  if (result == Z_STREAM_END) return true;
  if (result == Z_MEM_ERROR) {
    throw OutOfMemoryError(message(label_, ": no memory to inflate it"));
  }
  if (result != Z_OK && result != Z_BUF_ERROR) {
    damaged(label_,
            "its compressed data is wrong: ", stream_.msg != nullptr ? stream_.msg : "not deflate");
  }
  return false;
}

void Inflater::restart() { inflateReset(&stream_); }

}  // namespace extensor::io
