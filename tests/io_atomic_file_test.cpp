// Atomic writes: a file is replaced completely or not at all, whichever system call fails.
#include "io/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "io/npz.h"
#include "io/safetensors.h"
#include "support/faulty_files.h"
#include "support/files.h"

namespace extensor {
namespace {

using test_support::FaultyFiles;
using test_support::read_file;
using test_support::TemporaryDirectory;
using test_support::write_file;

const NamedTensors sample = {{"a", arange(100, float32)}, {"b", ones({3, 3}).transpose()}};

void write_sample(const std::filesystem::path& path, FaultyFiles& files) {
  io::AtomicFile file("save", path, files);
  io::write_safetensors(file, sample, {});
  file.commit();
}

std::string sample_bytes() {
  io::MemorySink sink;
  io::write_safetensors(sink, sample, {});
  return {reinterpret_cast<const char*>(sink.bytes.data()), sink.bytes.size()};
}

// The number of open descriptors of this process.
std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

// Every call fails once in turn: the file is the old one or, after the rename, the new one.
void fail_each_call(bool replaces) {
  std::vector<std::string> failed;
  const std::size_t open_before = open_descriptors();
  for (int failing = 0;; ++failing) {
    const TemporaryDirectory directory;
    const std::filesystem::path path = directory / "weights";
    if (replaces) write_file(path, "the old file");
    FaultyFiles files;
    files.failing = failing;
    files.error = failing % 2 == 0 ? ENOSPC : EIO;
    const std::string reason = failing % 2 == 0 ? "No space left on device" : "Input/output error";
    try {
      write_sample(path, files);
      EXPECT_EQ(read_file(path), sample_bytes());
      if (files.failed.empty()) break;  // no call was left to fail
      // The directory is synced by then, and a failure to close it is not reported.
      EXPECT_EQ(files.failed, "close");
      EXPECT_TRUE(files.renamed);
    } catch (const IoError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("save: '" + path.string() + "'"), std::string::npos) << text;
      EXPECT_NE(text.find(reason), std::string::npos) << text;
      if (files.renamed) {
        EXPECT_EQ(read_file(path), sample_bytes());
      } else if (replaces) {
        EXPECT_EQ(read_file(path), "the old file");
      } else {
        EXPECT_FALSE(std::filesystem::exists(path));
      }
    }
    failed.push_back(files.failed);
    EXPECT_EQ(directory.names().size(), replaces || files.renamed ? 1U : 0U) << files.failed;
    EXPECT_EQ(open_descriptors(), open_before) << files.failed;
    ASSERT_LT(failing, 100);
  }
  for (const char* call : {"open", "write", "fsync", "close", "rename"}) {
    EXPECT_NE(std::ranges::find(failed, call), failed.end()) << call;
  }
  EXPECT_EQ(std::ranges::find(failed, "fchmod") != failed.end(), replaces);
}

TEST(AtomicFile, EveryCallMayFailWithAnOldFile) { fail_each_call(true); }
TEST(AtomicFile, EveryCallMayFailWithoutAnOldFile) { fail_each_call(false); }

TEST(AtomicFile, ShortAndInterruptedWritesGoOn) {
  const TemporaryDirectory directory;
  FaultyFiles files;
  files.most = 7;
  files.interrupts = true;
  write_sample(directory / "x", files);
  EXPECT_EQ(read_file(directory / "x"), sample_bytes());
}

TEST(AtomicFile, AWriteThatTakesNothingIsAnError) {
  const TemporaryDirectory directory;
  FaultyFiles files;
  files.most = 0;
  EXPECT_THROW(write_sample(directory / "x", files), IoError);
  EXPECT_TRUE(directory.names().empty());
}

TEST(AtomicFile, WithoutCommitNothingHappens) {
  const TemporaryDirectory directory;
  write_file(directory / "x", "old");
  {
    io::AtomicFile file("save", directory / "x");
    file.write("new");
    EXPECT_EQ(directory.names().size(), 2U);
  }
  EXPECT_EQ(directory.names(), std::vector<std::string>{"x"});
  EXPECT_EQ(read_file(directory / "x"), "old");
}

TEST(AtomicFile, KeepsTheModeAndFollowsLinks) {
  const TemporaryDirectory directory;
  std::filesystem::create_directory(directory / "elsewhere");
  const std::filesystem::path real = directory / "elsewhere/real";
  write_file(real, "old");
  std::filesystem::permissions(real, std::filesystem::perms(0640));
  std::filesystem::create_symlink("elsewhere/real", directory / "link");
  io::AtomicFile file("save", directory / "link");
  file.write("new");
  file.commit();
  EXPECT_TRUE(std::filesystem::is_symlink(directory / "link"));
  EXPECT_EQ(read_file(real), "new");
  EXPECT_EQ(static_cast<int>(std::filesystem::status(real).permissions()), 0640);
}

TEST(AtomicFile, ALongNameIsNoTrouble) {
  const TemporaryDirectory directory;
  const std::string name(255, 'x');
  io::AtomicFile file("save", directory / name);
  file.write("new");
  file.commit();
  EXPECT_EQ(read_file(directory / name), "new");
}

TEST(AtomicFile, ANameWithoutADirectoryIsInTheCurrentOne) {
  const TemporaryDirectory directory;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(directory.path());
  save_npy("here.npy", ones({2}));
  EXPECT_EQ(load_npy("here.npy").numel(), 2);
  std::filesystem::current_path(before);
  EXPECT_EQ(directory.names(), std::vector<std::string>{"here.npy"});
}

}  // namespace
}  // namespace extensor
