// Tests of bad input. Each runs in a separate process, so that a crash fails one test and not the
// suite, and expect_error checks everything that an error must satisfy.
//
//   CHILD_TEST(BadInputCreation, Item01NegativeDimension) {
//     expect_error<ShapeError>([] { zeros({2, -3}); }, {"zeros", "-3"});
//   }
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <source_location>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "core/make_tensor.h"
#include "extensor/extensor.h"

extern "C" char** environ;

namespace test_support {

// ---- a process per test -------------------------------------------------------------------------

inline constexpr const char* child_variable = "EXTENSOR_TEST_CHILD";

inline bool is_child_process() { return std::getenv(child_variable) != nullptr; }

struct ChildResult {
  int status = 0;  // as returned by waitpid
  bool timed_out = false;
  std::string output;

  bool passed() const { return !timed_out && WIFEXITED(status) && WEXITSTATUS(status) == 0; }
  std::string description() const {
    if (timed_out) return "did not end in time";
    if (WIFSIGNALED(status)) return std::string("was ended by ") + strsignal(WTERMSIG(status));
    return "ended with status " + std::to_string(WEXITSTATUS(status));
  }
};

// Reads until the writer closes or the deadline passes; false in the latter case.
inline bool read_until(int descriptor, std::chrono::steady_clock::time_point deadline,
                       std::string& text) {
  char buffer[4096];
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd waiting{descriptor, POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(left.count())) <= 0) continue;
    const ssize_t count = read(descriptor, buffer, sizeof(buffer));
    if (count <= 0) return true;
    text.append(buffer, static_cast<std::size_t>(count));
  }
}

// Runs this program again with only that test. A new program, not a fork of this one: a forked
// process would inherit the sanitizers' state without their threads.
inline ChildResult run_test_in_child(const std::string& test) {
  std::vector<std::string> settings = {std::string(child_variable) + "=1"};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::string_view(*entry).substr(0, 6) != "GTEST_") settings.emplace_back(*entry);
  }
  std::vector<char*> environment;
  for (std::string& setting : settings) environment.push_back(setting.data());
  environment.push_back(nullptr);
  std::string program = "/proc/self/exe";
  std::string filter = "--gtest_filter=" + test;
  char* arguments[] = {program.data(), filter.data(), nullptr};

  ChildResult result;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    result.output = "pipe2 failed";
    result.status = 1 << 8;
    return result;
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  pid_t child = 0;
  const int failure =
      posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environment.data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (failure != 0) {
    result.output = std::string("posix_spawn failed: ") + strerror(failure);
    result.status = 1 << 8;
  } else {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    result.timed_out = !read_until(ends[0], deadline, result.output);
    if (result.timed_out) kill(child, SIGKILL);
    while (waitpid(child, &result.status, 0) < 0 && errno == EINTR) {
    }
  }
  close(ends[0]);
  return result;
}

inline void expect_passes_in_child(const std::string& test) {
  const ChildResult result = run_test_in_child(test);
  // A filter that matches nothing passes too, so the output must contain the line of the test
  // itself.
  const bool ran = result.output.find("[       OK ] " + test) != std::string::npos;
  EXPECT_TRUE(result.passed() && ran) << test << " " << result.description() << "; it printed:\n"
                                      << result.output;
}

// Like TEST, with the body run in a separate process.
#define CHILD_TEST(suite, name)                                             \
  static void suite##_##name##_body();                                      \
  TEST(suite, name) {                                                       \
    if (::test_support::is_child_process()) return suite##_##name##_body(); \
    ::test_support::expect_passes_in_child(#suite "." #name);               \
  }                                                                         \
  static void suite##_##name##_body()

// ---- requirements on an error

// Everything about a tensor that a failed call could have changed.
struct Snapshot {
  extensor::Tensor tensor;
  extensor::Shape shape;
  extensor::Strides strides;
  std::uint64_t version;
  std::vector<unsigned char> storage;

  explicit Snapshot(const extensor::Tensor& x)
      : tensor(x),
        shape(x.shape()),
        strides(x.strides()),
        version(x.impl().storage->version),
        storage(bytes()) {}

  std::vector<unsigned char> bytes() const {
    const extensor::StoragePointer& whole = tensor.impl().storage;
    using Type = extensor::Device::Type;
    const Type type = whole->device.type;
    // Without a CUDA device, tests wrap host memory as that of one.
    if (type == Type::cpu || (type == Type::cuda && !extensor::cuda_is_available())) {
      const auto* first = static_cast<const unsigned char*>(whole->data);
      return {first, first + whole->bytes};
    }
    return extensor::detail::make_on_storage(whole, static_cast<std::byte*>(whole->data),
                                             extensor::DType::uint8,
                                             {static_cast<std::int64_t>(whole->bytes)}, {1})
        .to_vector<unsigned char>();
  }
  bool unchanged() const {
    return tensor.shape() == shape && tensor.strides() == strides &&
           tensor.impl().storage->version == version && bytes() == storage;
  }
};

// A few calls through every kernel family, with results known by hand.
inline void expect_library_works() {
  using namespace extensor;
  const Tensor x = tensor({{1., 2., 3.}, {4., 5., 6.}});
  EXPECT_EQ((x + x.slice(0, 0, 1)).to_vector<float>(), (std::vector<float>{2, 4, 6, 5, 7, 9}));
  EXPECT_EQ(sum(x, 0).to_vector<float>(), (std::vector<float>{5, 7, 9}));
  EXPECT_EQ(matmul(x, x.transpose()).to_vector<float>(), (std::vector<float>{14, 32, 32, 77}));
  EXPECT_EQ(softmax(zeros({2, 2})).to_vector<float>(), std::vector<float>(4, 0.5F));
  EXPECT_EQ(arange(5).slice(0, 4, {}, -2).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{4, 2, 0}));
}

// Checks that `call` throws exactly ErrorType, that the message contains every part of `parts`,
// that the arguments are unchanged, and that the library keeps working.
template <class ErrorType, class Call>
void expect_error(Call&& call, const std::vector<std::string>& parts,
                  const std::vector<extensor::Tensor>& arguments = {},
                  const std::source_location& where = std::source_location::current()) {
  const ::testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "here");
  std::vector<Snapshot> before;
  for (const extensor::Tensor& argument : arguments) before.emplace_back(argument);
  try {
    call();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const extensor::Error& error) {
    EXPECT_EQ(typeid(error), typeid(ErrorType)) << error.what();
    for (const std::string& part : parts) {
      EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos)
          << "no \"" << part << "\" in: " << error.what();
    }
  } catch (const std::exception& error) {
    ADD_FAILURE() << "not an extensor::Error: " << typeid(error).name() << ": " << error.what();
  }
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_TRUE(before[i].unchanged()) << "argument " << i << " was changed";
  }
  expect_library_works();
}

}  // namespace test_support
