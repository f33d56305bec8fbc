// Readers of IDX, CIFAR and CSV on generated files, and on the real MNIST.
#include <cmath>

#include "data/cifar.h"
#include "data/csv.h"
#include "data/gzip.h"
#include "data/idx.h"
#include "support/child_process.h"
#include "support/data_files.h"
#include "support/files.h"

namespace {

using namespace extensor;
using test_support::big_endian;
using test_support::expect_error;
using test_support::expect_same;
using test_support::gzip_of;
using test_support::idx_file;
using test_support::source_of;
using test_support::TemporaryDirectory;
using test_support::write_file;
using Labels = std::vector<std::int64_t>;
using Names = std::vector<std::string>;

Tensor read_idx(const std::string& file) {
  return io::read_idx(source_of("load_idx: 'file'", file));
}

std::string bytes_from(int first, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i)
    text += static_cast<char>(first + static_cast<int>(i) * 7);
  return text;
}

// ---- IDX ----------------------------------------------------------------------------------------

TEST(Idx, ReadsEveryKindOfElement) {
  struct Kind {
    std::string file;
    Tensor expected;
  };
  const std::vector<Kind> kinds = {
      {idx_file(8, {2, 2}, std::string("\0\x7f\x80\xff", 4)),
       tensor({{0, 127}, {128, 255}}).to(uint8)},
      {idx_file(9, {4}, std::string("\0\x7f\x80\xff", 4)), tensor({0, 127, -128, -1}).to(int8)},
      {idx_file(11, {2}, std::string("\1\2\xff\xfe", 4)), tensor({258, -2}).to(int16)},
      {idx_file(12, {2}, std::string("\0\1\0\2\xff\xff\xff\xfd", 8)),
       tensor({65538, -3}).to(int32)},
      {idx_file(13, {2}, std::string("\x3f\xc0\0\0\xc0\x20\0\0", 8)),
       tensor({1.5, -2.5}).to(float32)},
      {idx_file(14, {1, 1}, std::string("\x40\x09\x21\xfb\x54\x44\x2d\x18", 8)),
       full({1, 1}, 3.141592653589793, float64)},
      {idx_file(8, {}, "A"), scalar(65, uint8)},
      {idx_file(8, {0, 28, 28}, ""), zeros({0, 28, 28}, uint8)},
      {idx_file(8, {1, 2, 1, 2, 1}, "abcd"),
       tensor({97, 98, 99, 100}).to(uint8).reshape({1, 2, 1, 2, 1})}};
  for (const Kind& kind : kinds) {
    expect_same(read_idx(kind.file), kind.expected);
    expect_same(read_idx(gzip_of(kind.file)), kind.expected);
  }
}

TEST(Idx, ReadsWhateverGzipWrites) {
  const std::string elements = bytes_from(3, 5000), file = idx_file(8, {50, 100}, elements);
  const Tensor expected = read_idx(file);
  EXPECT_EQ(test_support::bytes_of(expected), elements);
  for (int flags = 0; flags < 32; ++flags) expect_same(read_idx(gzip_of(file, flags)), expected);
  // Several members, split anywhere, also empty ones.
  for (const std::size_t cut : {0, 1, 4, 11, 12, 13, 2000, 5011, 5012}) {
    expect_same(read_idx(gzip_of(file.substr(0, cut), 8) + gzip_of("") + gzip_of(file.substr(cut))),
                expected);
  }
}

// Longer than any internal buffer, and compressed so much that memory must grow.
TEST(Idx, ReadsLargeFiles) {
  for (const std::uint32_t count : {1U << 18, (1U << 18) + 1, 1U << 19, 3'000'001U}) {
    std::string elements(count, '\0');
    for (std::size_t i = 0; i < count; i += 1001) elements[i] = static_cast<char>(i % 251);
    const std::string file = idx_file(8, {count}, elements);
    EXPECT_EQ(test_support::bytes_of(read_idx(gzip_of(file))), elements);
    EXPECT_EQ(test_support::bytes_of(read_idx(file)), elements);
  }
}

