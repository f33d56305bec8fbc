#include "cli/launcher.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include "io/system_error.h"

namespace extensor::cli {

namespace {

// The parent of every process that can be read.
std::map<pid_t, pid_t> parents() {
  std::map<pid_t, pid_t> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    pid_t process = 0;
    std::from_chars(name.data(), name.data() + name.size(), process);
    if (process == 0) continue;
    std::ifstream file(entry.path() / "stat");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    // "12 (a name) S 11 …": the name may contain parentheses.
    const std::size_t end = text.rfind(')');
    if (end == std::string::npos || end + 4 > text.size()) continue;
    std::from_chars(text.data() + end + 4, text.data() + text.size(), found[process]);
  }
  return found;
}

// The processes below `root` that run this program.
std::vector<pid_t> ranks_below(pid_t root) {
  const auto program = [](const std::string& process) {
    std::error_code error;
    return std::filesystem::read_symlink("/proc/" + process + "/exe", error);
  };
  const std::filesystem::path own = program("self");
  const std::map<pid_t, pid_t> all = parents();
  std::vector<pid_t> ranks;
  for (const auto& [process, parent] : all) {
    auto above = all.find(parent);
    while (above != all.end() && above->first != root) above = all.find(above->second);
    if (above != all.end() && program(std::to_string(process)) == own) ranks.push_back(process);
  }
  return ranks;
}

// Returns the process, or throws.
pid_t start(std::vector<std::string> words, const sigset_t& mask) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
  std::array<int, 2> failure{-1, -1};  // the error of exec
  if (pipe2(failure.data(), O_CLOEXEC) != 0) io::throw_system_error("--processes", "pipe", errno);
  const pid_t process = fork();
  if (process == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);  // also if this process is killed
    signal(SIGTTOU, SIG_IGN);          // it may write to the terminal
    sigprocmask(SIG_SETMASK, &mask, nullptr);
    dup2(input, STDIN_FILENO);
    execvp(pointers[0], pointers.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t written = write(failure[1], &error, sizeof(error));
    _exit(127);
  }
  int error = process < 0 ? errno : 0;
  close(failure[1]);
  close(input);
  if (process > 0 && read(failure[0], &error, sizeof(error)) > 0) waitpid(process, nullptr, 0);
  close(failure[0]);
  if (error != 0) {
    sigprocmask(SIG_SETMASK, &mask, nullptr);
    io::throw_system_error("--processes",
                           "cannot start " + words[0] + " (Debian, Ubuntu: openmpi-bin)", error);
  }
  return process;
}

}  // namespace

int run_launcher(std::vector<std::string> words) {
  sigset_t awaited, mask;
  sigemptyset(&awaited);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGTSTP}) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&awaited, signal);
  }
  sigaddset(&awaited, SIGCONT);
  sigaddset(&awaited, SIGCHLD);
  sigprocmask(SIG_BLOCK, &awaited, &mask);
  const pid_t launcher = start(std::move(words), mask);
  int ending = 0, status = 0;
  while (waitpid(launcher, &status, WNOHANG) == 0) {
    const int signal = sigwaitinfo(&awaited, nullptr);
    if (signal == SIGTSTP || signal == SIGCONT) {
      // As the terminal would, were the launcher in its foreground.
      kill(-launcher, signal);
      if (signal == SIGTSTP) raise(SIGSTOP);
    } else if (signal > 0 && signal != SIGCHLD) {
      if (ending == 0) ending = signal;
      const std::vector<pid_t> ranks = ranks_below(launcher);
      for (const pid_t rank : ranks) kill(rank, signal);
      if (ranks.empty()) kill(-launcher, signal);
    }
  }
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return code != 0 && ending != 0 ? 128 + ending : code;
}

}  // namespace extensor::cli
