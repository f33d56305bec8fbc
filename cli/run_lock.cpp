// The lock of a run's directory: flock on a file, which the system releases when the process ends,
// even by SIGKILL.
#include <extensor/extensor.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <iostream>

#include "cli/run_directory.h"
#include "io/system_error.h"
#include "io/text.h"

namespace extensor::cli {

namespace {

// The process ID in the file; empty if it has not been written yet.
std::string holder(int descriptor) {
  char digits[32];
  const ssize_t count = pread(descriptor, digits, sizeof digits, 0);
  std::string text(digits, count < 0 ? 0 : static_cast<std::size_t>(count));
  text.resize(std::min(text.find_first_not_of("0123456789"), text.size()));
  return text.empty() ? "another process" : "process " + text;
}

bool is_file_at(int descriptor, const std::filesystem::path& path) {
  struct stat mine {
  }, named{};
  return fstat(descriptor, &mine) == 0 && stat(path.c_str(), &named) == 0 &&
         mine.st_ino == named.st_ino && mine.st_dev == named.st_dev;
}

int open_lock(const std::filesystem::path& path) {
  const std::string label = io::in_quotes(path.native());
  const int descriptor =
      open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0666);
  if (descriptor < 0) io::throw_system_error(label, "cannot be written", errno);
  struct stat status {};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(descriptor);
    throw IoError(label + " is " + std::string(io::kind_of_file(status.st_mode)) +
                  " (allowed: a regular file, or none yet)");
  }
  return descriptor;
}

}  // namespace

RunLock::RunLock(const RunDirectory& directory) : path_(directory.lock()) {
  // The previous holder removes the file, so the file that was opened may no longer exist.
  do {
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = open_lock(path_);
    int result = 0;
    do {
      result = flock(descriptor_, LOCK_EX | LOCK_NB);
    } while (result != 0 && errno == EINTR);
    if (result != 0 && errno == EWOULDBLOCK) {
      const std::string who = holder(descriptor_);
      close(descriptor_);
      throw IoError("the run in " + io::in_quotes(directory.path.native()) + " is in use by " +
                    who + " (allowed: one process at a time)");
    }
    if (result != 0) {
      std::cerr << "extensor: warning: " << io::in_quotes(path_.native())
                << " cannot be locked on this file system; do not use the run twice at once\n";
      break;
    }
  } while (!is_file_at(descriptor_, path_));
  const std::string number = std::to_string(getpid()) + "\n";
  if (ftruncate(descriptor_, 0) != 0 ||
      pwrite(descriptor_, number.data(), number.size(), 0) != std::ssize(number)) {
    // Ignored: the lock is valid without the process ID, which only improves a message.
  }
}

RunLock::~RunLock() {
  unlink(path_.c_str());
  close(descriptor_);
}

}  // namespace extensor::cli
