// Malformed tensor files. bad_input_archives_test covers zip archives.
#include <sys/stat.h>

#include "io/atomic_file.h"
#include "io/npy.h"
#include "io/npz.h"
#include "io/safetensors.h"
#include "io/zip_format.h"
#include "support/archive.h"
#include "support/child_process.h"
#include "support/faulty_files.h"
#include "support/files.h"

namespace {

using namespace extensor;
using test_support::Archive;
using test_support::Entry;
using test_support::expect_error;
using test_support::FaultyFiles;
using test_support::npy;
using test_support::npy_of;
using test_support::read_file;
using test_support::TemporaryDirectory;
using test_support::text_of;
using test_support::write_file;

// ---- files in memory ----------------------------------------------------------------------------

std::string with_length(const std::string& header, const std::string& data = "") {
  std::string file;
  io::append_number<std::uint64_t>(file, header.size());
  return file + header + data;
}

// The header entry of one tensor.
std::string line(const std::string& name, const std::string& dtype, const std::string& shape,
                 const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

Safetensors read_safetensors(const std::string& file) {
  return io::read_safetensors(
      io::MemorySource("load_safetensors: 'file'", std::as_bytes(std::span(file))));
}

NamedTensors read_npy(const std::string& file) {
  const io::MemorySource source("load_npy: 'file'", std::as_bytes(std::span(file)));
  io::SourceStream stream(source);
  return {{"", io::read_npy(stream)}};
}

NamedTensors read_npz(const std::string& file) {
  return io::read_npz(io::MemorySource("load_npz: 'file'", std::as_bytes(std::span(file))));
}

void expect_safetensors_error(const std::string& file, std::vector<std::string> parts) {
  parts.emplace_back("load_safetensors: 'file'");
  expect_error<FormatError>([&] { read_safetensors(file); }, parts);
}
void expect_npy_error(const std::string& file, std::vector<std::string> parts) {
  parts.emplace_back("load_npy: 'file'");
  expect_error<FormatError>([&] { read_npy(file); }, parts);
}
void expect_npz_error(const std::string& file, std::vector<std::string> parts) {
  parts.emplace_back("load_npz: 'file'");
  expect_error<FormatError>([&] { read_npz(file); }, parts);
}

// A small file of each kind, and its reader.
struct Kind {
  std::string name, file;
  std::function<NamedTensors(const std::string&)> read;
  bool checks_data;  // detects a changed element
};

std::vector<Kind> kinds() {
  const NamedTensors sample = {
      {"w", arange(6, float32).reshape({2, 3})}, {"n", arange(2)}, {"t", tensor({true, false})}};
  io::MemorySink safetensors, npz, npz64;
  io::write_safetensors(safetensors, sample, {{"k", "v"}});
  io::write_npz(npz, sample);
  io::write_npz(npz64, sample, {.most_bytes = 0, .most_entries = 0});
  const auto read = [](const std::string& file) { return read_safetensors(file).tensors; };
  return {{"safetensors", text_of(safetensors), read, false},
          {"npy", npy_of(sample[0].second), read_npy, false},
          {"npz", text_of(npz), read_npz, true},
          {"npz, zip64", text_of(npz64), read_npz, true},
          {"npz, compressed", Archive({Entry::compressed("x.npy", npy_of(arange(50)))}).file,
           read_npz, true}};
}

// ---- the tests

CHILD_TEST(BadInputFiles, Item80TruncationAtEveryByte) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    EXPECT_NO_THROW(kind.read(kind.file));
    for (std::size_t size = 0; size < kind.file.size(); ++size) {
      EXPECT_THROW(kind.read(kind.file.substr(0, size)), FormatError) << size;
    }
  }
  const TemporaryDirectory directory;
  save_safetensors(directory / "x", {{"w", ones({3})}});
  std::filesystem::resize_file(directory / "x", 50);
  for (const bool mmap : {false, true}) {
    expect_error<FormatError>([&] { load_safetensors(directory / "x", {.mmap = mmap}); },
                              {"load_safetensors", (directory / "x").string(), "header"});
  }
}

