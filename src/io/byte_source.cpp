#include "io/byte_source.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "core/make_tensor.h"
#include "core/parallel.h"
#include "io/system_error.h"
#include "io/text.h"

namespace extensor::io {

using detail::message;

void MemorySource::read(std::uint64_t offset, std::span<std::byte> into) const {
  if (!into.empty()) std::memcpy(into.data(), bytes_.data() + offset, into.size());
}

FileSource::FileSource(const char* operation, const std::filesystem::path& path,
                       FileOperations& files)
    : ByteSource(message(operation, ": ", in_quotes(path.native()))), files_(files) {
  check_path(label(), path);
  // O_NONBLOCK: opening a FIFO would otherwise block until there is a writer.
  descriptor_ = files_.open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
  if (descriptor_ < 0) throw_system_error(label(), "cannot be opened", errno);
  struct stat status {};
  if (files_.fstat(descriptor_, &status) != 0) {
    const int error = errno;
    files_.close(descriptor_);
    throw_system_error(label(), "its size cannot be known", error);
  }
  if (!S_ISREG(status.st_mode)) {
    files_.close(descriptor_);
    throw IoError(
        message(label(), ": is ", kind_of_file(status.st_mode), " (allowed: a regular file)"));
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

FileSource::~FileSource() { files_.close(descriptor_); }

// One thread copies from the page cache at half the memory bandwidth, so several threads read.
void FileSource::read(std::uint64_t offset, std::span<std::byte> into) const {
  constexpr std::int64_t piece = std::int64_t{16} << 20;
  const auto size = static_cast<std::int64_t>(into.size());
  detail::parallel_for(size, piece, [&](std::int64_t begin, std::int64_t end) {
    const auto from = static_cast<std::size_t>(begin),
               count = static_cast<std::size_t>(end - begin);
    read_in_order(offset + from, into.subspan(from, count));
  });
}

void FileSource::read_in_order(std::uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const std::size_t most = std::min(into.size(), std::size_t{1} << 30);
    const ssize_t count = files_.pread(descriptor_, into.data(), most, offset);
    if (count < 0) {
      if (errno == EINTR) continue;
      throw_system_error(label(), message("cannot be read at byte ", offset), errno);
    }
    if (count == 0) {
      throw IoError(message(label(), ": ended at byte ", offset, " while it was read; it had ",
                            size_, " bytes when it was opened"));
    }
    into = into.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

Mapping::Mapping(const FileSource& file) {
  if (file.size() > std::numeric_limits<std::size_t>::max() / 2) {
    throw OutOfMemoryError(message(file.label(), ": ", file.size(), " bytes cannot be mapped"));
  }
  size_ = static_cast<std::size_t>(file.size());
  // MAP_PRIVATE keeps writes inside this process. MAP_NORESERVE: most tensors are only read, so no
  // swap is reserved for copied pages.
  void* mapped = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
                      file.descriptor(), 0);
  if (mapped == MAP_FAILED) throw_system_error(file.label(), "cannot be mapped", errno);
  data_ = static_cast<std::byte*>(mapped);
}

Mapping::~Mapping() { munmap(data_, size_); }

void ByteStream::read(std::span<std::byte> into, const char* what) {
  if (into.size() > left_) {
    damaged(label_, what, " wants ", into.size(), " bytes, ", left_, " are left");
  }
  left_ -= into.size();
  next(into);
}

void SourceStream::next(std::span<std::byte> into) {
  source_.read(offset_, into);
  offset_ += into.size();
}

namespace {

void check_readable(const Tensor& tensor) {
  if (tensor.device() == cpu_device) return;
  extensor::detail::throw_unreadable_memory("bytes_of", tensor.device());
}

}  // namespace

std::span<std::byte> bytes_of(Tensor& tensor) {
  check_readable(tensor);
  return {extensor::detail::dense_data(tensor), tensor.nbytes()};
}
std::span<const std::byte> bytes_of(const Tensor& tensor) {
  check_readable(tensor);
  return {extensor::detail::dense_data(tensor), tensor.nbytes()};
}

std::size_t byte_count(const std::string& label, const Shape& shape, DType dtype) {
  try {
    return detail::checked_bytes("shape", detail::checked_numel("shape", shape), dtype);
  } catch (const ShapeError& error) {
    damaged(label, error.what());
  }
}

void check_bools(const std::string& label, std::span<const std::byte> bytes) {
  const auto* found = std::find_if(bytes.data(), bytes.data() + bytes.size(), [](std::byte value) {
    return std::to_integer<unsigned>(value) > 1;
  });
  if (found == bytes.data() + bytes.size()) return;
  damaged(label, "element ", found - bytes.data(), " of a bool tensor is ",
          std::to_integer<unsigned>(*found), " (allowed: 0, 1)");
}

}  // namespace extensor::io
