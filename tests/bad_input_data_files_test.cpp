// Malformed data files.
#include <sys/stat.h>

#include "data/cifar.h"
#include "data/csv.h"
#include "data/idx.h"
#include "data/image_file.h"
#include "support/child_process.h"
#include "support/data_files.h"
#include "support/faulty_files.h"
#include "support/files.h"

namespace {

using namespace extensor;
using test_support::expect_error;
using test_support::FaultyFiles;
using test_support::gzip_of;
using test_support::idx_file;
using test_support::little_endian;
using test_support::PngFile;
using test_support::source_of;
using test_support::TemporaryDirectory;
using test_support::write_file;

// A small file of each kind, and its reader.
struct Kind {
  std::string name, file;
  std::function<Tensor(const io::ByteSource&)> read;
};

Tensor read_cifar(const io::ByteSource& source) {
  const io::ByteSource* only = &source;
  return io::read_cifar({&only, 1}, io::cifar10).images;
}
Tensor read_image(const io::ByteSource& source) { return io::read_image(source); }
Tensor read_csv(const io::ByteSource& source) {
  return io::read_csv(source, {.separator = ',', .header = true}).values;
}

// The last byte of each file is required, so that no prefix is valid.
std::vector<Kind> kinds() {
  const std::string idx = idx_file(12, {2, 3}, "abcdefghijklmnopqrstuvwx");
  PngFile png{.width = 5, .height = 4, .depth = 4, .colour = 3};
  png.chunk = 11;
  for (int i = 0; i < 20; ++i) png.samples.push_back(i % 3);
  png.before = test_support::png_chunk("PLTE", "abcdefghi") + test_support::png_chunk("tRNS", "xy");
  PngFile interlaced = png;
  interlaced.interlaced = true;
  return {{"idx", idx, io::read_idx},
          {"gzip", gzip_of(idx, 31), io::read_idx},
          {"gzip of two members", gzip_of(idx.substr(0, 9)) + gzip_of(idx.substr(9)), io::read_idx},
          {"cifar", std::string(3073, '\1'), read_cifar},
          {"csv", "a,\"b\"\n1.5,2\n3,\"4\"", read_csv},
          {"png", png.file(), read_image},
          {"png, interlaced", interlaced.file(), read_image},
          {"pgm", "P5 3 2 255 abcdef", read_image},
          {"pgm, text", "P2 2 2 9 1 2 3 4", read_image},
          {"ppm", "P6 1 2 65535 abcdefghijkl", read_image}};
}

CHILD_TEST(BadInputDataFiles, Item80TruncationAtEveryByte) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    EXPECT_NO_THROW(kind.read(source_of("load", kind.file)));
    std::vector<std::size_t> read;
    for (std::size_t size = 0; size < kind.file.size(); ++size) {
      const std::string file = kind.file.substr(0, size);
      try {
        kind.read(source_of("load", file));
        read.push_back(size);
      } catch (const FormatError& error) {
        EXPECT_EQ(std::string(error.what()).substr(0, 6), "load: ") << error.what();
      }
    }
    // A prefix of a table with whole cells or lines is a valid table.
    const std::vector<std::size_t> tables = {1, 2, 5, 6, 10, 11, 12, 14};
    EXPECT_EQ(read, kind.name == "csv" ? tables : std::vector<std::size_t>());
  }
}

// Detected damage is a FormatError; an image with a checksum is read correctly or rejected.
CHILD_TEST(BadInputDataFiles, Item80EveryByteFlipped) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    int refused = 0;
    for (std::size_t at = 0; at < std::min<std::size_t>(kind.file.size(), 400); ++at) {
      for (const int change : {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff}) {
        std::string file = kind.file;
        file[at] = static_cast<char>(file[at] ^ change);
        try {
          kind.read(source_of("load", file));
          // Signature, header, palette and pixels are all covered by a CRC.
          EXPECT_FALSE(kind.name.starts_with("png")) << at;
        } catch (const FormatError&) {
          ++refused;
        }
      }
    }
    EXPECT_GE(refused, 5);
  }
}

