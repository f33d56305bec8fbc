// Malformed zip archives and npz files.
#include "io/npz.h"
#include "support/archive.h"
#include "support/child_process.h"
#include "support/files.h"

namespace {

using namespace extensor;
using test_support::Archive;
using test_support::deflated;
using test_support::Entry;
using test_support::expect_error;
using test_support::npy;
using test_support::npy_of;
using test_support::text_of;

NamedTensors read_npz(const std::string& file) {
  return io::read_npz(io::MemorySource("load_npz: 'file'", std::as_bytes(std::span(file))));
}

void expect_npz_error(const std::string& file, std::vector<std::string> parts) {
  parts.emplace_back("load_npz: 'file'");
  expect_error<FormatError>([&] { read_npz(file); }, parts);
}

CHILD_TEST(BadInputArchives, Item93CompressionBomb) {
  const std::string array = npy_of(zeros({1000}, float64));
  const Entry honest = Entry::compressed("x.npy", array);
  EXPECT_NO_THROW(read_npz(Archive({honest}).file));
  // More data than declared.
  Entry lying = honest;
  lying.data = deflated(npy_of(zeros({1000}, float64)) + std::string(1 << 24, '\0'));
  expect_npz_error(Archive({lying}).file, {"'x.npy'", "more data"});
  // Less data than declared.
  lying.data = deflated(array.substr(0, 500));
  expect_npz_error(Archive({lying}).file, {"'x.npy'", "too early"});
  // A size that no file this short can have: rejected before any allocation.
  lying = honest;
  lying.size = 0xfffffff0;
  expect_npz_error(Archive({lying}).file, {"'x.npy'", "4294967280 bytes", "compressed"});
  lying.size = 0xffffffff;
  io::append_number<std::uint16_t>(lying.extra, 1);
  io::append_number<std::uint16_t>(lying.extra, 8);
  io::append_number<std::uint64_t>(lying.extra, std::uint64_t{1} << 60);
  expect_npz_error(Archive({lying}).file, {"'x.npy'", "1152921504606846976 bytes", "compressed"});
  lying.extra.resize(8);
  expect_npz_error(Archive({lying}).file, {"'x.npy'"});
  // A shape that is larger than the entry.
  const std::string petabyte =
      npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1125899906842624,)}", "");
  expect_npz_error(Archive({Entry::compressed("x.npy", petabyte)}).file,
                   {"needs 1125899906842624"});
  // The same data under many names.
  std::vector<Entry> many(1000, honest);
  expect_npz_error(Archive(many, true).file, {"twice"});
  // Sizes that the format allows are still limited by the memory.
  const std::string head = npy_of(zeros({1 << 16}, float64)).substr(0, 128);
  const Archive large({Entry::compressed("x.npy", head + std::string(8 << 16, '\0'))});
  set_memory_limit(memory_stats().allocated_bytes + (1 << 16));
  expect_error<OutOfMemoryError>([&] { read_npz(large.file); },
                                 {"load_npz: 'file': entry 'x.npy'"});
  set_memory_limit(0);
  EXPECT_EQ(read_npz(large.file)[0].second.numel(), 1 << 16);
}

