// Checkpoints: exact, complete or absent, and resuming from the newest intact one.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "extensor/extensor.h"
#include "support/faulty_files.h"
#include "support/files.h"
#include "train/checkpoint_format.h"

namespace extensor::train {
namespace {

using test_support::FaultyFiles;
using test_support::read_file;
using test_support::TemporaryDirectory;
using test_support::write_file;

Checkpoint sample(double mark = 1) {
  Checkpoint checkpoint;
  checkpoint.tensors = {{"model.weight", arange(6, float32).reshape({2, 3}) * mark},
                        {"model.count", tensor({1, 2, 3})},
                        {"half", scalar(0.5, float16)},
                        {"none", zeros({2, 0}, bool_)}};
  checkpoint.numbers = {{"mark", mark},
                        {"tenth", 0.1},
                        {"tiny", std::numeric_limits<double>::denorm_min()},
                        {"large", std::numeric_limits<double>::max()},
                        {"minus", -0.0},
                        {"endless", -std::numeric_limits<double>::infinity()},
                        {"no number", std::nan("")}};
  checkpoint.texts = {{"configuration", "{\"lr\": 1, \"name\": \"Zürich\\n\"}"}, {"empty", ""}};
  return checkpoint;
}

void expect_same(const Checkpoint& a, const Checkpoint& b) {
  test_support::expect_same(a.tensors, b.tensors);
  ASSERT_EQ(a.numbers.size(), b.numbers.size());
  for (const auto& [name, value] : a.numbers) {
    const double other = b.numbers.at(name);
    // The same bits, except for the payload of a NaN.
    EXPECT_TRUE(std::isnan(value) ? std::isnan(other)
                                  : value == other && std::signbit(value) == std::signbit(other))
        << name << ": " << value << " and " << other;
  }
  EXPECT_EQ(a.texts, b.texts);
}

template <class Kind>
std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Kind& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Checkpoint, ComesBackToTheLastBit) {
  const TemporaryDirectory directory;
  save_checkpoint(directory / "a", sample());
  expect_same(load_checkpoint(directory / "a"), sample());
  // Any program can read its tensors.
  EXPECT_EQ(load_safetensors(directory / "a").tensors.size(), 4U);
}

TEST(Checkpoint, NoticesEveryByteThatChanges) {
  const TemporaryDirectory directory;
  save_checkpoint(directory / "a", sample());
  const std::string whole = read_file(directory / "a");
  int noticed = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    const io::MemorySource source("changed", std::as_bytes(std::span(changed)));
    try {
      // Whitespace between two parts of the header may change.
      expect_same(read_checkpoint(source), sample());
    } catch (const FormatError&) {
      ++noticed;
    }
  }
  EXPECT_GT(noticed, static_cast<int>(whole.size()) - 16);
}

TEST(Checkpoint, NoticesEveryTruncation) {
  const TemporaryDirectory directory;
  save_checkpoint(directory / "a", sample());
  const std::string whole = read_file(directory / "a");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const io::MemorySource source("cut", std::as_bytes(std::span(whole).first(length)));
    EXPECT_THROW(read_checkpoint(source), FormatError) << length;
  }
}

TEST(Checkpoint, SaysWhichTensorIsDamaged) {
  const TemporaryDirectory directory;
  save_checkpoint(directory / "a", sample());
  std::string bytes = read_file(directory / "a");
  bytes[bytes.size() - 3] ^= 4;  // in "model.count", the last but for smaller ones
  write_file(directory / "a", bytes);
  const std::string text = message_of<FormatError>([&] { load_checkpoint(directory / "a"); });
  EXPECT_NE(text.find("is damaged: its checksum is"), std::string::npos) << text;
  EXPECT_NE(text.find("tensor '"), std::string::npos) << text;
}

TEST(Checkpoint, IsNoOtherFile) {
  const TemporaryDirectory directory;
  save_safetensors(directory / "a", {{"x", ones({2})}});
  const std::string text = message_of<FormatError>([&] { load_checkpoint(directory / "a"); });
  EXPECT_NE(text.find("is no checkpoint"), std::string::npos) << text;
}

