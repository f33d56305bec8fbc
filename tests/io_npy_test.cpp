// npy: round trips, the bytes of the format, variants that NumPy writes, NumPy itself.
#include "io/npy.h"

#include <gtest/gtest.h>

#include "support/files.h"

namespace extensor {
namespace {

using test_support::expect_same;
using test_support::read_file;
using test_support::TemporaryDirectory;
using test_support::write_file;

// A file of the given version; the header is padded as NumPy does it.
std::string npy(const std::string& dict, const std::string& elements, char version = 1) {
  std::string header = dict;
  const std::size_t before = version == 1 ? 10 : 12;
  header.append(63 - (before + header.size()) % 64, ' ');
  header += '\n';
  std::string file = std::string("\x93NUMPY") + version + '\0';
  for (std::size_t i = 0; i < before - 8; ++i) {
    file += static_cast<char>(header.size() >> (8 * i) & 0xff);
  }
  return file + header + elements;
}

// The bytes that save_npy writes, without waiting for the disk.
std::string written(const Tensor& tensor) {
  io::MemorySink sink;
  io::write_npy(sink, "written", tensor);
  return {reinterpret_cast<const char*>(sink.bytes.data()), sink.bytes.size()};
}

Tensor read(const std::string& file) {
  const io::MemorySource source("read", std::as_bytes(std::span(file)));
  io::SourceStream stream(source);
  return io::read_npy(stream);
}

TEST(Npy, RoundTripsEveryDtypeAndLayout) {
  for (const auto& [name, tensor] : test_support::every_kind(false)) {
    SCOPED_TRACE(name);
    expect_same(read(written(tensor)), tensor);
  }
}

TEST(Npy, WritesTheBytesOfTheFormat) {
  const TemporaryDirectory directory;
  const auto bytes = [&](const Tensor& tensor) {
    save_npy(directory / "x.npy", tensor);
    return read_file(directory / "x.npy");
  };
  EXPECT_EQ(bytes(tensor({{1, 2, 3}}, int16)),
            npy("{'descr': '<i2', 'fortran_order': False, 'shape': (1, 3), }",
                std::string("\1\0\2\0\3\0", 6)));
  EXPECT_EQ(
      bytes(tensor({true, false})),
      npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", std::string("\1\0", 2)));
  EXPECT_EQ(
      bytes(scalar(1.0, float16)),
      npy("{'descr': '<f2', 'fortran_order': False, 'shape': (), }", std::string("\0\x3c", 2)));
}

TEST(Npy, ReadsEveryVersion) {
  const std::string dict = "{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }";
  for (const char version : {1, 2, 3}) {
    expect_same(read(npy(dict, std::string("\1\0\xff\xff", 4), version)), tensor({1, -1}, int16));
  }
}

TEST(Npy, ReadsDictsAsPythonDoes) {
  const std::string elements("\1\2", 2);
  for (const char* dict : {"{'shape':(2,),'fortran_order':False,'descr':'|u1'}",
                           "{ \"descr\" : \"|u1\" , 'fortran_order' : True,\t'shape' : ( 2 , ) , }",
                           "{'descr': '<u1', 'fortran_order': False, 'shape': (2L,), }",
                           "{'descr': '>u1', 'fortran_order': False, 'shape': (2,)}"}) {
    expect_same(read(npy(dict, elements)), tensor({1, 2}, uint8));
  }
  expect_same(read(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1, 2)}", elements)),
              tensor({{1, 2}}, uint8));
}

TEST(Npy, RefusesOtherDicts) {
  const std::string good = "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }";
  EXPECT_NO_THROW(read(npy(good, "ab")));
  for (const char* dict :
       {"",
        "{",
        "{}",
        "[]",
        "{'descr': '|u1', 'fortran_order': False, }",
        "{'descr': '|u1', 'shape': (2,), }",
        "{'fortran_order': False, 'shape': (2,), }",
        "{'descr': '|u1', 'fortran_order': 0, 'shape': (2,), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (2), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': [2], }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (,), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (2,,), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (1 2), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (-2,), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (2.0,), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (+2,), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (9223372036854775808,), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), 'x': 1}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), 'shape': (2,)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (2,)} x",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), ",
        "{'descr': '|u1, 'fortran_order': False, 'shape': (2,), }",
        "{'descr': '|u\\1', 'fortran_order': False, 'shape': (2,), }",
        "{'descr': __import__('os'), 'fortran_order': False, 'shape': (2,), }",
        "{'descr': '|u1' 'fortran_order': False, 'shape': (2,), }",
        "{descr: '|u1', 'fortran_order': False, 'shape': (2,), }"}) {
    EXPECT_THROW(read(npy(dict, "ab")), FormatError) << dict;
  }
  EXPECT_THROW(read(npy(good + std::string("\0", 1), "ab")), FormatError);
  for (const char* descr : {"", "u1", "|u2", "<u3", "|O", "<U4", "|S2", "<c32", "<M8[ns]", "<V2",
                            "=u2", "|b2", "<f16"}) {
    const std::string dict =
        std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': (0,), }";
    EXPECT_THROW(read(npy(dict, "")), FormatError) << descr;
  }
}

TEST(Npy, HasNoBfloat16) {
  const TemporaryDirectory directory;
  try {
    save_npy(directory / "x.npy", ones({2}, bfloat16));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const FormatError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("x.npy"), std::string::npos) << text;
    EXPECT_NE(text.find("bfloat16"), std::string::npos) << text;
    EXPECT_NE(text.find("save_safetensors"), std::string::npos) << text;
  }
  EXPECT_TRUE(directory.names().empty());
}