// Other inconsistencies of an archive.
CHILD_TEST(BadInputArchives, Item93ArchivesThatLie) {
  const std::string array = npy_of(ones({4}));
  const Archive good({Entry::stored("x.npy", array), Entry::compressed("y.npy", array)});
  EXPECT_EQ(read_npz(good.file).size(), 2U);
  const std::size_t first = good.directory, second = first + io::central_size + 5;
  expect_npz_error(good.with<std::uint16_t>(first + 8, 1), {"'x.npy'", "encrypted"});
  expect_npz_error(good.with<std::uint16_t>(first + 10, 12), {"'x.npy'", "method 12"});
  expect_npz_error(good.with<std::uint16_t>(first + 10, 8), {"'x.npy'", "not the entry"});
  expect_npz_error(good.with<std::uint32_t>(first + 16, 7), {"'x.npy'", "CRC-32", "says 7"});
  expect_npz_error(good.with<std::uint32_t>(second + 16, 7), {"'y.npy'", "CRC-32", "says 7"});
  expect_npz_error(good.with<std::uint32_t>(first + 20, 7), {"'x.npy'", "stored with 7 bytes"});
  expect_npz_error(good.with<std::uint32_t>(second + 20, 7), {"'y.npy'", "cut off"});
  expect_npz_error(good.with<std::uint32_t>(second + 20, 1 << 30), {"'y.npy'", "at most"});
  expect_npz_error(good.with<std::uint16_t>(first + 28, 0xffff), {"cut off"});
  expect_npz_error(good.with<std::uint16_t>(first + 30, 0xffff), {"cut off"});
  expect_npz_error(good.with<std::uint32_t>(first + 42, 1), {"'x.npy'", "not the entry"});
  expect_npz_error(good.with<std::uint32_t>(first + 42, 0xfffffff0), {"'x.npy'", "begin at byte"});
  expect_npz_error(good.with<std::uint32_t>(first, 0), {"no entry"});
  expect_npz_error(good.with<std::uint32_t>(0, 0), {"'x.npy'", "not the entry"});
  expect_npz_error(good.with<std::uint16_t>(26, 0xffff), {"'x.npy'", "not the entry"});
  expect_npz_error(good.with<char>(30, 'z'), {"'x.npy'", "not the entry"});
  const std::size_t end = good.end;
  expect_npz_error(good.with<std::uint16_t>(end + 4, 1), {"disks"});
  expect_npz_error(good.with<std::uint32_t>(end + 8, 0x00010001),
                   {"behind the last of its 1 entries"});
  expect_npz_error(good.with<std::uint32_t>(end + 8, 0x00030003), {"3 entries"});
  expect_npz_error(good.with<std::uint32_t>(end + 8, 0xffffffff), {"65535 entries"});
  expect_npz_error(good.with<std::uint32_t>(end + 12, 0), {"directory", "0 bytes"});
  expect_npz_error(good.with<std::uint32_t>(end + 12, 0xffffffff), {"directory"});
  expect_npz_error(good.with<std::uint32_t>(end + 16, 0), {"directory"});
  expect_npz_error(good.with<std::uint32_t>(end + 16, 0xffffffff), {"directory"});
  expect_npz_error(good.with<std::uint16_t>(end + 20, 1), {"no zip directory"});
  expect_npz_error(Archive({Entry::stored("readme.txt", "hello")}).file, {"'readme.txt'", ".npy"});
  expect_npz_error(Archive({Entry::stored("folder/", "")}).file, {"'folder/'", ".npy"});
  Entry spoilt = Entry::compressed("x.npy", array);
  spoilt.data[0] = '\x07';
  expect_npz_error(Archive({spoilt}).file, {"'x.npy'", "compressed data is wrong"});
  Entry behind = Entry::compressed("x.npy", array);
  behind.data += "xx";
  expect_npz_error(Archive({behind}).file, {"'x.npy'", "2 bytes behind"});

  io::MemorySink sink;
  io::write_npz(sink, {{"x", ones({4})}}, {.most_bytes = 0, .most_entries = 0});
  const std::string wide = text_of(sink);
  EXPECT_EQ(read_npz(wide).size(), 1U);
  const std::size_t locator = wide.size() - io::end_size - io::locator64_size;
  const std::size_t record = locator - io::end64_size;
  const auto changed = [&](std::size_t at, std::uint64_t value) {
    std::string file = wide;
    std::memcpy(file.data() + at, &value, sizeof(value));
    return file;
  };
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{1} << 40, UINT64_MAX}) {
    expect_npz_error(changed(locator + 8, value), {"zip64 record"});
    expect_npz_error(changed(record + 4, value), {"zip64 record"});
    expect_npz_error(changed(record + 32, value), {"entries"});
    expect_npz_error(changed(record + 40, value), {"directory"});
    expect_npz_error(changed(record + 48, value), {"directory"});
  }
}

// A central directory as large as a sparse file: none of it is read.
CHILD_TEST(BadInputArchives, Item93ADirectoryAsLargeAsTheFile) {
  const test_support::TemporaryDirectory directory;
  const std::filesystem::path path = directory / "sparse.npz";
  const std::uint64_t size = std::uint64_t{1} << 40;
  test_support::write_file(path, "");
  std::error_code error;
  std::filesystem::resize_file(path, size, error);
  if (error) GTEST_SKIP() << "no sparse files here: " << error.message();
  std::string end;
  io::append_number(end, io::end64_signature);
  io::append_number<std::uint64_t>(end, io::end64_size - 12);
  end.append(12, '\0');
  io::append_number<std::uint64_t>(end, size / 100);  // entries on this disk
  io::append_number<std::uint64_t>(end, size / 100);
  io::append_number<std::uint64_t>(end, size);  // bytes
  io::append_number<std::uint64_t>(end, 0);     // offset
  io::append_number(end, io::locator64_signature);
  io::append_number<std::uint32_t>(end, 0);
  io::append_number(end, size);
  io::append_number<std::uint32_t>(end, 1);
  io::append_number(end, io::end_signature);
  io::append_number<std::uint32_t>(end, 0);
  io::append_number<std::uint32_t>(end, 0xffffffff);
  io::append_number<std::uint64_t>(end, UINT64_MAX);
  io::append_number<std::uint16_t>(end, 0);
  std::ofstream(path, std::ios::binary | std::ios::app) << end;
  expect_error<FormatError>([&] { load_npz(path); },
                            {"load_npz", "directory", "1099511627776 bytes", "at most"});
}

}  // namespace