// Every write, fsync, rename … fails once: either the old checkpoint or the new one loads.
TEST(Checkpoint, EveryFaultLeavesAWholeOne) {
  std::vector<std::string> failed;
  for (int failing = 0;; ++failing) {
    const TemporaryDirectory directory;
    save_checkpoint(directory / "a", sample(1));
    FaultyFiles files;
    files.failing = failing;
    files.error = failing % 2 == 0 ? ENOSPC : EIO;
    bool threw = false;
    try {
      write_checkpoint(directory / "a", sample(2), files);
    } catch (const IoError& error) {
      threw = true;
      EXPECT_NE(std::string(error.what()).find((directory / "a").string()), std::string::npos);
    }
    if (files.failed.empty()) break;
    failed.push_back(files.failed);
    expect_same(load_checkpoint(directory / "a"), sample(files.renamed ? 2 : 1));
    EXPECT_TRUE(threw || files.renamed) << files.failed;
    EXPECT_EQ(directory.names().size(), 1U) << files.failed;
    ASSERT_LT(failing, 1000);
  }
  for (const char* call : {"open", "write", "fsync", "close", "rename"}) {
    EXPECT_NE(std::ranges::find(failed, call), failed.end()) << call;
  }
}

TEST(Checkpoints, KeepTheNewest) {
  const TemporaryDirectory directory;
  const Checkpoints all(directory / "deep", 2);
  EXPECT_FALSE(all.newest().has_value());
  for (int step : {5, 10, 99'999'999, 100'000'000}) all.save(step, sample(step));
  ASSERT_EQ(all.list().size(), 2U);
  EXPECT_EQ(all.list()[1].filename(), "step-100000000.safetensors");
  const auto found = all.newest();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->step, 100'000'000);
  EXPECT_TRUE(found->damaged.empty());
  expect_same(found->state, sample(100'000'000));
}

TEST(Checkpoints, PassOverTheDamagedAndNameThem) {
  const TemporaryDirectory directory;
  const Checkpoints all(directory.path(), 3);
  for (int step : {1, 2, 3}) all.save(step, sample(step));
  const std::string whole = read_file(directory / "step-00000003.safetensors");
  write_file(directory / "step-00000003.safetensors", whole.substr(0, whole.size() / 2));
  write_file(directory / "step-00000002.safetensors", "");
  write_file(directory / "notes.txt", "something else");
  const auto found = all.newest();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->step, 1);
  ASSERT_EQ(found->damaged.size(), 2U);
  EXPECT_NE(found->damaged[0].find("step-00000003.safetensors"), std::string::npos);
  EXPECT_NE(found->damaged[1].find("step-00000002.safetensors"), std::string::npos);

  write_file(directory / "step-00000001.safetensors", "x");
  const std::string text = message_of<FormatError>([&] { all.newest(); });
  EXPECT_NE(text.find("step-00000001.safetensors"), std::string::npos) << text;
}

TEST(Checkpoints, RemoveWhatAKilledProcessLeft) {
  const TemporaryDirectory directory;
  write_file(directory / ".step-00000007.safetensors.123.tmp", "half");
  write_file(directory / "mine.tmp", "kept");
  Checkpoints(directory.path()).save(8, sample());
  EXPECT_FALSE(std::filesystem::exists(directory / ".step-00000007.safetensors.123.tmp"));
  EXPECT_TRUE(std::filesystem::exists(directory / "mine.tmp"));
}

TEST(Checkpoints, RefuseWhatCannotBe) {
  EXPECT_THROW(Checkpoints("x", 0), ValueError);
  const TemporaryDirectory directory;
  EXPECT_THROW(Checkpoints(directory.path()).save(-1, sample()), ValueError);
  write_file(directory / "file", "x");
  EXPECT_THROW(Checkpoints(directory / "file").save(1, sample()), IoError);
  EXPECT_THROW(save_checkpoint(directory / "a", {{{"x", Tensor()}}, {}, {}}), ValueError);
  EXPECT_THROW(save_checkpoint(directory / "a", {{}, {}, {{"text", "\xff"}}}), ValueError);
  EXPECT_FALSE(std::filesystem::exists(directory / "a"));
}

}  // namespace
}  // namespace extensor::train
