#include <zlib.h>

#include <algorithm>

#include "io/zip.h"
#include "io/zip_format.h"

namespace extensor::io {

namespace {

constexpr std::uint16_t first_day = 1 << 5 | 1;  // 1980-01-01: equal tensors, equal files

std::uint32_t crc_of(std::uint32_t crc, const void* data, std::size_t size) {
  return static_cast<std::uint32_t>(crc32_z(crc, static_cast<const Bytef*>(data), size));
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// Appends the fields that local and central headers share: from the version needed to the extra
// field's length.
void append_shared(std::string& record, bool zip64, std::string_view name, std::uint32_t crc,
                   std::uint32_t size, std::size_t extra) {
  append_number<std::uint16_t>(record, zip64 ? 45 : 20);
  append_number<std::uint16_t>(record, is_ascii(name) ? 0 : utf8_flag);
  append_number<std::uint16_t>(record, stored_method);
  append_number<std::uint16_t>(record, 0);  // time
  append_number<std::uint16_t>(record, first_day);
  append_number(record, crc);
  append_number(record, size);  // compressed size
  append_number(record, size);
  append_number(record, static_cast<std::uint16_t>(name.size()));
  append_number(record, static_cast<std::uint16_t>(extra));
}

// An extra field of 64-bit numbers; empty if there are none.
std::string zip64_extra(const std::vector<std::uint64_t>& numbers) {
  std::string extra;
  if (numbers.empty()) return extra;
  append_number(extra, zip64_field);
  append_number(extra, static_cast<std::uint16_t>(8 * numbers.size()));
  for (const std::uint64_t number : numbers) append_number(extra, number);
  return extra;
}

constexpr std::uint32_t elsewhere = 0xffffffff;  // zip64 marker: the number is in the extra field

}  // namespace

void ZipWriter::add(std::string_view name, std::string_view head, std::span<const std::byte> body) {
  Written entry{std::string(name), crc_of(0, head.data(), head.size()), head.size() + body.size(),
                sink_.written()};
  entry.crc = crc_of(entry.crc, body.data(), body.size());
  const bool large = entry.size >= limits_.most_bytes;
  const std::string extra =
      zip64_extra(large ? std::vector{entry.size, entry.size} : std::vector<std::uint64_t>{});
  std::string record;
  append_number(record, local_signature);
  append_shared(record, large, name, entry.crc,
                large ? elsewhere : static_cast<std::uint32_t>(entry.size), extra.size());
  record += name;
  record += extra;
  record += head;
  sink_.write(record);
  sink_.write(body);
  entries_.push_back(std::move(entry));
}

void ZipWriter::finish() {
  const std::uint64_t directory_at = sink_.written();
  for (const Written& entry : entries_) {
    const bool large = entry.size >= limits_.most_bytes;
    const bool far = entry.header_at >= limits_.most_bytes;
    std::vector<std::uint64_t> numbers;
    if (large) numbers = {entry.size, entry.size};
    if (far) numbers.push_back(entry.header_at);
    const std::string extra = zip64_extra(numbers);
    std::string record;
    append_number(record, central_signature);
    append_number<std::uint16_t>(record, 3 << 8 | 45);  // created on Unix, version 4.5
    append_shared(record, large || far, entry.name, entry.crc,
                  large ? elsewhere : static_cast<std::uint32_t>(entry.size), extra.size());
    append_number<std::uint16_t>(record, 0);               // comment
    append_number<std::uint16_t>(record, 0);               // disk
    append_number<std::uint16_t>(record, 0);               // internal attributes
    append_number<std::uint32_t>(record, 0100644u << 16);  // a regular file, rw-r--r--
    append_number(record, far ? elsewhere : static_cast<std::uint32_t>(entry.header_at));
    record += entry.name;
    record += extra;
    sink_.write(record);
  }
  const std::uint64_t end_at = sink_.written(), size = end_at - directory_at;
  const std::uint64_t count = entries_.size();
  const bool many = count >= limits_.most_entries;
  const bool long_directory = size >= limits_.most_bytes, far = directory_at >= limits_.most_bytes;
  std::string record;
  if (many || long_directory || far) {
    append_number(record, end64_signature);
    append_number<std::uint64_t>(record, end64_size - 12);  // size of the rest of the record
    append_number<std::uint16_t>(record, 3 << 8 | 45);
    append_number<std::uint16_t>(record, 45);
    append_number<std::uint32_t>(record, 0);  // this disk
    append_number<std::uint32_t>(record, 0);  // disk of the directory
    append_number(record, count);             // entries on this disk
    append_number(record, count);
    append_number(record, size);
    append_number(record, directory_at);
    append_number(record, locator64_signature);
    append_number<std::uint32_t>(record, 0);  // disk of the record above
    append_number(record, end_at);
    append_number<std::uint32_t>(record, 1);  // number of disks
  }
  append_number(record, end_signature);
  append_number<std::uint16_t>(record, 0);
  append_number<std::uint16_t>(record, 0);
  const auto short_count = static_cast<std::uint16_t>(many ? 0xffff : count);
  append_number(record, short_count);
  append_number(record, short_count);
  append_number(record, long_directory ? elsewhere : static_cast<std::uint32_t>(size));
  append_number(record, far ? elsewhere : static_cast<std::uint32_t>(directory_at));
  append_number<std::uint16_t>(record, 0);  // comment
  sink_.write(record);
}

}  // namespace extensor::io