// Not every flipped bit can be detected, for example in a name. But none may do harm.
CHILD_TEST(BadInputFiles, Item80EveryByteFlipped) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    const NamedTensors right = kind.read(kind.file);
    int refused = 0, read = 0;
    for (std::size_t at = 0; at < kind.file.size(); ++at) {
      for (const int change : {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff}) {
        std::string file = kind.file;
        file[at] = static_cast<char>(file[at] ^ change);
        try {
          const NamedTensors tensors = kind.read(file);
          ++read;
          ASSERT_EQ(tensors.size(), right.size());
          for (std::size_t i = 0; kind.checks_data && i < tensors.size(); ++i) {
            test_support::expect_same(tensors[i].second, right[i].second);
          }
        } catch (const FormatError&) {
          ++refused;
        }
      }
    }
    EXPECT_GT(refused, 100);
    EXPECT_GT(read, 10);
  }
}

CHILD_TEST(BadInputFiles, Item81HeaderLength) {
  for (const std::uint64_t length : {UINT64_MAX, UINT64_MAX - 7, std::uint64_t{1} << 63,
                                     std::uint64_t{100'000'001}, std::uint64_t{3}}) {
    std::string file;
    io::append_number(file, length);
    expect_safetensors_error(file + "{}",
                             {"header's length is " + std::to_string(length), "at most"});
  }
  expect_safetensors_error(std::string(8, '\0'), {"header"});
  // A header that fits the file but exceeds the length that the format allows.
  const TemporaryDirectory directory;
  write_file(directory / "x", with_length(std::string(100'000'001, ' ')).substr(0, 10));
  std::filesystem::resize_file(directory / "x", 200'000'000);
  expect_error<FormatError>([&] { load_safetensors(directory / "x"); },
                            {"header's length is 100000001", "at most 100000000"});
  std::string wide("\x93NUMPY\2\0\xff\xff\xff\xff", 12);
  expect_npy_error(wide + std::string(100'000, ' '), {"header's length is 4294967295", "at most"});
}

CHILD_TEST(BadInputFiles, Item82NestedDeeply) {
  const std::size_t depth = 100'000;
  std::string objects = "{\"a\":";
  for (std::size_t i = 0; i < depth; ++i) objects += "{\"a\":";
  expect_safetensors_error(with_length(objects), {"'a'", "unknown key 'a'"});
  expect_safetensors_error(with_length("{\"a\":" + std::string(depth, '[')), {"'a'", "an array"});
  const std::string shape = std::string(depth, '[') + std::string(depth, ']');
  expect_safetensors_error(with_length("{" + line("a", "F32", shape, "[0,0]") + "}"),
                           {"tensor 'a'", "shape", "an array"});
  expect_safetensors_error(
      with_length("{\"__metadata__\":{\"k\":" + std::string(depth, '[') + "}}"),
      {"__metadata__", "'k'", "an array", "a string"});
  expect_npy_error(
      npy("{'descr': '<f4', 'fortran_order': False, 'shape': " + std::string(50'000, '(') + "}",
          ""),
      {"header"});
}

CHILD_TEST(BadInputFiles, Item83DuplicateKeys) {
  const std::string a = line("a", "U8", "[1]", "[0,1]"), b = line("a", "U8", "[1]", "[1,2]");
  expect_safetensors_error(with_length("{" + a + "," + b + "}", "xy"), {"'a'", "twice"});
  expect_safetensors_error(with_length("{" + a + "," + a + "}", "x"), {"'a'", "twice"});
  expect_safetensors_error(
      with_length("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}",
                  "x"),
      {"tensor 'a'", "dtype", "twice"});
  expect_safetensors_error(with_length("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}"),
                           {"__metadata__", "'k'", "twice"});
  expect_safetensors_error(with_length("{\"__metadata__\":{},\"__metadata__\":{}}"),
                           {"__metadata__", "twice"});
  expect_npy_error(
      npy("{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': ()}", "x"),
      {"'descr'", "twice"});
  const Entry entry = Entry::stored("x.npy", npy_of(ones({2})));
  EXPECT_NO_THROW(read_npz(Archive({entry}).file));
  expect_npz_error(Archive({entry, entry}).file, {"'x.npy'", "twice"});

  const TemporaryDirectory directory;
  const Tensor x = ones({2});
  expect_error<ValueError>(
      [&] {
        save_safetensors(directory / "x", {{"a", x}, {"a", x}});
      },
      {"save_safetensors", "'a'", "twice"}, {x});
  expect_error<ValueError>(
      [&] {
        save_npz(directory / "x", {{"a", x}, {"a", x}});
      },
      {"save_npz", "'a'", "twice"}, {x});
  EXPECT_TRUE(directory.names().empty());
}

CHILD_TEST(BadInputFiles, Item84OverlappingGappedOrTrailingData) {
  const auto two = [](const char* first, const char* second) {
    return with_length(
        "{" + line("a", "U8", "[4]", first) + "," + line("b", "U8", "[4]", second) + "}",
        "12345678");
  };
  EXPECT_NO_THROW(read_safetensors(two("[0,4]", "[4,8]")));
  EXPECT_NO_THROW(read_safetensors(two("[4,8]", "[0,4]")));
  expect_safetensors_error(two("[0,4]", "[3,7]"), {"'b'", "begins at byte 3", "overlap"});
  expect_safetensors_error(two("[0,4]", "[0,4]"), {"'b'", "begins at byte 0", "overlap"});
  expect_safetensors_error(two("[0,4]", "[5,9]"), {"'b'", "begins at byte 5", "gap"});
  expect_safetensors_error(two("[1,5]", "[5,9]"), {"'a'", "begins at byte 1", "gap"});
  expect_safetensors_error(two("[0,4]", "[4,8]") + "9", {"8", "9", "left over"});
  expect_safetensors_error(two("[0,4]", "[18446744073709551611,18446744073709551615]"),
                           {"'b'", "gap"});
  expect_safetensors_error(with_length("{}", "x"), {"left over"});
  expect_safetensors_error(with_length("{} x"), {"JSON"});
  expect_safetensors_error(with_length(std::string("{}\0x", 4)), {"NUL"});
  expect_safetensors_error(with_length("\xef\xbb\xbf{}"), {"begins"});

  expect_npy_error(npy_of(ones({2})) + "x", {"9 bytes", "needs 8"});
  const std::string array = npy_of(ones({2}));
  expect_npz_error(Archive({Entry::stored("x.npy", array + "x")}).file,
                   {"'x.npy'", "9 bytes", "needs 8"});
  const Archive shared({Entry::stored("x.npy", array), Entry::stored("x.npz", array)}, true);
  expect_npz_error(shared.file, {"not the entry"});  // its local header has another name
  Archive good({Entry::stored("x.npy", array), Entry::stored("y.npy", array)});
  EXPECT_NO_THROW(read_npz(good.file));
  expect_npz_error("x" + good.file, {"directory"});
  expect_npz_error(good.file + "x", {"directory"});
  // The first entry claims to extend into the second.
  Archive reaching({Entry::stored("x.npy", array), Entry::stored("y.npy", array)});
  const auto longer = static_cast<std::uint32_t>(array.size() + 4);
  reaching.file = reaching.with(reaching.directory + 20, longer);
  reaching.file = reaching.with(reaching.directory + 24, longer);
  expect_npz_error(reaching.file, {"'x.npy'", "'y.npy'", "overlap"});
}

CHILD_TEST(BadInputFiles, Item85SpanIsNotTheShape) {
  const auto one = [](const char* dtype, const char* shape, const char* offsets) {
    return with_length("{" + line("a", dtype, shape, offsets) + "}", "12345678");
  };
  EXPECT_NO_THROW(read_safetensors(one("F32", "[2]", "[0,8]")));
  for (const char* shape : {"[1]", "[3]", "[0]", "[2,2]", "[2,0]"}) {
    expect_safetensors_error(one("F32", shape, "[0,8]"), {"tensor 'a'", "span 8 bytes", "needs"});
  }
  // Products that overflow to the actual size.
  expect_safetensors_error(one("F32", "[4611686018427387904,4]", "[0,0]"), {"'a'", "overflows"});
  expect_safetensors_error(one("F32", "[4611686018427387905,4]", "[0,8]"), {"'a'", "overflows"});
  expect_safetensors_error(one("F64", "[2305843009213693953]", "[0,8]"), {"'a'", "overflows"});
  expect_safetensors_error(one("U8", "[0,4611686018427387904,4]", "[0,0]"), {"'a'", "overflows"});
  expect_safetensors_error(one("U8", "[9223372036854775808]", "[0,8]"), {"'a'", "dimension"});
  expect_safetensors_error(one("U8", "[99999999999999999999]", "[0,8]"), {"'a'", "number"});
  expect_safetensors_error(one("U8", "[-8]", "[0,8]"), {"'a'", "-8"});
  expect_safetensors_error(one("U8", "[8.0]", "[0,8]"), {"'a'", "8.0"});
  expect_safetensors_error(one("U8", "[\"8\"]", "[0,8]"), {"'a'", "string"});
  expect_safetensors_error(one("U8", "8", "[0,8]"), {"'a'", "shape", "array"});
  std::string many = "[8";
  for (int i = 0; i < max_rank; ++i) many += ",1";
  expect_safetensors_error(one("U8", (many + "]").c_str(), "[0,8]"), {"'a'", "64 dimensions"});
  EXPECT_NO_THROW(
      read_safetensors(one("U8", (many.substr(0, many.size() - 2) + "]").c_str(), "[0,8]")));
  for (const char* dtype : {"F8_E4M3", "F8_E5M2", "F4", "C128", "f32", ""}) {
    expect_safetensors_error(one(dtype, "[8]", "[0,8]"),
                             {"tensor 'a'", std::string("dtype '") + dtype + "'", "BF16"});
  }
  for (const char* shape : {"(4,)", "(1,)", "(0,)", "(3, 1)", "()", "(4611686018427387904, 4)",
                            "(0, 4611686018427387904, 4)", "(2305843009213693953,)"}) {
    expect_npy_error(
        npy(std::string("{'descr': '<f8', 'fortran_order': False, 'shape': ") + shape + "}",
            std::string(16, 'x')),
        {});
  }
}

// A sparse file that is larger than the memory.
CHILD_TEST(BadInputFiles, Item85MoreThanTheMemory) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "sparse";
  const std::string size = "8796093022208";  // 8 TiB
  write_file(path, with_length("{" + line("a", "U8", "[" + size + "]", "[0," + size + "]") + "}"));
  std::error_code error;
  std::filesystem::resize_file(path, std::filesystem::file_size(path) + std::stoull(size), error);
  if (error) GTEST_SKIP() << "no such files here: " << error.message();
  expect_error<OutOfMemoryError>([&] { load_safetensors(path); },
                                 {"load_safetensors", path.string(), "tensor 'a'", size});
}

CHILD_TEST(BadInputFiles, Item86BeginBehindEnd) {
  const auto one = [](const char* offsets) {
    return with_length("{" + line("a", "U8", "[4]", offsets) + "}", "1234");
  };
  expect_safetensors_error(one("[4,0]"), {"tensor 'a'", "[4, 0]", "before"});
  expect_safetensors_error(one("[18446744073709551615,3]"), {"tensor 'a'", "before"});
  for (const char* offsets : {"[]", "[0]", "[0,4,4]", "[0,-4]", "[0,4.0]", "{}", "null", "[0,null]",
                              "[0,true]", "\"0\"", "[[0,4]]", "[0,99999999999999999999]"}) {
    expect_safetensors_error(one(offsets), {"tensor 'a'", "data_offsets"});
  }
}

CHILD_TEST(BadInputFiles, Item87NamesWithNulOrDots) {
  const Tensor x = ones({2});
  const TemporaryDirectory directory;
  const std::string nul("a\0b", 3);
  for (const std::string& name : {std::string("../../etc/passwd"), std::string("a/../b"),
                                  std::string(".."), std::string("a\\..\\b"), nul}) {
    std::string escaped = name == nul ? "a\\u0000b" : name;
    if (name == "a\\..\\b") escaped = "a\\\\..\\\\b";
    expect_safetensors_error(with_length("{" + line(escaped, "U8", "[1]", "[0,1]") + "}", "x"),
                             {"the name", name == nul ? "'a\\x00b' has a NUL" : ".."});
    if (name != "..") {  // which is "...npy" in an archive, and harmless
      expect_npz_error(Archive({Entry::stored(name + "/x.npy", npy_of(x))}).file,
                       {"entry", "the name has"});
    }
    expect_error<ValueError>(
        [&] {
          save_safetensors(directory / "x", {{name, x}});
        },
        {"save_safetensors", "the name has"}, {x});
    expect_error<ValueError>(
        [&] {
          save_npz(directory / "x", {{name, x}});
        },
        {"save_npz", "the name has"}, {x});
  }
  // Dots without a special meaning.
  save_safetensors(directory / "x", {{"layers..0...weight", x}, {"a/b", x}});
  EXPECT_EQ(load_safetensors(directory / "x").tensors[0].first, "layers..0...weight");
  // Bytes that are not text.
  expect_safetensors_error(with_length("{" + line("\xff", "U8", "[1]", "[0,1]") + "}", "x"),
                           {"JSON"});
  expect_safetensors_error(with_length("{" + line("\\ud800", "U8", "[1]", "[0,1]") + "}", "x"),
                           {"JSON"});
  expect_npz_error(Archive({Entry::stored("\xff.npy", npy_of(x))}).file, {"\\xff", "UTF-8"});
  expect_error<ValueError>(
      [&] {
        save_safetensors(directory / "y", {{"\xff", x}});
      },
      {"UTF-8"}, {x});
  expect_error<ValueError>([&] { save_npz(directory / "y", {{"\xff", x}}); }, {"UTF-8"}, {x});
  expect_error<ValueError>(
      [&] {
        save_safetensors(directory / "y", {}, {{"k", "\xc0\x80"}});
      },
      {"metadata 'k'", "\\xc0\\x80"});
  expect_error<ValueError>(
      [&] {
        save_safetensors(directory / "y", {{"__metadata__", x}});
      },
      {"__metadata__"}, {x});
  expect_error<ValueError>(
      [&] {
        save_npz(directory / "y", {{std::string(70000, 'x'), x}});
      },
      {"70000 bytes", "at most"}, {x});
  expect_error<ValueError>(
      [&] {
        save_safetensors(directory / "y", {{"none", Tensor()}});
      },
      {"'none'", "undefined"});
  expect_error<ValueError>(
      [&] {
        save_npz(directory / "y", {{"none", Tensor()}});
      },
      {"'none'", "undefined"});
  expect_error<ValueError>([&] { save_npy(directory / "y", Tensor()); }, {"undefined"});
  EXPECT_EQ(directory.names(), std::vector<std::string>{"x"});
}

CHILD_TEST(BadInputFiles, Item88NpyWithObjectsOrOtherOrders) {
  const auto dict = [](const char* descr, const char* order, const char* shape) {
    return std::string("{'descr': '") + descr + "', 'fortran_order': " + order +
           ", 'shape': " + shape + "}";
  };
  expect_npy_error(npy(dict("|O", "False", "(1,)"), "\x80\3K\1."), {"'|O'", "objects"});
  expect_npy_error(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "1234"),
                   {"structure"});
  expect_npz_error(Archive({Entry::stored("x.npy", npy(dict("|O", "False", "(1,)"), "x"))}).file,
                   {"entry 'x.npy'", "objects"});
  EXPECT_EQ(
      read_npy(npy(dict(">i4", "False", "(2,)"), std::string("\0\0\1\2\xff\xff\xff\xfe", 8)))[0]
          .second.to_vector<std::int32_t>(),
      (std::vector<std::int32_t>{258, -2}));
  const Tensor turned = read_npy(npy(dict("|u1", "True", "(2, 3)"), "adbecf"))[0].second;
  EXPECT_EQ(turned.shape(), (Shape{2, 3}));
  EXPECT_EQ(turned.to_vector<std::uint8_t>(),
            (std::vector<std::uint8_t>{'a', 'b', 'c', 'd', 'e', 'f'}));
  expect_npy_error(npy(dict("|b1", "False", "(3,)"), "\1\1\2"), {"element 2", "bool", "0, 1"});
  expect_safetensors_error(with_length("{" + line("a", "BOOL", "[2]", "[0,2]") + "}", "\1\x80"),
                           {"tensor 'a'", "element 1", "128"});
  for (const char version : {'\0', '\4', '\xff'}) {
    std::string file = npy_of(ones({2}));
    file[6] = version;
    expect_npy_error(file, {"version", "1.0, 2.0, 3.0"});
  }
}

CHILD_TEST(BadInputFiles, Item90ShrunkWhileBeingRead) {
  const TemporaryDirectory directory;
  const NamedTensors sample = {{"a", arange(1000)}, {"b", arange(1000)}};
  for (const std::string kind : {"safetensors", "npy", "npz"}) {
    SCOPED_TRACE(kind);
    const std::filesystem::path path = directory / kind;
    int calls = 0;
    for (int shrinks_at = 0; shrinks_at < 3; ++shrinks_at) {
      if (kind == "safetensors") save_safetensors(path, sample);
      if (kind == "npy") save_npy(path, sample[0].second);
      if (kind == "npz") save_npz(path, sample);
      FaultyFiles files;
      calls = 0;
      files.before_pread = [&] {
        if (calls++ == shrinks_at) std::filesystem::resize_file(path, 5);
      };
      expect_error<IoError>(
          [&] {
            const io::FileSource file("load", path, files);
            if (kind == "safetensors") io::read_safetensors(file);
            if (kind == "npz") io::read_npz(file);
            io::SourceStream stream(file);
            if (kind == "npy") io::read_npy(stream);
          },
          {"load", path.string(), "ended at byte", "bytes when it was opened"});
      EXPECT_GT(calls, shrinks_at);
    }
  }
}

CHILD_TEST(BadInputFiles, Item91NotARegularFile) {
  const TemporaryDirectory directory;
  const std::filesystem::path fifo = directory / "fifo", folder = directory / "folder";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  std::filesystem::create_directory(folder);
  const Tensor x = ones({2});
  const std::vector<std::pair<std::filesystem::path, std::string>> places = {
      {fifo, "a FIFO"},
      {folder, "a directory"},
      {"/dev/zero", "a device"},
      {"/dev/null", "a device"}};
  for (const auto& [path, kind] : places) {
    for (const bool mmap : {false, true}) {
      expect_error<IoError>([&, &path = path] { load_safetensors(path, {.mmap = mmap}); },
                            {"load_safetensors", path.string(), kind, "regular file"});
    }
    expect_error<IoError>([&, &path = path] { load_npy(path); }, {"load_npy", path.string(), kind});
    expect_error<IoError>([&, &path = path] { load_npz(path); }, {"load_npz", path.string(), kind});
    // An existing file is not replaced either.
    expect_error<IoError>(
        [&, &path = path] {
          save_safetensors(path, {{"x", x}});
        },
        {"save_safetensors", path.string(), kind}, {x});
    expect_error<IoError>([&, &path = path] { save_npy(path, x); }, {"save_npy", kind}, {x});
    expect_error<IoError>(
        [&, &path = path] {
          save_npz(path, {{"x", x}});
        },
        {"save_npz", kind}, {x});
    EXPECT_FALSE(std::filesystem::is_regular_file(path));
  }
  expect_error<IoError>([&] { load_npy(directory / "none"); },
                        {"load_npy", "none", "No such file or directory"});
  expect_error<IoError>([&] { load_npy(""); }, {"load_npy: ''", "No such file"});
  expect_error<IoError>([&] { save_npy("", x); }, {"save_npy: ''"}, {x});
  expect_error<IoError>([&] { save_npy(directory.path() / "", x); }, {"save_npy"}, {x});
  expect_error<ValueError>([&] { load_npy(directory / std::string_view("a\0b", 3)); },
                           {"load_npy", "NUL"});
  expect_error<ValueError>([&] { save_npy(directory / std::string_view("a\0b", 3), x); },
                           {"save_npy", "NUL"}, {x});
  EXPECT_EQ(directory.names(), (std::vector<std::string>{"fifo", "folder"}));
}

CHILD_TEST(BadInputFiles, Item92DiskFullInputOutputErrorShortWrite) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "x";
  const NamedTensors sample = {{"a", arange(100)}, {"b", arange(100)}};
  save_safetensors(path, sample);
  // Every read fails once.
  int failures = 0;
  for (int failing = 0;; ++failing) {
    FaultyFiles files;
    files.failing = failing;
    try {
      const io::FileSource file("load", path, files);
      test_support::expect_same(io::read_safetensors(file).tensors, sample);
      break;
    } catch (const IoError& error) {
      EXPECT_NE(std::string(error.what()).find("Input/output error"), std::string::npos);
      EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos);
      ++failures;
    }
  }
  EXPECT_EQ(failures, 6);  // open, fstat, the length, the header, two tensors
  FaultyFiles files;
  files.most = 3;
  files.interrupts = true;
  test_support::expect_same(io::read_safetensors(io::FileSource("load", path, files)).tensors,
                            sample);

  // A full disk of the system; io_atomic_file_test covers every call that writes.
  FaultyFiles full;
  full.failing = 2;
  full.error = ENOSPC;
  expect_error<IoError>(
      [&] {
        io::AtomicFile file("save_npz", path, full);
        io::write_npz(file, sample);
        file.commit();
      },
      {"save_npz", path.string(), "No space left on device"});
  test_support::expect_same(load_safetensors(path).tensors, sample);
  EXPECT_EQ(directory.names(), std::vector<std::string>{"x"});
}