CHILD_TEST(BadInputDataFiles, Item89IdxWithLyingDimensions) {
  const auto expect_damaged = [](const std::string& file, const std::vector<std::string>& parts) {
    expect_error<FormatError>([&] { io::read_idx(source_of("load_idx: 'file'", file)); }, parts);
  };
  const std::string elements(24, 'x');
  for (const std::string& good : {idx_file(8, {2, 3, 4}, elements), idx_file(14, {3}, elements)}) {
    EXPECT_NO_THROW(io::read_idx(source_of("file", good)));
    EXPECT_NO_THROW(io::read_idx(source_of("file", gzip_of(good))));
  }
  const std::uint32_t most = 0xffffffff;
  struct Lie {
    std::string file;
    std::vector<std::string> parts;
  };
  const std::vector<Lie> lies = {
      // Too large for the file and for any memory.
      {idx_file(8, {2, 3, 5}, elements), {"24 bytes of elements", "[2, 3, 5]", "needs 30"}},
      {idx_file(8, {25}, elements), {"24 bytes of elements", "needs 25"}},
      {idx_file(14, {4}, elements), {"24 bytes of elements", "float64", "needs 32"}},
      // Products that overflow to the actual size, or to 0.
      {idx_file(8, {0x80000000, 0x80000000, 4}, ""), {"overflows"}},
      {idx_file(14, {0x80000000, 0x40000000}, ""), {"overflows"}},
      {idx_file(8, {most, most, most}, elements), {"overflows"}},
      {idx_file(8, {0, most, most, most}, ""), {"overflows"}},
      {idx_file(8, std::vector<std::uint32_t>(65, 1), "x"), {"65"}},
      {idx_file(8, std::vector<std::uint32_t>(255, most), "x"), {}},
      // More dimensions than bytes.
      {idx_file(8, {}, elements).replace(3, 1, "\x9"), {"dimensions"}},
      // Not an element type.
      {idx_file(10, {24}, elements), {"kind 10", "8 uint8"}},
      {idx_file(0, {24}, elements), {"kind 0"}}};
  for (const Lie& lie : lies) {
    std::vector<std::string> parts = lie.parts;
    parts.emplace_back("load_idx: 'file'");
    expect_damaged(lie.file, parts);
    expect_damaged(gzip_of(lie.file), parts);
  }
  // Too small: elements are left over.
  for (const std::vector<std::uint32_t>& shape :
       {std::vector<std::uint32_t>{2, 3, 3}, {23}, {0}, {0, 5}, {}}) {
    expect_damaged(idx_file(8, shape, elements), {"24 bytes of elements", "needs"});
    expect_damaged(gzip_of(idx_file(8, shape, elements)), {"has more than the"});
  }
  expect_damaged(idx_file(8, {24}, elements) + "x", {"25 bytes of elements", "needs 24"});
  expect_damaged(gzip_of(idx_file(8, {24}, elements)) + "x", {"compressed data is"});
  expect_damaged(gzip_of(idx_file(8, {24}, elements)) + gzip_of("x"), {"more than the 24 bytes"});
  // A petabyte: rejected before any allocation.
  expect_damaged(idx_file(8, {1U << 25, 1U << 25}, elements), {"needs 1125899906842624"});
  expect_damaged(gzip_of(idx_file(8, {1U << 25, 1U << 25}, elements)),
                 {"needs 1125899906842624", "compressed", "at most"});
  expect_damaged("PK\3\4", {"begins with 80, 75", "IDX", "gzip"});
}

// Sizes that are plausible are checked against the actual data: memory grows with it.
CHILD_TEST(BadInputDataFiles, Item89MemoryGrowsWithWhatIsThere) {
  const std::uint32_t claimed = 200 << 20;
  std::string noise;
  std::uint32_t state = 1;
  for (int i = 0; i < 400'000; ++i)
    noise += static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  const std::string file = gzip_of(idx_file(8, {claimed}, noise));
  ASSERT_GT(file.size() * 1032, claimed);
  set_memory_limit(memory_stats().allocated_bytes + (8 << 20));
  expect_error<FormatError>([&] { io::read_idx(source_of("load_idx: 'file'", file)); },
                            {"400000 bytes of elements", "needs 209715200"});
  set_memory_limit(0);
}

CHILD_TEST(BadInputDataFiles, Item90ShrunkWhileBeingRead) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "file";
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    write_file(path, kind.file);
    FaultyFiles files;
    files.before_pread = [&] { std::filesystem::resize_file(path, 1); };
    expect_error<IoError>([&] { kind.read(io::FileSource("load", path, files)); },
                          {"load", path.string(), "ended at byte", "bytes when it was opened"});
  }
}

CHILD_TEST(BadInputDataFiles, Item91NotARegularFile) {
  const TemporaryDirectory directory;
  const std::filesystem::path fifo = directory / "fifo", folder = directory / "folder";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  std::filesystem::create_directory(folder);
  const std::vector<std::pair<std::filesystem::path, std::string>> places = {
      {fifo, "a FIFO"}, {folder, "a directory"}, {"/dev/zero", "a device"}};
  const Tensor image = zeros({2, 2}, uint8);
  for (const auto& place : places) {
    const auto& [path, kind] = place;
    expect_error<IoError>([&] { data::load_idx(place.first); },
                          {"load_idx", path.string(), kind, "regular file"});
    expect_error<IoError>([&] { data::load_csv(place.first); }, {"load_csv", path.string(), kind});
    expect_error<IoError>([&] { data::load_image(place.first); },
                          {"load_image", path.string(), kind});
    expect_error<IoError>([&] { data::save_png(place.first, image); }, {"save_png", kind}, {image});
    // Also as one of the files of a directory.
    const TemporaryDirectory set;
    for (const char* name :
         {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
          "t10k-labels-idx1-ubyte", "data_batch_1.bin", "train.bin"}) {
      std::filesystem::create_symlink(path, set / name);
    }
    expect_error<IoError>([&] { data::load_mnist(set.path()); }, {"load_mnist", kind});
    expect_error<IoError>([&] { data::load_fashion_mnist(set.path()); },
                          {"load_fashion_mnist", kind});
    expect_error<IoError>([&] { data::load_cifar10(set.path()); }, {"load_cifar10", kind});
    expect_error<IoError>([&] { data::load_cifar100(set.path()); }, {"load_cifar100", kind});
  }
  expect_error<IoError>([&] { data::load_idx(directory / "none"); },
                        {"load_idx", "none", "No such file or directory"});
  expect_error<ValueError>([&] { data::load_image(directory / std::string_view("a\0b", 3)); },
                           {"load_image", "NUL"});
  EXPECT_EQ(directory.names(), (std::vector<std::string>{"fifo", "folder"}));
}

