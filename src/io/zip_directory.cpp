// Reads the directory of a zip archive. Every number in it is checked against the archive's size
// before it is used.
#include <algorithm>
#include <unordered_set>

#include "io/text.h"
#include "io/zip.h"
#include "io/zip_format.h"

namespace extensor::io {

using detail::message;

namespace {

// Enough for millions of entries. The limit bounds the memory that a malicious file can claim.
constexpr std::uint64_t longest_directory = std::uint64_t{1} << 28;

std::string read_text(const ByteSource& source, std::uint64_t offset, std::uint64_t size) {
  std::string text(static_cast<std::size_t>(size), '\0');
  source.read(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

// Position and expected contents of the central directory.
struct Directory {
  std::uint64_t count = 0, size = 0, offset = 0;
  std::uint64_t end = 0;  // offset of the first record after the directory
};

// Finds the end record in the last 64 KiB; its comment extends to the end of the archive.
Directory find_end(const ByteSource& source) {
  const std::string& label = source.label();
  const std::uint64_t size = source.size();
  const std::uint64_t tail_size = std::min<std::uint64_t>(size, end_size + 0xffff);
  const std::string tail = read_text(source, size - tail_size, tail_size);
  for (std::size_t at = tail.size() < end_size ? 0 : tail.size() - end_size + 1; at-- > 0;) {
    if (number_at<std::uint32_t>(tail, at) != end_signature) continue;
    if (at + end_size + number_at<std::uint16_t>(tail, at + 20) != tail.size()) continue;
    Directory directory;
    directory.count = number_at<std::uint16_t>(tail, at + 10);
    directory.size = number_at<std::uint32_t>(tail, at + 12);
    directory.offset = number_at<std::uint32_t>(tail, at + 16);
    directory.end = size - tail_size + at;
    if (number_at<std::uint32_t>(tail, at + 4) != 0 ||
        number_at<std::uint16_t>(tail, at + 8) != directory.count) {
      damaged(label, "is one of several disks (allowed: an archive as a whole)");
    }
    return directory;
  }
  damaged(label, "has no zip directory at its end: it is no npz file, or is cut off");
}

// Replaces the numbers that do not fit the end record by those of the zip64 record.
void widen(const ByteSource& source, Directory& directory) {
  const std::string& label = source.label();
  const bool asked =
      directory.count == 0xffff || directory.size == 0xffffffff || directory.offset == 0xffffffff;
  if (!asked || directory.end < locator64_size + end64_size) return;
  const std::uint64_t locator_at = directory.end - locator64_size;
  const std::string locator = read_text(source, locator_at, locator64_size);
  if (number_at<std::uint32_t>(locator, 0) != locator64_signature) return;
  const auto at = number_at<std::uint64_t>(locator, 8);
  if (at > locator_at - end64_size) {
    damaged(label, "its zip64 record is said to begin at byte ", at, " (allowed: at most ",
            locator_at - end64_size, ")");
  }
  const std::string record = read_text(source, at, end64_size);
  const auto length = number_at<std::uint64_t>(record, 4);
  if (number_at<std::uint32_t>(record, 0) != end64_signature || length != locator_at - at - 12) {
    damaged(label, "has no zip64 record at byte ", at, ", where it is said to be");
  }
  directory.count = number_at<std::uint64_t>(record, 32);
  directory.size = number_at<std::uint64_t>(record, 40);
  directory.offset = number_at<std::uint64_t>(record, 48);
  directory.end = at;
}

Directory find_directory(const ByteSource& source) {
  Directory directory = find_end(source);
  widen(source, directory);
  const auto [count, size, offset, end] = directory;
  if (size > longest_directory) {
    damaged(source.label(), "its directory is said to have ", size, " bytes (allowed: at most ",
            longest_directory, ")");
  }
  if (size > end || offset != end - size) {
    damaged(source.label(), "its directory is said to have ", size, " bytes from byte ", offset,
            " (allowed: to end at byte ", end, ")");
  }
  if (count > size / central_size) {
    damaged(source.label(), "its directory of ", size, " bytes is said to have ", count,
            " entries (allowed: at most ", size / central_size, ")");
  }
  return directory;
}

// Reads the 64-bit numbers of an entry whose 32-bit fields hold the zip64 marker.
void widen(const std::string& label, std::string_view extra, ZipEntry& entry) {
  std::vector<std::uint64_t*> wanted;
  for (std::uint64_t* number : {&entry.size, &entry.stored_size, &entry.header_at}) {
    if (*number == 0xffffffff) wanted.push_back(number);
  }
  while (extra.size() >= 4) {
    const auto field = number_at<std::uint16_t>(extra, 0);
    const std::size_t length = number_at<std::uint16_t>(extra, 2);
    if (length > extra.size() - 4) break;
    if (field == zip64_field) {
      if (length < 8 * wanted.size()) {
        damaged(label, "its zip64 field has ", length, " bytes (allowed: ", 8 * wanted.size(), ")");
      }
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        *wanted[i] = number_at<std::uint64_t>(extra, 4 + 8 * i);
      }
      return;
    }
    extra.remove_prefix(4 + length);
  }
}

// Parses one entry of the directory and advances `at` past it.
ZipEntry next_entry(const std::string& label, std::string_view records, std::size_t& at) {
  const std::size_t left = records.size() - at;
  const auto cut = [&] { damaged(label, "its directory is cut off at its byte ", at); };
  if (left < central_size) cut();
  const std::string_view record = records.substr(at);
  if (number_at<std::uint32_t>(record, 0) != central_signature) {
    damaged(label, "its directory has no entry at its byte ", at);
  }
  const std::size_t name = number_at<std::uint16_t>(record, 28);
  const std::size_t extra = number_at<std::uint16_t>(record, 30);
  const std::size_t comment = number_at<std::uint16_t>(record, 32);
  if (left - central_size < name + extra + comment) cut();
  ZipEntry entry;
  entry.name = record.substr(central_size, name);
  const std::string place = message(label, ": entry ", in_quotes(entry.name));
  if (const std::string_view fault = fault_of_name(entry.name); !fault.empty()) {
    damaged(place, "the name has ", fault);
  }
  if ((number_at<std::uint16_t>(record, 8) & encrypted_flag) != 0) {
    damaged(place, "is encrypted (allowed: plain)");
  }
  const auto method = number_at<std::uint16_t>(record, 10);
  if (method != stored_method && method != deflated_method) {
    damaged(place, "compression method ", method, " (allowed: 0, stored, and 8, deflate)");
  }
  entry.deflated = method == deflated_method;
  entry.crc = number_at<std::uint32_t>(record, 16);
  entry.stored_size = number_at<std::uint32_t>(record, 20);
  entry.size = number_at<std::uint32_t>(record, 24);
  entry.header_at = number_at<std::uint32_t>(record, 42);
  widen(place, record.substr(central_size + name, extra), entry);
  if (!entry.deflated && entry.size != entry.stored_size) {
    damaged(place, "is stored with ", entry.stored_size, " bytes, and said to have ", entry.size);
  }
  // Deflate expands one byte to at most 1032.
  if (entry.deflated && entry.size / 1032 > entry.stored_size) {
    damaged(place, "is said to have ", entry.size, " bytes, more than ", entry.stored_size,
            " compressed ones can make");
  }
  at += central_size + name + extra + comment;
  return entry;
}

// Finds the data after the local header, which must agree with the directory's entry.
void locate(const ByteSource& source, std::uint64_t directory_at, ZipEntry& entry) {
  const std::string place = message(source.label(), ": entry ", in_quotes(entry.name));
  if (directory_at < local_size || entry.header_at > directory_at - local_size) {
    damaged(place, "is said to begin at byte ", entry.header_at, ", the directory begins at ",
            directory_at);
  }
  const std::string header = read_text(source, entry.header_at, local_size);
  const std::size_t name = number_at<std::uint16_t>(header, 26);
  const std::size_t extra = number_at<std::uint16_t>(header, 28);
  const auto method = number_at<std::uint16_t>(header, 8);
  const std::uint64_t left = directory_at - entry.header_at - local_size;
  if (number_at<std::uint32_t>(header, 0) != local_signature || name + extra > left ||
      (method == deflated_method) != entry.deflated ||
      read_text(source, entry.header_at + local_size, name) != entry.name) {
    damaged(place, "what lies at byte ", entry.header_at, " is not the entry of the directory");
  }
  entry.data_at = entry.header_at + local_size + name + extra;
  if (entry.stored_size > left - name - extra) {
    damaged(place, "is said to have ", entry.stored_size, " bytes (allowed: at most the ",
            left - name - extra, " up to the directory)");
  }
}

}  // namespace

std::vector<ZipEntry> read_zip_directory(const ByteSource& source) {
  const std::string& label = source.label();
  const Directory directory = find_directory(source);
  const std::string records = read_text(source, directory.offset, directory.size);
  std::vector<ZipEntry> entries;
  std::unordered_set<std::string> names;
  std::size_t at = 0;
  for (std::uint64_t i = 0; i < directory.count; ++i) {
    ZipEntry entry = next_entry(label, records, at);
    if (!names.insert(entry.name).second) {
      damaged(label, "entry ", in_quotes(entry.name), " is there twice (allowed: every name once)");
    }
    locate(source, directory.offset, entry);
    entries.push_back(std::move(entry));
  }
  if (at != records.size()) {
    damaged(label, "its directory has ", records.size() - at, " bytes behind the last of its ",
            directory.count, " entries");
  }
  // Refuse overlapping entries: a small archive could unpack to a huge size (a zip bomb).
  std::vector<const ZipEntry*> sorted;
  sorted.reserve(entries.size());
  for (const ZipEntry& entry : entries) sorted.push_back(&entry);
  std::ranges::sort(sorted, {}, [](const ZipEntry* entry) { return entry->header_at; });
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i]->header_at < sorted[i - 1]->data_at + sorted[i - 1]->stored_size) {
      damaged(label, "entries ", in_quotes(sorted[i - 1]->name), " and ",
              in_quotes(sorted[i]->name), " overlap");
    }
  }
  return entries;
}

}  // namespace extensor::io