CHILD_TEST(BadInputFiles, Item95DirectoryThatCannotBeWritten) {
  const TemporaryDirectory directory;
  const Tensor x = ones({2});
  expect_error<IoError>([&] { save_npy(directory / "none/x.npy", x); },
                        {"save_npy", "none/x.npy", "No such file or directory"}, {x});
  write_file(directory / "file", "");
  expect_error<IoError>(
      [&] {
        save_npz(directory / "file/x.npz", {{"x", x}});
      },
      {"save_npz", "file/x.npz", "Not a directory"}, {x});
  // A place where not even root may write.
  expect_error<IoError>(
      [&] {
        save_safetensors("/proc/x.safetensors", {{"x", x}});
      },
      {"save_safetensors", "'/proc/x.safetensors'"}, {x});
  if (geteuid() != 0) {
    std::filesystem::create_directory(directory / "locked");
    std::filesystem::permissions(directory / "locked", std::filesystem::perms(0555));
    expect_error<IoError>([&] { save_npy(directory / "locked/x.npy", x); },
                          {"save_npy", "locked", "Permission denied"}, {x});
  }
}

CHILD_TEST(BadInputFiles, Item96PathThatIsNotUtf8) {
  const TemporaryDirectory directory;
  const Tensor x = ones({2});
  const std::filesystem::path path = directory / "\xff\xfe\n.npy";
  expect_error<IoError>([&] { load_npy(path); }, {"\\xff\\xfe\\x0a.npy'", "No such file"});
  save_npy(path, x);
  test_support::expect_same(load_npy(path), x);
  save_safetensors(path, {{"x", x}});
  test_support::expect_same(load_safetensors(path, {.mmap = true}).tensors[0].second, x);
  save_npz(path, {{"x", x}});
  test_support::expect_same(load_npz(path)[0].second, x);
  expect_error<FormatError>([&] { load_safetensors(path); }, {"load_safetensors", "\\xff\\xfe"});
}

}  // namespace
