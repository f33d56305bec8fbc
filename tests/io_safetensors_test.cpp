// safetensors: round trips, the bytes of the format, mapped files, modules.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "support/files.h"

namespace extensor {
namespace {

using test_support::expect_same;
using test_support::read_file;
using test_support::TemporaryDirectory;
using test_support::write_file;

std::string with_length(const std::string& header) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return file + header;
}

// The number of mappings of a file in this process.
int mappings_of(const std::filesystem::path& path) {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    count += line.find(path.filename().string()) != std::string::npos ? 1 : 0;
  }
  return count;
}

TEST(Safetensors, RoundTripsEveryDtypeAndLayout) {
  const TemporaryDirectory directory;
  const NamedTensors tensors = test_support::every_kind(true);
  const Metadata metadata = {{"format", "pt"}, {"ünï \"quoted\"\n", ""}, {"", "\x01 ☃"}};
  save_safetensors(directory / "all", tensors, metadata);
  for (const bool mmap : {false, true}) {
    SCOPED_TRACE(mmap);
    const Safetensors loaded = load_safetensors(directory / "all", {.mmap = mmap});
    expect_same(loaded.tensors, tensors);
    EXPECT_EQ(loaded.metadata, metadata);
  }
}

TEST(Safetensors, NothingIsAFileToo) {
  const TemporaryDirectory directory;
  save_safetensors(directory / "none", {});
  EXPECT_EQ(read_file(directory / "none"), with_length("{}      "));
  for (const bool mmap : {false, true}) {
    const Safetensors loaded = load_safetensors(directory / "none", {.mmap = mmap});
    EXPECT_TRUE(loaded.tensors.empty());
    EXPECT_TRUE(loaded.metadata.empty());
  }
}

TEST(Safetensors, WritesTheBytesOfTheFormat) {
  const TemporaryDirectory directory;
  save_safetensors(
      directory / "x",
      {{"b", tensor({1, 2}, uint8)}, {"a", tensor({{1.0, -2.0}})}, {"s", scalar(1, bool_)}},
      {{"k", "v"}});
  std::string header =
      R"({"__metadata__":{"k":"v"},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
      R"("a":{"dtype":"F32","shape":[1,2],"data_offsets":[2,10]},)"
      R"("s":{"dtype":"BOOL","shape":[],"data_offsets":[10,11]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(read_file(directory / "x"),
            with_length(header) + std::string("\1\2\0\0\x80\x3f\0\0\0\xc0\1", 11));
}

TEST(Safetensors, NamesEveryDtypeAsTheFormatDoes) {
  const TemporaryDirectory directory;
  const std::vector<std::string> names = {"BOOL", "I8",  "I16", "I32",  "I64", "U8", "U16",
                                          "U32",  "U64", "F16", "BF16", "F32", "F64"};
  for (const DType dtype : test_support::every_dtype()) {
    save_safetensors(directory / "x", {{"x", zeros({1}, dtype)}});
    EXPECT_NE(read_file(directory / "x")
                  .find("\"dtype\":\"" + names[static_cast<std::size_t>(dtype)] + "\""),
              std::string::npos)
        << name(dtype);
  }
}

// The header may list names in any order; the tensors come in the order of their data.
TEST(Safetensors, ReadsHeadersInAnyOrder) {
  const TemporaryDirectory directory;
  write_file(directory / "x",
             with_length("{\"second\":{\"data_offsets\":[1,3],\"shape\":[2],\"dtype\":\"U8\"},"
                         " \"none\": {\"dtype\":\"F64\",\"shape\":[0,4],\"data_offsets\":[1,1]},\n"
                         "\"first\":{\"dtype\":\"I8\",\"shape\":[],\"data_offsets\":[0,1]}}   ") +
                 "\xff\2\3");
  const NamedTensors tensors = load_safetensors(directory / "x").tensors;
  expect_same(tensors, {{"first", scalar(-1, int8)},
                        {"none", zeros({0, 4}, float64)},
                        {"second", tensor({2, 3}, uint8)}});
}

TEST(Safetensors, AWrittenMappedTensorChangesNoFileAndNoOther) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "weights";
  save_safetensors(path, {{"a", arange(1000, float32)}, {"b", arange(1000, float32)}});
  const std::string before = read_file(path);
  NamedTensors tensors = load_safetensors(path, {.mmap = true}).tensors;
  const NamedTensors others = load_safetensors(path, {.mmap = true}).tensors;
  const auto version = tensors[1].second.impl().storage->version.load();
  tensors[0].second += 1.0;
  tensors[0].second.fill(7);
  EXPECT_EQ(tensors[0].second.to_vector<float>(), std::vector<float>(1000, 7));
  EXPECT_EQ(tensors[1].second.impl().storage->version.load(), version);
  expect_same(tensors[1].second, arange(1000, float32));
  expect_same(others[0].second, arange(1000, float32));
  EXPECT_EQ(read_file(path), before);
}

TEST(Safetensors, AMappingLivesAsLongAsItsLastTensor) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "mapped-weights";
  save_safetensors(path, {{"a", arange(1000, float32)}, {"b", arange(9)}});
  Tensor view;
  {
    const Safetensors loaded = load_safetensors(path, {.mmap = true});
    EXPECT_EQ(mappings_of(path), 1);
    view = loaded.tensors[0].second.slice(0, 10, 20);
  }
  EXPECT_EQ(mappings_of(path), 1);
  std::filesystem::remove(path);
  expect_same(view.clone(), arange(10, 20, 1, float32));
  view = {};
  EXPECT_EQ(mappings_of(path), 0);
  save_safetensors(path, {{"a", ones({4})}});
  load_safetensors(path);
  EXPECT_EQ(mappings_of(path), 0);
}