TEST(Gzip, GivesBytesInAnyPieces) {
  const std::string text = bytes_from(1, 10'000),
                    file = gzip_of(text.substr(0, 5000)) + gzip_of(text.substr(5000));
  for (const std::size_t piece : {1, 2, 4999, 5000, 5001, 20'000}) {
    const io::MemorySource source = source_of("file", file);
    EXPECT_TRUE(io::is_gzip(source));
    io::GzipStream stream(source);
    std::string found, buffer(piece, '\0');
    for (std::size_t count = piece; count == piece;) {
      count = stream.read(std::as_writable_bytes(std::span(buffer)));
      found += buffer.substr(0, count);
    }
    EXPECT_EQ(found, text);
  }
  EXPECT_FALSE(io::is_gzip(source_of("file", "\x1f")));
  EXPECT_FALSE(io::is_gzip(source_of("file", "\x1f\x8c")));
}

// ---- MNIST --------------------------------------------------------------------------------------

// The four files, with 3 and 2 images.
std::vector<std::pair<std::string, std::string>> mnist_files() {
  return {{"train-images-idx3-ubyte", idx_file(8, {3, 4, 5}, bytes_from(0, 60))},
          {"train-labels-idx1-ubyte", idx_file(8, {3}, "\7\1\2")},
          {"t10k-images-idx3-ubyte", idx_file(8, {2, 4, 5}, bytes_from(9, 40))},
          {"t10k-labels-idx1-ubyte", idx_file(8, {2}, std::string("\0\x9", 2))}};
}

TEST(Mnist, IsReadPlainOrCompressed) {
  for (const int compressed : {0, 1, 2}) {
    const TemporaryDirectory directory;
    int number = 0;
    for (const auto& [name, file] : mnist_files()) {
      const bool gz = compressed == 1 || (compressed == 2 && number++ % 2 == 0);
      write_file(directory / (gz ? name + ".gz" : name), gz ? gzip_of(file, 8) : file);
    }
    const data::ImageSplits splits = data::load_mnist(directory.path());
    EXPECT_EQ(splits.train.images.shape(), (Shape{3, 4, 5}));
    EXPECT_EQ(test_support::bytes_of(splits.train.images), bytes_from(0, 60));
    EXPECT_EQ(splits.train.labels.to_vector<std::int64_t>(), (Labels{7, 1, 2}));
    EXPECT_EQ(test_support::bytes_of(splits.test.images), bytes_from(9, 40));
    EXPECT_EQ(splits.test.labels.to_vector<std::int64_t>(), (Labels{0, 9}));
    EXPECT_EQ(splits.test.classes, (Names{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}));
    const data::ImageSplits fashion = data::load_fashion_mnist(directory.path());
    expect_same(fashion.train.images, splits.train.images);
    EXPECT_EQ(fashion.train.classes.size(), 10U);
    EXPECT_EQ(fashion.train.classes[9], "Ankle boot");
  }
}

TEST(Mnist, RefusesFilesThatDoNotFitTogether) {
  const auto expect_damage = [](const std::string& changed, const std::string& file,
                                const Names& parts) {
    const TemporaryDirectory directory;
    for (const auto& [name, right] : mnist_files()) {
      write_file(directory / name, name == changed ? file : right);
    }
    expect_error<FormatError>([&] { data::load_mnist(directory.path()); }, parts);
  };
  const std::string labels = "train-labels-idx1-ubyte", images = "train-images-idx3-ubyte";
  expect_damage(labels, idx_file(8, {2}, "\1\2"),
                {"load_mnist", labels, "2 labels", "3 images", images});
  expect_damage(labels, idx_file(8, {3}, "\1\2\xa"), {labels, "label 2 is 10", "0 … 9"});
  expect_damage(labels, idx_file(8, {3, 1}, "\1\2\3"), {labels, "[3, 1]", "[count]"});
  expect_damage(labels, idx_file(9, {3}, "\1\2\3"), {labels, "int8", "uint8"});
  expect_damage(images, idx_file(8, {60}, bytes_from(0, 60)), {images, "[60]", "height, width"});
  expect_damage(images, idx_file(8, {3, 0, 5}, ""), {images, "[3, 0, 5]"});
  const TemporaryDirectory directory;
  for (const auto& [name, file] : mnist_files()) write_file(directory / name, file);
  std::filesystem::remove(directory / labels);
  expect_error<IoError>([&] { data::load_mnist(directory.path()); },
                        {"load_mnist", directory.path().string(), labels + "'", labels + ".gz"});
  expect_error<IoError>([&] { data::load_fashion_mnist(directory / "none"); },
                        {"load_fashion_mnist", "none", "train-images-idx3-ubyte.gz"});
}

// Counts and sums computed with Python's gzip and struct.
TEST(Mnist, IsTheRealOne) {
  const std::filesystem::path directory = test_support::data_directory("mnist");
  if (directory.empty()) GTEST_SKIP() << test_support::missing_data;
  const data::ImageSplits splits = data::load_mnist(directory);
  const auto expect = [](const data::LabelledImages& set, std::int64_t count, std::int64_t total,
                         std::uint32_t crc, const Labels& by_class) {
    EXPECT_EQ(set.images.shape(), (Shape{count, 28, 28}));
    const std::string pixels = test_support::bytes_of(set.images);
    std::int64_t found = 0;
    for (const char c : pixels) found += static_cast<unsigned char>(c);
    EXPECT_EQ(found, total);
    EXPECT_EQ(test_support::crc_of(pixels), crc);
    Labels counts(10);
    for (const std::int64_t label : set.labels.to_vector<std::int64_t>()) {
      ++counts.at(static_cast<std::size_t>(label));
    }
    EXPECT_EQ(counts, by_class);
  };
  expect(splits.train, 60'000, 1'567'298'545, 4083391318U,
         {5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949});
  expect(splits.test, 10'000, 264'923'200, 3838467927U,
         {980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009});
  EXPECT_EQ(splits.train.labels.slice(0, 0, 10).to_vector<std::int64_t>(),
            (Labels{5, 0, 4, 1, 9, 2, 1, 3, 1, 4}));
}

// ---- CIFAR --------------------------------------------------------------------------------------

std::string cifar_record(const std::string& labels, int first) {
  return labels + bytes_from(first, 3072);
}

TEST(Cifar, TenIsReadFromSixFiles) {
  for (const std::string inside : {"", "cifar-10-batches-bin/"}) {
    const TemporaryDirectory directory;
    std::filesystem::create_directories((directory / (inside + "x")).parent_path());
    std::string expected;
    Labels labels;
    for (int batch = 1; batch <= 5; ++batch) {
      std::string file;
      for (int i = 0; i < batch * 20; ++i) {  // more than one read returns
        const int label = (batch + i) % 10;
        file += cifar_record(std::string(1, static_cast<char>(label)), batch + i);
        expected += bytes_from(batch + i, 3072);
        labels.push_back(label);
      }
      write_file(directory / (inside + "data_batch_" + std::to_string(batch) + ".bin"), file);
    }
    write_file(directory / (inside + "test_batch.bin"), cifar_record("\3", 77));
    const data::ImageSplits splits = data::load_cifar10(directory.path());
    EXPECT_EQ(splits.train.images.shape(), (Shape{300, 3, 32, 32}));
    EXPECT_EQ(test_support::bytes_of(splits.train.images), expected);
    EXPECT_EQ(splits.train.labels.to_vector<std::int64_t>(), labels);
    EXPECT_EQ(test_support::bytes_of(splits.test.images), bytes_from(77, 3072));
    EXPECT_EQ(splits.test.labels.to_vector<std::int64_t>(), Labels{3});
    EXPECT_EQ(splits.train.classes.size(), 10U);
    EXPECT_EQ(splits.test.classes[3], "cat");
    std::filesystem::remove(directory / (inside + "data_batch_4.bin"));
    expect_error<IoError>([&] { data::load_cifar10(directory.path()); },
                          {"load_cifar10", "data_batch_4.bin", "No such file"});
  }
}

TEST(Cifar, HundredHasItsFineClasses) {
  for (const std::string inside : {"", "cifar-100-binary/"}) {
    const TemporaryDirectory directory;
    std::filesystem::create_directories((directory / (inside + "x")).parent_path());
    write_file(directory / (inside + "train.bin"),
               cifar_record("\x13\x63", 5) + cifar_record(std::string("\0\0", 2), 6));
    write_file(directory / (inside + "test.bin"), cifar_record("\1\2", 7));
    const data::ImageSplits splits = data::load_cifar100(directory.path());
    EXPECT_EQ(splits.train.labels.to_vector<std::int64_t>(), (Labels{99, 0}));
    EXPECT_EQ(test_support::bytes_of(splits.train.images[1]), bytes_from(6, 3072));
    EXPECT_EQ(splits.test.labels.to_vector<std::int64_t>(), Labels{2});
    ASSERT_EQ(splits.train.classes.size(), 100U);
    EXPECT_TRUE(std::ranges::is_sorted(splits.train.classes));  // in the order of their numbers
    EXPECT_EQ(splits.train.classes[99], "worm");
  }
  const TemporaryDirectory nothing;
  expect_error<IoError>([&] { data::load_cifar100(nothing.path()); },
                        {"load_cifar100", "train.bin", "cifar-100-binary/train.bin"});
  expect_error<IoError>([&] { data::load_cifar10(nothing.path()); },
                        {"load_cifar10", "data_batch_1.bin", "cifar-10-batches-bin"});
}

TEST(Cifar, RefusesLabelsBeyondItsClasses) {
  const auto read = [](const std::string& file, const io::CifarKind& kind) {
    const io::MemorySource source = source_of("load_cifar: 'file'", file);
    const io::ByteSource* only = &source;
    return io::read_cifar({&only, 1}, kind);
  };
  EXPECT_EQ(read(cifar_record("\x9", 1), io::cifar10).images.size(0), 1);
  expect_error<FormatError>(
      [&] { read(cifar_record("\1", 1) + cifar_record("\xa", 1), io::cifar10); },
      {"load_cifar: 'file'", "label of record 1 is 10", "0 … 9"});
  expect_error<FormatError>([&] { read(cifar_record("\x14\1", 1), io::cifar100); },
                            {"coarse label of record 0 is 20", "0 … 19"});
  expect_error<FormatError>([&] { read(cifar_record("\1\x64", 1), io::cifar100); },
                            {"the label of record 0 is 100", "0 … 99"});
}

// ---- CSV ----------------------------------------------------------------------------------------

data::NumericTable read_csv(const std::string& text, const data::CsvOptions& options = {}) {
  return io::read_csv(source_of("load_csv: 'file'", text), options);
}

TEST(Csv, ReadsNumbersInLines) {
  const data::NumericTable table = read_csv("1,2.5,-3e2\n+4,.5,1e-3\n");
  EXPECT_EQ(table.values.shape(), (Shape{2, 3}));
  EXPECT_EQ(table.values.to_vector<double>(), (std::vector<double>{1, 2.5, -300, 4, .5, 1e-3}));
  EXPECT_TRUE(table.columns.empty());
  const std::vector<double> plain = {1, 2, 3, 4};
  for (const char* text : {"1,2\n3,4", "1,2\r\n3,4\r\n", "1,2\n3,4\n\n\n", " 1 ,\t2\n3,4 \n",
                           "\xef\xbb\xbf"
                           "1,2\n3,4\n",
                           "\"1\",\"2\"\n\"3\" , 4\n"}) {
    EXPECT_EQ(read_csv(text).values.to_vector<double>(), plain) << text;
  }
  EXPECT_EQ(read_csv("1;2\n3;4", {.separator = ';'}).values.to_vector<double>(), plain);
  EXPECT_EQ(read_csv("1\t2\n3\t4", {.separator = '\t'}).values.to_vector<double>(), plain);
  EXPECT_EQ(read_csv("1 2\n3 4", {.separator = ' '}).values.to_vector<double>(), plain);
}

TEST(Csv, HasNoNumberForAnEmptyCell) {
  const std::vector<double> found = read_csv(",1\n2,\n\"\", \nnan,-inf").values.to_vector<double>();
  ASSERT_EQ(found.size(), 8U);
  for (const std::size_t i : {0, 3, 4, 5, 6}) EXPECT_TRUE(std::isnan(found[i])) << i;
  EXPECT_EQ(found[1], 1);
  EXPECT_EQ(found[2], 2);
  EXPECT_EQ(found[7], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(read_csv("\t1\t", {.separator = '\t'}).values.shape(), (Shape{1, 3}));
}

TEST(Csv, FindsTheNamesOfColumns) {
  const data::NumericTable table = read_csv("length, \"a \"\"wide\"\", one\",\n1,2,3\n");
  EXPECT_EQ(table.columns, (Names{"length", "a \"wide\", one", ""}));
  EXPECT_EQ(table.values.to_vector<double>(), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(read_csv("x,y").values.shape(), (Shape{0, 2}));
  EXPECT_EQ(read_csv("x,y\n").columns, (Names{"x", "y"}));
  // An explicit option overrides detection.
  EXPECT_EQ(read_csv("1,2\n3,4", {.header = true}).columns, (Names{"1", "2"}));
  EXPECT_EQ(read_csv("1,2\n3,4", {.header = true}).values.shape(), (Shape{1, 2}));
  expect_error<FormatError>([] { read_csv("x,2\n3,4", {.header = false}); },
                            {"load_csv: 'file'", "line 1, column 1", "'x'", "no number"});
}

TEST(Csv, NamesTheLineAndColumnOfWhatIsWrong) {
  const auto wrong = [](const std::string& text, const Names& parts) {
    expect_error<FormatError>([&] { read_csv(text); }, parts);
  };
  wrong("1,2\n3,x4\n", {"load_csv: 'file'", "line 2, column 2", "'x4'", "no number"});
  for (const char* cell :
       {"1.2.3", "0x10", "1e", "++1", "+-1", "+", "-", "1 2", "1_000", "true", "NA"}) {
    wrong(std::string("a,b\n1,2\n3,") + cell, {"line 3, column 2", "no number"});
  }
  wrong("1,1e999", {"line 1, column 2", "'1e999'", "beyond float64"});
  wrong("1,2\n3\n", {"line 2, column 1", "1 cells", "2"});
  wrong("1,2\n3,4,5\n", {"line 2, column 3", "more than the 2 cells"});
  wrong("1,2\n\n3,4\n", {"line 2 is empty"});
  wrong("\n1,2\n", {"line 1 is empty"});
  wrong("", {"no line"});
  wrong("\n\r\n\n", {"no line"});
  wrong("\xef\xbb\xbf", {"no line"});
  wrong("1,\"2\n3,4\"\n", {"line 1, column 2", "quote"});
  wrong("a,b\n1,\"2\"3\n", {"line 2, column 2", "behind a quoted cell"});
  wrong("a,b\n1,2\"3\n", {"line 2, column 2", "quote inside"});
  wrong(std::string("1,2\n3,\0004\n", 9), {"line 2, column 2", "\\x00"});
  const TemporaryDirectory directory;
  write_file(directory / "x.csv", "1,2\n3,four\n");
  expect_error<FormatError>(
      [&] { data::load_csv(directory / "x.csv"); },
      {"load_csv", (directory / "x.csv").string(), "line 2, column 2", "'four'"});
  for (const char separator : {'"', '\n', '\r', '1', '.', '-', 'e', '\0'}) {
    expect_error<ValueError>([&] { data::load_csv(directory / "x.csv", {.separator = separator}); },
                             {"load_csv", "separator"});
  }
}

}  // namespace