CHILD_TEST(BadInputDataFiles, Item92EveryReadFailsOnce) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "file";
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    write_file(path, kind.file);
    const Tensor expected = kind.read(source_of("load", kind.file));
    int failures = 0;
    for (int failing = 0;; ++failing) {
      FaultyFiles files;
      files.failing = failing;
      files.most = 7;
      files.interrupts = true;
      try {
        test_support::expect_same(kind.read(io::FileSource("load", path, files)), expected);
        break;
      } catch (const IoError& error) {
        EXPECT_NE(std::string(error.what()).find("Input/output error"), std::string::npos);
        ++failures;
      }
    }
    EXPECT_GT(failures, 3);
  }
}

CHILD_TEST(BadInputDataFiles, Item93GzipBomb) {
  const auto expect_damaged = [](const std::string& file, const std::vector<std::string>& parts) {
    expect_error<FormatError>([&] { io::read_idx(source_of("load_idx: 'file'", file)); }, parts);
  };
  set_memory_limit(memory_stats().allocated_bytes + (4 << 20));
  // Twenty megabytes after a small header, in one member and in many.
  const std::string bomb(20 << 20, '\0'), small = idx_file(8, {1000}, "");
  expect_damaged(gzip_of(small + bomb), {"load_idx: 'file'", "more than the 1000 bytes"});
  const std::string part = gzip_of(bomb.substr(0, 1 << 20));
  std::string many = gzip_of(small);
  for (int i = 0; i < 1000; ++i) many += part;
  expect_damaged(many, {"more than the 1000 bytes"});
  // A header that such a bomb could satisfy, but that exceeds the memory.
  const std::string large = gzip_of(idx_file(8, {20 << 20}, bomb));
  expect_error<OutOfMemoryError>([&] { io::read_idx(source_of("load_idx: 'file'", large)); },
                                 {"load_idx: 'file'"});
  set_memory_limit(0);
  EXPECT_EQ(io::read_idx(source_of("load_idx: 'file'", large)).numel(), 20 << 20);
  // Nested gzip is not expanded.
  expect_damaged(gzip_of(gzip_of(small)), {"begins with 31, 139"});
  // An image with more pixels than its bytes can hold, and one whose bytes hold more.
  PngFile png{.width = 100, .height = 100};
  png.samples.assign(10'000, 0);
  const auto expect_no_picture = [](const std::string& file,
                                    const std::vector<std::string>& parts) {
    expect_error<FormatError>([&] { io::read_image(source_of("load_image: 'file'", file)); },
                              parts);
  };
  expect_no_picture(png.with_data(PngFile::zlib_of(bomb)), {"more pixels than its 100 × 100"});
  const std::string little = PngFile::zlib_of(std::string(1000, '\0'));
  png.width = png.height = 1 << 20;
  expect_no_picture(png.with_data(little), {"1048576 wide", "cannot hold"});
}

// The size and checksum in a gzip trailer are compared with the data.
CHILD_TEST(BadInputDataFiles, Item93GzipThatLies) {
  const std::string idx = idx_file(8, {100}, std::string(100, 'x')), good = gzip_of(idx, 2);
  const auto expect_damaged = [](const std::string& file, const std::string& part) {
    expect_error<FormatError>([&] { io::read_idx(source_of("load_idx: 'file'", file)); },
                              {"load_idx: 'file'", part});
  };
  const auto with = [&](std::size_t at, char change) {
    std::string file = good;
    file[at] = static_cast<char>(file[at] ^ change);
    return file;
  };
  EXPECT_NO_THROW(io::read_idx(source_of("file", good)));
  expect_damaged(with(2, 1), "unknown compression method");
  expect_damaged(with(3, 0x20), "unknown header flags");
  expect_damaged(with(5, 1), "header crc");
  expect_damaged(with(good.size() - 8, 1), "incorrect data check");
  expect_damaged(with(good.size() - 1, 1), "incorrect length check");
  expect_damaged(good + good.substr(0, 5), "cut off");
  expect_damaged(good + "garbage", "incorrect header check");
}

}  // namespace