TEST(Npy, NumPyReadsWhatWasWritten) {
  if (test_support::python_with_numpy().empty()) GTEST_SKIP() << "no Python with NumPy here";
  const TemporaryDirectory directory;
  std::string program;
  int number = 0;
  for (const auto& [name, tensor] : test_support::every_kind(false)) {
    const std::string file = std::to_string(number++);
    write_file(directory / (file + ".npy"), written(tensor));
    write_file(directory / (file + ".bytes"), test_support::bytes_of(tensor));
    program += "x = np.load('" + file + ".npy', allow_pickle=False)\n" +
               "assert list(x.shape) == " + to_string(tensor.shape()) + ", x.shape\n" +
               "assert x.dtype == np.dtype('" + extensor::name(tensor.dtype()) + "'), x.dtype\n" +
               "assert x.tobytes() == open('" + file + ".bytes', 'rb').read()\n";
  }
  EXPECT_TRUE(test_support::run_python(directory, program));
}

TEST(Npy, ReadsWhatNumPyWrites) {
  if (test_support::python_with_numpy().empty()) GTEST_SKIP() << "no Python with NumPy here";
  const TemporaryDirectory directory;
  ASSERT_TRUE(test_support::run_python(directory, R"(
from numpy.lib import format
for kind in ['b1', 'i1', 'i2', 'i4', 'i8', 'u1', 'u2', 'u4', 'u8', 'f2', 'f4', 'f8']:
    x = (np.arange(24).reshape(2, 3, 4) * 10 - 7).astype(kind)
    np.save(kind + '.npy', x)
    np.save(kind + '-big.npy', x.astype(x.dtype.newbyteorder('>')))
    np.save(kind + '-fortran.npy', np.asfortranarray(x))
    np.save(kind + '-both.npy', np.asfortranarray(x.astype(x.dtype.newbyteorder('>'))))
    np.save(kind + '-empty.npy', x[:, :0])
    np.save(kind + '-scalar.npy', x[1, 2, 3])
    for version in [(1, 0), (2, 0), (3, 0)]:
        with open(kind + '-%d.npy' % version[0], 'wb') as file:
            format.write_array(file, x, version=version)
    open(kind + '.bytes', 'wb').write(x.tobytes())
)"));
  const std::vector<std::pair<std::string, DType>> kinds = {
      {"b1", bool_},  {"i1", int8},    {"i2", int16},   {"i4", int32},
      {"i8", int64},  {"u1", uint8},   {"u2", uint16},  {"u4", uint32},
      {"u8", uint64}, {"f2", float16}, {"f4", float32}, {"f8", float64}};
  for (const auto& [kind, dtype] : kinds) {
    SCOPED_TRACE(kind);
    const std::string bytes = read_file(directory / (kind + ".bytes"));
    for (const char* way : {"", "-big", "-fortran", "-both", "-1", "-2", "-3"}) {
      SCOPED_TRACE(way);
      const Tensor x = load_npy(directory / (kind + way + ".npy"));
      EXPECT_EQ(x.dtype(), dtype);
      EXPECT_EQ(x.shape(), (Shape{2, 3, 4}));
      EXPECT_TRUE(x.is_contiguous());
      EXPECT_EQ(test_support::bytes_of(x), bytes);
    }
    expect_same(load_npy(directory / (kind + "-empty.npy")), zeros({2, 0, 4}, dtype));
    const Tensor last = load_npy(directory / (kind + "-scalar.npy"));
    EXPECT_EQ(last.shape(), Shape{});
    EXPECT_EQ(test_support::bytes_of(last), bytes.substr(bytes.size() - itemsize(dtype)));
  }
}

}  // namespace
}  // namespace extensor
