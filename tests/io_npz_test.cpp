// npz: round trips, compressed entries, zip64, NumPy itself.
#include "io/npz.h"

#include <gtest/gtest.h>

#include "support/files.h"

namespace extensor {
namespace {

using test_support::expect_same;
using test_support::read_file;
using test_support::TemporaryDirectory;
using test_support::write_file;

const std::string& python() { return test_support::python_with_numpy(); }

std::string written(const NamedTensors& tensors, const io::ZipLimits& limits = {}) {
  io::MemorySink sink;
  io::write_npz(sink, tensors, limits);
  return {reinterpret_cast<const char*>(sink.bytes.data()), sink.bytes.size()};
}

NamedTensors read(const std::string& file) {
  return io::read_npz(io::MemorySource("read", std::as_bytes(std::span(file))));
}

const NamedTensors sample = {{"weight", arange(6, float32).reshape({2, 3})},
                             {"größe", arange(3)},
                             {"a/b", zeros({2, 0})},
                             {"", scalar(2.5, float64)}};

TEST(Npz, RoundTripsEveryDtypeAndLayout) {
  const TemporaryDirectory directory;
  const NamedTensors tensors = test_support::every_kind(false);
  save_npz(directory / "all.npz", tensors);
  expect_same(load_npz(directory / "all.npz"), tensors);
}

TEST(Npz, NothingIsAFileToo) {
  const TemporaryDirectory directory;
  save_npz(directory / "none.npz", {});
  EXPECT_EQ(read_file(directory / "none.npz"), std::string("PK\5\6") + std::string(18, '\0'));
  EXPECT_TRUE(load_npz(directory / "none.npz").empty());
}

TEST(Npz, EqualTensorsMakeEqualFiles) { EXPECT_EQ(written(sample), written(sample)); }

// Lowered limits make small files use zip64.
TEST(Npz, RoundTripsThroughZip64) {
  for (const io::ZipLimits& limits :
       {io::ZipLimits{.most_bytes = 0}, io::ZipLimits{.most_bytes = 200},
        io::ZipLimits{.most_bytes = 400}, io::ZipLimits{.most_entries = 0},
        io::ZipLimits{.most_entries = 4}, io::ZipLimits{0, 0}}) {
    const std::string file = written(sample, limits);
    EXPECT_NE(file, written(sample));
    EXPECT_NE(file.find("PK\6\6"), std::string::npos);
    expect_same(read(file), sample);
  }
}

TEST(Npz, ManyEntries) {
  NamedTensors tensors;
  for (int i = 0; i < 70000; ++i) tensors.emplace_back(std::to_string(i), scalar(i, int32));
  const NamedTensors loaded = read(written(tensors));
  ASSERT_EQ(loaded.size(), tensors.size());
  EXPECT_EQ(loaded.back().first, "69999");
  EXPECT_EQ(loaded.back().second.item<int>(), 69999);
}

TEST(Npz, ACommentBehindTheDirectoryIsPassedOver) {
  std::string file = written(sample);
  const std::string comment = "a comment with PK\5\6 in it";
  file[file.size() - 2] = static_cast<char>(comment.size());
  expect_same(read(file + comment), sample);
}

TEST(Npz, HasNoBfloat16) {
  const TemporaryDirectory directory;
  try {
    save_npz(directory / "x.npz", {{"good", ones({2})}, {"bad", ones({2}, bfloat16)}});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const FormatError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("'bad'"), std::string::npos) << text;
    EXPECT_NE(text.find("bfloat16"), std::string::npos) << text;
    EXPECT_NE(text.find("save_safetensors"), std::string::npos) << text;
  }
  EXPECT_TRUE(directory.names().empty());
}

TEST(Npz, NumPyReadsWhatWasWritten) {
  if (python().empty()) GTEST_SKIP() << "no Python with NumPy here";
  const TemporaryDirectory directory;
  save_npz(directory / "plain.npz", sample);
  write_file(directory / "zip64.npz", written(sample, {.most_bytes = 0, .most_entries = 0}));
  EXPECT_TRUE(test_support::run_python(directory, R"(
import zipfile
for name in ['plain.npz', 'zip64.npz']:
    assert zipfile.ZipFile(name).testzip() is None
    x = np.load(name, allow_pickle=False)
    assert x.files == ['weight', 'gr\u00f6\u00dfe', 'a/b', ''], x.files
    assert np.array_equal(x['weight'], np.arange(6, dtype='f4').reshape(2, 3))
    assert x['weight'].dtype == np.float32
    assert np.array_equal(x['gr\u00f6\u00dfe'], np.arange(3))
    assert x['a/b'].shape == (2, 0)
    assert x[''].shape == () and x[''] == 2.5
)"));
}

TEST(Npz, ReadsWhatNumPyWrites) {
  if (python().empty()) GTEST_SKIP() << "no Python with NumPy here";
  const TemporaryDirectory directory;
  ASSERT_TRUE(test_support::run_python(directory, R"(
import io, sys
large = np.random.default_rng(0).integers(0, 5, 300000)
arrays = {'weight': np.arange(6, dtype='f4').reshape(2, 3), 'gr\u00f6\u00dfe': np.arange(3),
          'big': np.arange(3, dtype='>i4'), 'fortran': np.asfortranarray(np.arange(6).reshape(2, 3)),
          'zeros': np.zeros(1000000), 'large': large, 'none': np.zeros((0, 2))}
np.savez('stored.npz', **arrays)
np.savez_compressed('deflated.npz', **arrays)

class Pipe(io.RawIOBase):  # cannot go back, so sizes are written behind the data
    def __init__(self): self.bytes = b''
    def writable(self): return True
    def write(self, data): self.bytes += bytes(data); return len(data)
pipe = Pipe()
np.savez_compressed(pipe, **arrays)
open('streamed.npz', 'wb').write(pipe.bytes)
open('sum', 'w').write(str(large.sum()))
)"));
  for (const char* file : {"stored.npz", "deflated.npz", "streamed.npz"}) {
    SCOPED_TRACE(file);
    const NamedTensors tensors = load_npz(directory / file);
    ASSERT_EQ(tensors.size(), 7U);
    const std::vector<std::string> names = {"weight", "größe", "big", "fortran",
                                            "zeros",  "large", "none"};
    for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(tensors[i].first, names[i]);
    expect_same(tensors[0].second, arange(6, float32).reshape({2, 3}));
    expect_same(tensors[1].second, arange(3));
    expect_same(tensors[2].second, arange(3, int32));
    expect_same(tensors[3].second, arange(6).reshape({2, 3}));
    expect_same(tensors[4].second, zeros({1000000}, float64));
    EXPECT_EQ(std::to_string(sum(tensors[5].second).item<std::int64_t>()),
              read_file(directory / "sum"));
    expect_same(tensors[6].second, zeros({0, 2}, float64));
  }
}

}  // namespace
}  // namespace extensor
