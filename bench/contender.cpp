#include "contender.h"

#include <extensor/extensor.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "peers.h"

namespace extensor::bench {
namespace {

// One measurement of a case; empty if the contender cannot do it.
using Measure = std::function<double()>;

double time_batch(const Work& work, std::int64_t batch) {
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < batch; ++i) work();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  return spent.count() / static_cast<double>(batch);
}

// Times batches that are long enough for the clock and short enough to alternate often.
Measure in_batches(const Work& work, double scale = 1) {
  if (!work) return {};
  constexpr double batch_seconds = 2e-3;
  std::int64_t batch = 1;
  for (int i = 0; i < 3; ++i) {
    const double once = time_batch(work, batch);
    batch = std::clamp<std::int64_t>(static_cast<std::int64_t>(batch_seconds / once), 1, 1'000'000);
  }
  return [=] {
    time_batch(work, batch);  // warms up caches and clocks again
    return scale * time_batch(work, batch);
  };
}

Measure prepared(const std::string& name, const Peer* peer, const Case& c, int threads) {
  if (c.figure) return name == "ExTensor" ? c.figure : name == "PyTorch" ? c.torch_figure : nullptr;
  if (name == "ExTensor") return in_batches(extensor_work(c.task));
  if (name == "reference") return c.reference ? in_batches(extensor_work(*c.reference)) : nullptr;
  if (name == "floor") {
    const Floor floor = c.floor ? c.floor(threads) : Floor();
    return in_batches(floor.work, floor.scale);
  }
  try {
    return in_batches(peer->make(c.task));
  } catch (const OtherNetwork&) {
    throw;
  } catch (const std::exception&) {
    return {};  // The peer has the function but not this dtype or layout: an empty cell.
  }
}

// Whether a thread of the process runs or waits for a core.
bool is_running(pid_t process) {
  const std::string tasks = "/proc/" + std::to_string(process) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    std::ifstream file(task.path() / "stat");  // number (name) state …
    std::string stat;
    std::getline(file, stat);
    const std::size_t name_end = stat.rfind(')');
    if (name_end != std::string::npos && stat.compare(name_end, 3, ") R") == 0) return true;
  }
  return false;
}

// Waits until all threads of the process sleep, so that they take no core from the next contender:
// those of libgomp spin for 7 ms after their last task.
void wait_until_idle(pid_t process) {
  for (int i = 0; i < 200 && is_running(process); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

// A request is the index of the case to prepare, or this.
constexpr auto measure_again = static_cast<std::size_t>(-1);

struct Contender::Reply {
  bool failed = false;
  double number = 0;
  char text[240] = {};  // why it failed; in the first reply, the version
};

Contender::Contender(std::string name, const std::vector<Case>& cases, int threads)
    : name_(std::move(name)), cases_(cases), threads_(threads) {
  start();
}

Contender::~Contender() { end(); }

bool Contender::prepare(std::size_t case_index) {
  if (process_ == 0) start();
  return ask(case_index).number != 0;
}

double Contender::measure() { return ask(measure_again).number; }

void Contender::start() {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
    throw std::runtime_error(name_ + ": no socket: " + std::strerror(errno));
  }
  const pid_t process = fork();
  if (process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(sockets[0]);
    serve(sockets[1]);
  }
  close(sockets[1]);
  if (process < 0) throw std::runtime_error(name_ + ": no process: " + std::strerror(errno));
  process_ = process;
  socket_ = sockets[0];
  try {
    version_ = receive().text;
  } catch (const std::runtime_error&) {
    end();
    throw;
  }
}

void Contender::end() {
  if (process_ == 0) return;
  kill(process_, SIGKILL);
  wait_for_end();
}

// Returns how the process ended.
std::string Contender::wait_for_end() {
  close(socket_);
  int status = 0;
  waitpid(std::exchange(process_, 0), &status, 0);
  if (!WIFSIGNALED(status)) return "ended with code " + std::to_string(WEXITSTATUS(status));
  return "crashed: " + std::string(strsignal(WTERMSIG(status)));
}

Contender::Reply Contender::ask(std::size_t request) {
  send(socket_, &request, sizeof request, MSG_NOSIGNAL);
  return receive();
}

Contender::Reply Contender::receive() {
  Reply reply;
  if (recv(socket_, &reply, sizeof reply, 0) != sizeof reply) {
    throw std::runtime_error(name_ + " " + wait_for_end());
  }
  wait_until_idle(process_);
  if (reply.failed) throw std::runtime_error(name_ + ": " + reply.text);
  return reply;
}

// The body of the process: replies to requests until the parent has ended.
void Contender::serve(int socket) const {
  const Peer* peer = nullptr;
  Measure measure;
  const auto reply_with = [&](const auto& answer) {
    Reply reply;
    try {
      answer(reply);
    } catch (const std::exception& error) {
      reply = {.failed = true};
      std::strncpy(reply.text, error.what(), sizeof reply.text - 1);
    }
    send(socket, &reply, sizeof reply, MSG_NOSIGNAL);
  };
  reply_with([&](Reply& reply) {
    set_num_threads(threads_);
    peer = load_peer(name_, threads_);
    if (peer == nullptr) return;
    std::strncpy(reply.text, peer->version.c_str(), sizeof reply.text - 1);
  });
  for (std::size_t request; recv(socket, &request, sizeof request, 0) == sizeof request;) {
    reply_with([&](Reply& reply) {
      if (request == measure_again) {
        reply.number = measure();
        return;
      }
      measure = nullptr;  // frees the operands of the last case
      measure = prepared(name_, peer, cases_[request], threads_);
      reply.number = measure ? 1 : 0;
    });
  }
  _exit(0);
}

}  // namespace extensor::bench