// Tensors at unaligned addresses are copied; the others are not.
TEST(Safetensors, MisalignedTensorsOfAMappingAreCopied) {
  const TemporaryDirectory directory;
  const NamedTensors tensors = {{"a", arange(4, float64)},
                                {"odd", tensor({1, 2, 3}, uint8)},
                                {"b", arange(100, float64)},
                                {"c", arange(5, int8)},
                                {"d", arange(2, int32)}};
  save_safetensors(directory / "x", tensors);
  const NamedTensors loaded = load_safetensors(directory / "x", {.mmap = true}).tensors;
  expect_same(loaded, tensors);
  for (const auto& [name, tensor] : loaded) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.impl().data) % tensor.itemsize(), 0U) << name;
  }
  const auto distance = [&](std::size_t i) {
    return loaded[i].second.impl().data - loaded[0].second.impl().data;
  };
  EXPECT_EQ(distance(1), 32);
  EXPECT_NE(distance(2), 35);
  EXPECT_EQ(distance(3), 835);
  EXPECT_EQ(distance(4), 840);
}

// A mapped file is opened without being read: its pages are not in memory afterwards.
TEST(Safetensors, OpeningAMappingReadsOnlyTheHeader) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "large";
  const std::int64_t size = std::int64_t{1} << 36;  // a sparse file of 64 GiB
  write_file(path, with_length("{\"x\":{\"dtype\":\"U8\",\"shape\":[" + std::to_string(size) +
                               "],\"data_offsets\":[0," + std::to_string(size) + "]}}"));
  std::error_code error;
  std::filesystem::resize_file(path, read_file(path).size() + static_cast<std::uintmax_t>(size),
                               error);
  if (error) GTEST_SKIP() << "no sparse files here: " << error.message();
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  const Safetensors loaded = load_safetensors(path, {.mmap = true});
  getrusage(RUSAGE_SELF, &after);
  EXPECT_EQ(loaded.tensors[0].second.shape(), (Shape{size}));
  EXPECT_LT(after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt, 1000);
  EXPECT_EQ(loaded.tensors[0].second.slice(0, size - 1).item<std::uint8_t>(), 0);
}

TEST(Safetensors, SavesAndLoadsAModuleInOneLineEach) {
  const TemporaryDirectory directory;
  const auto make = [] {
    return nn::Sequential{nn::Linear(3, 4), nn::BatchNorm1d(4), nn::Linear(4, 2)};
  };
  auto model = make();
  auto other = make();
  const Tensor x = randn({5, 3});
  model.eval();
  other.eval();
  ASSERT_FALSE(allclose(model(x), other(x)));
  save_safetensors(directory / "model.safetensors", model.state_dict());
  other.load_state_dict(load_safetensors(directory / "model.safetensors").tensors);
  EXPECT_TRUE(all(equal(model(x), other(x))).item<bool>());
  // Parameters, which require gradients, can be saved directly.
  save_safetensors(directory / "parameters", model.named_parameters());
  other.load_state_dict(load_safetensors(directory / "parameters", {.mmap = true}).tensors,
                        {.strict = false});
  EXPECT_EQ(other.parameters()[0].grad().defined(), false);
}

// With checksums every change of a tensor or of the metadata is detected, mapped or not, and the
// checksums are not part of the loaded metadata.
TEST(Safetensors, ChecksumsNoticeEveryChange) {
  const TemporaryDirectory directory;
  const NamedTensors tensors{{"a", arange(5, float32)}, {"b", ones({2}, bool_)}, {"c", zeros({0})}};
  const Metadata metadata{{"step", "7"}};
  const auto path = directory / "x";
  save_safetensors(path, tensors, metadata, {.checksums = true});
  const std::string whole = read_file(path);
  EXPECT_NE(whole.find("\"extensor.checksum.a\""), std::string::npos);
  for (const bool mmap : {false, true}) {
    const Safetensors file = load_safetensors(path, {.mmap = mmap});
    EXPECT_EQ(file.metadata, metadata);
    EXPECT_EQ(file.tensors.size(), 3U);
  }
  std::size_t noticed = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    write_file(path, changed);
    try {
      const Safetensors file = load_safetensors(path);
      // Whitespace in the header may change; the result is the same.
      EXPECT_EQ(file.metadata, metadata) << at;
    } catch (const FormatError&) {
      ++noticed;
    }
  }
  EXPECT_GT(noticed, whole.size() - 16);
  // Only the elements, where the format itself cannot detect a change.
  std::string changed = whole;
  changed[whole.size() - 4] ^= 1;
  write_file(path, changed);
  EXPECT_THROW(load_safetensors(path, {.mmap = true}), FormatError);
  EXPECT_NO_THROW(load_safetensors(path, {.verify = false}));
  // Saving again without checksums removes the old ones.
  write_file(path, whole);
  Safetensors file = load_safetensors(path);
  file.tensors[0].second = ones({5});
  save_safetensors(path, file.tensors, file.metadata);
  EXPECT_NO_THROW(load_safetensors(path));
}

TEST(Safetensors, AFileReplacesTheOneItWasLoadedFrom) {
  const TemporaryDirectory directory;
  save_safetensors(directory / "x", {{"a", ones({1 << 16})}});
  for (int i = 0; i < 3; ++i) {
    Safetensors loaded = load_safetensors(directory / "x", {.mmap = true});
    loaded.tensors[0].second += 1.0;
    save_safetensors(directory / "x", loaded.tensors);
  }
  expect_same(load_safetensors(directory / "x").tensors[0].second, full({1 << 16}, 4.0));
  EXPECT_EQ(directory.names(), std::vector<std::string>{"x"});
}

}  // namespace
}  // namespace extensor
