// Event files, read back by a small independent parser.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <map>

#include "io/zip_format.h"
#include "support/child_process.h"
#include "support/files.h"
#include "train/crc32c.h"

namespace extensor {
namespace {

using io::number_at;
using test_support::expect_error;
using test_support::read_file;
using test_support::TemporaryDirectory;
using train::EventFile;

// ---- the checksum -------------------------------------------------------------------------------

// From RFC 3720, appendix B.4, and the usual check value.
TEST(Crc32c, OfKnownBytes) {
  std::string ascending, descending;
  for (int i = 0; i < 32; ++i) {
    ascending += static_cast<char>(i);
    descending += static_cast<char>(31 - i);
  }
  EXPECT_EQ(train::crc32c(""), 0U);
  EXPECT_EQ(train::crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(train::crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(train::crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  EXPECT_EQ(train::crc32c(ascending), 0x46dd794eU);
  EXPECT_EQ(train::crc32c(descending), 0x113fdb5cU);
}

// Bit by bit, without a table.
std::uint32_t plain_masked(const std::string& bytes) {
  std::uint32_t value = 0xffffffff;
  for (const char byte : bytes) {
    value ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      value = (value & 1) != 0 ? value / 2 ^ 0x82f63b78U : value / 2;
    }
  }
  value = ~value;
  return static_cast<std::uint32_t>((std::uint64_t{value} * (1 << 17) + value / (1 << 15)) +
                                    0xa282ead8U);
}

// ---- the parser ---------------------------------------------------------------------------------

std::vector<std::string> records_of(const std::string& file) {
  std::vector<std::string> records;
  for (std::size_t at = 0; at < file.size();) {
    if (file.size() - at < 16) throw std::runtime_error("a record's frame is cut");
    const auto size = number_at<std::uint64_t>(file, at);
    if (size > file.size() - at - 16) throw std::runtime_error("a record is cut");
    EXPECT_EQ(number_at<std::uint32_t>(file, at + 8), plain_masked(file.substr(at, 8)));
    records.push_back(file.substr(at + 12, size));
    EXPECT_EQ(number_at<std::uint32_t>(file, at + 12 + size), plain_masked(records.back()));
    at += 16 + size;
  }
  return records;
}

std::uint64_t varint(const std::string& bytes, std::size_t& at) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.at(at++));
    value |= std::uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return value;
  }
}

// The fields of a message: numbers as such, the others as their bytes. Each occurs once.
struct Fields {
  std::map<std::uint64_t, std::uint64_t> numbers;
  std::map<std::uint64_t, std::string> bytes;
};

Fields fields_of(const std::string& message) {
  Fields fields;
  for (std::size_t at = 0; at < message.size();) {
    const std::uint64_t key = varint(message, at), field = key >> 3;
    EXPECT_FALSE(fields.numbers.contains(field) || fields.bytes.contains(field)) << field;
    if ((key & 7) == 0) {
      fields.numbers[field] = varint(message, at);
      continue;
    }
    const std::uint64_t size = (key & 7) == 1 ? 8 : (key & 7) == 5 ? 4 : varint(message, at);
    EXPECT_NE(key & 7, 3U);
    fields.bytes[field] = message.substr(at, size);
    EXPECT_EQ(fields.bytes[field].size(), size);
    at += size;
  }
  return fields;
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// ---- files --------------------------------------------------------------------------------------

TEST(EventFile, BeginsWithItsVersion) {
  const TemporaryDirectory directory;
  const double before = seconds_now();
  const EventFile events(directory.path() / "a/b");
  EXPECT_EQ(events.path().parent_path(), directory.path() / "a/b");
  EXPECT_TRUE(events.path().filename().string().starts_with("events.out.tfevents.1"));
  const auto records = records_of(read_file(events.path()));
  ASSERT_EQ(records.size(), 1U);
  const Fields event = fields_of(records[0]);
  EXPECT_EQ(event.bytes.at(3), "brain.Event:2");
  const auto time = number_at<double>(event.bytes.at(1), 0);
  EXPECT_GE(time, before);
  EXPECT_LE(time, seconds_now());
  EXPECT_EQ(event.bytes.size(), 2U);
}

TEST(EventFile, HoldsScalars) {
  const TemporaryDirectory directory;
  EventFile events(directory.path());
  const struct {
    std::string name;
    double value;
    std::int64_t step;
  } scalars[] = {{"loss/train", 0.25, 0},
                 {"Größe", -3.5, 300},
                 {"", 1e300, INT64_MAX},
                 {std::string(200, 'x'), -INFINITY, -1},
                 {"nan", NAN, 1}};
  std::size_t size = 1;
  for (const auto& scalar : scalars) {
    events.add_scalar(scalar.name, scalar.value, scalar.step);
    // Complete after every record, not only when the file is closed.
    const auto records = records_of(read_file(events.path()));
    ASSERT_EQ(records.size(), ++size);
    const Fields event = fields_of(records.back());
    EXPECT_EQ(event.bytes.at(1).size(), 8U);
    EXPECT_EQ(static_cast<std::int64_t>(event.numbers.at(2)), scalar.step);
    const Fields value = fields_of(fields_of(event.bytes.at(5)).bytes.at(1));
    EXPECT_EQ(value.bytes.at(1), scalar.name);
    const auto number = number_at<float>(value.bytes.at(2), 0);
    if (std::isnan(scalar.value)) {
      EXPECT_TRUE(std::isnan(number));
    } else {
      EXPECT_EQ(number, scalar.value == 1e300 ? INFINITY : scalar.value);
    }
    EXPECT_EQ(value.bytes.size(), 2U);
  }
}

TEST(EventFile, HoldsTexts) {
  const TemporaryDirectory directory;
  EventFile events(directory.path());
  const std::string text = "# Titel\n\n| a | ä |\n" + std::string(100'000, 'x');
  events.add_text("configuration", text, 7);
  const auto records = records_of(read_file(events.path()));
  ASSERT_EQ(records.size(), 2U);
  const Fields event = fields_of(records[1]);
  EXPECT_EQ(event.numbers.at(2), 7U);
  const Fields value = fields_of(fields_of(event.bytes.at(5)).bytes.at(1));
  EXPECT_EQ(value.bytes.at(1), "configuration");
  const Fields tensor = fields_of(value.bytes.at(8));
  EXPECT_EQ(tensor.numbers.at(1), 7U);                                                // DT_STRING
  EXPECT_EQ(fields_of(fields_of(tensor.bytes.at(2)).bytes.at(2)).numbers.at(1), 1U);  // [1]
  EXPECT_EQ(tensor.bytes.at(8), text);
  const Fields metadata = fields_of(value.bytes.at(9));
  EXPECT_EQ(fields_of(metadata.bytes.at(1)).bytes.at(1), "text");
  EXPECT_EQ(metadata.numbers.at(4), 2U);  // DATA_CLASS_TENSOR
}

TEST(EventFile, HasANameOfItsOwn) {
  const TemporaryDirectory directory;
  EventFile one(directory.path()), two(directory.path());
  EXPECT_NE(one.path(), two.path());
  EventFile moved = std::move(one);
  moved.add_scalar("x", 1, 1);
  two = std::move(moved);
  two.add_scalar("x", 2, 2);
  EXPECT_EQ(records_of(read_file(two.path())).size(), 3U);
  EXPECT_EQ(directory.names().size(), 2U);
}

TEST(EventFile, RefusesWhatIsNotUtf8) {
  const TemporaryDirectory directory;
  EventFile events(directory.path());
  expect_error<ValueError>([&] { events.add_scalar("a\xff", 1, 1); },
                           {"EventFile::add_scalar", "name", "'\\xff'", "byte 1"});
  expect_error<ValueError>([&] { events.add_text("\xc3", "text", 1); }, {"add_text", "name"});
  expect_error<ValueError>([&] { events.add_text("name", "te\xfext", 1); }, {"text", "byte 2"});
  EXPECT_EQ(records_of(read_file(events.path())).size(), 1U);
}

CHILD_TEST(EventFile, SaysWhyADirectoryCannotBe) {
  const TemporaryDirectory directory;
  test_support::write_file(directory / "file", "");
  expect_error<IoError>([&] { EventFile{directory / "file"}; }, {"EventFile", "/file'"});
  expect_error<IoError>([&] { EventFile{directory / "file/below"}; },
                        {"EventFile", "file/below", "Not a directory"});
  expect_error<IoError>([] { EventFile{"/proc/none"}; }, {"EventFile", "/proc/none"});
  expect_error<ValueError>([&] { EventFile{directory / std::string("a\0b", 3)}; }, {"NUL"});
  EXPECT_EQ(directory.names(), std::vector<std::string>{"file"});
}

// If the system fails in the middle of a record, the record is removed, and the next one is valid.
CHILD_TEST(EventFile, TakesBackARecordCutShort) {
  const TemporaryDirectory directory;
  EventFile events(directory.path());
  events.add_scalar("x", 1, 1);
  const std::string before = read_file(events.path());
  signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlim_t old = limit.rlim_cur;
  limit.rlim_cur = before.size() + 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  expect_error<IoError>([&] { events.add_text("x", std::string(1000, 'y'), 2); },
                        {"EventFile", events.path().string(), "File too large"});
  EXPECT_EQ(read_file(events.path()), before);
  limit.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  expect_error<IoError>([&] { EventFile{directory / "new"}; }, {"EventFile", "File too large"});
  EXPECT_TRUE(std::filesystem::is_empty(directory / "new"));
  limit.rlim_cur = old;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  events.add_scalar("x", 2, 2);
  EXPECT_EQ(records_of(read_file(events.path())).size(), 3U);
}

}  // namespace
}  // namespace extensor
