#include "distributed/watch.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "core/check.h"
#include "extensor/version.h"

namespace extensor::distributed {

using detail::message;

namespace {

constexpr std::uint32_t most_text = 1 << 16;
constexpr auto connect_time = std::chrono::seconds(20);

void copy_text(char* to, std::size_t size, const std::string& text) {
  const std::size_t length = text.copy(to, size - 1);
  std::memset(to + length, 0, size - length);
}

[[noreturn]] void refuse(const std::string& what) {
  throw DistributedError(message("distributed::init: ", what, ": ", std::strerror(errno)));
}

void prepare(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
}

// Where rank 0 listens, and the secret that a connection must present.
struct Door {
  std::uint32_t port;  // in host order
  unsigned char token[16];
};

}  // namespace

Introduction introduce() {
  Introduction own{};
  copy_text(own.version, sizeof own.version, version());
  char host[sizeof own.host] = "";
  gethostname(host, sizeof host - 1);
  copy_text(own.host, sizeof own.host, host);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char space[32] = "";
  if (readlink("/proc/self/ns/net", space, sizeof space - 1) < 0) space[0] = '\0';
  copy_text(own.machine, sizeof own.machine, boot.substr(0, 36) + space);
  own.process = getpid();
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) == 0) {
    std::size_t count = 0;
    for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
      const bool usable = each->ifa_addr != nullptr && each->ifa_addr->sa_family == AF_INET &&
                          (each->ifa_flags & IFF_UP) != 0 && (each->ifa_flags & IFF_LOOPBACK) == 0;
      if (!usable || count == std::size(own.addresses)) continue;
      sockaddr_in address{};
      std::memcpy(&address, each->ifa_addr, sizeof address);
      own.addresses[count++] = address.sin_addr.s_addr;
    }
    freeifaddrs(list);
  }
  return own;
}

Watch::Watch(int rank, std::vector<Introduction> ranks, const InitOptions& options,
             const Exchange& exchange)
    : rank_(rank), ranks_(std::move(ranks)), options_(options) {
  wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_ < 0) refuse("eventfd");
  try {
    rank == 0 ? listen_for_ranks(exchange) : connect_to_first(exchange);
    for (Peer& peer : peers_) peer.heard = Clock::now();
    thread_ = std::jthread([this] { run(); });
  } catch (...) {
    close_all();  // the destructor does not run
    throw;
  }
}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(wake_, &one, sizeof one);
  if (thread_.joinable()) thread_.join();
  close_all();
}

void Watch::close_all() const {
  for (const Peer& peer : peers_) close(peer.socket);
  close(wake_);
}

std::string Watch::name_of(int rank) const {
  const Introduction& one = ranks_[static_cast<std::size_t>(rank)];
  return message("rank ", rank, " (process ", one.process, " on ", one.host, ")");
}

// ---- connecting

void Watch::listen_for_ranks(const Exchange& exchange) {
  const bool is_one_machine = std::ranges::all_of(ranks_, [&](const Introduction& one) {
    return std::strcmp(one.machine, ranks_[0].machine) == 0;
  });
  // Does not block: a connection may be gone when it is accepted, and a signal may end poll().
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (listener < 0) refuse("socket");
  struct Closing {
    int fd;
    ~Closing() { close(fd); }
  } const closing{listener};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(is_one_machine ? INADDR_LOOPBACK : INADDR_ANY);
  socklen_t length = sizeof address;
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener, static_cast<int>(ranks_.size())) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    refuse("cannot listen for the other ranks");
  }
  Door door{};
  door.port = ntohs(address.sin_port);
  if (getrandom(door.token, sizeof door.token, 0) != sizeof door.token) refuse("getrandom");
  std::vector<Door> all(ranks_.size());
  exchange(&door, all.data(), sizeof door);

  const Clock::time_point end = Clock::now() + connect_time;
  while (peers_.size() + 1 < ranks_.size()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    pollfd ready{listener, POLLIN, 0};
    if (left.count() <= 0 || poll(&ready, 1, static_cast<int>(left.count())) == 0) {
      throw DistributedError(message("distributed::init: only ", peers_.size(), " of ",
                                     ranks_.size() - 1, " ranks connected to rank 0"));
    }
    const int made = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (made < 0) continue;
    // A stranger that sends nothing is waited for only briefly.
    const timeval brief{.tv_sec = 2, .tv_usec = 0};
    setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &brief, sizeof brief);
    struct Hello {
      unsigned char token[sizeof door.token];
      std::int32_t rank;
    } hello{};
    const bool is_rank = recv(made, &hello, sizeof hello, MSG_WAITALL) == sizeof hello &&
                         std::memcmp(hello.token, door.token, sizeof door.token) == 0 &&
                         hello.rank > 0 && hello.rank < static_cast<int>(ranks_.size());
    if (!is_rank) {
      close(made);
      continue;
    }
    prepare(made);
    peers_.push_back({.rank = hello.rank, .socket = made, .in = {}, .out = {}, .heard = {}});
  }
}

void Watch::connect_to_first(const Exchange& exchange) {
  std::vector<Door> all(ranks_.size());
  const Door none{};
  exchange(&none, all.data(), sizeof none);
  const Door& door = all[0];
  const Introduction& first = ranks_[0];
  std::vector<std::uint32_t> addresses;
  if (std::strcmp(first.machine, ranks_[static_cast<std::size_t>(rank_)].machine) == 0) {
    addresses.push_back(htonl(INADDR_LOOPBACK));
  } else {
    for (const std::uint32_t each : first.addresses) {
      if (each != 0) addresses.push_back(each);
    }
  }
  const Clock::time_point end = Clock::now() + connect_time;
  do {
    for (const std::uint32_t each : addresses) {
      const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (made < 0) refuse("socket");
      prepare(made);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(static_cast<std::uint16_t>(door.port));
      address.sin_addr.s_addr = each;
      int error = 0;
      if (connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        pollfd ready{made, POLLOUT, 0};
        socklen_t length = sizeof error;
        constexpr int milliseconds = 3000;
        if (errno != EINPROGRESS || poll(&ready, 1, milliseconds) != 1 ||
            getsockopt(made, SOL_SOCKET, SO_ERROR, &error, &length) != 0) {
          error = ETIMEDOUT;
        }
      }
      char hello[sizeof door.token + sizeof(std::int32_t)];
      std::memcpy(hello, door.token, sizeof door.token);
      const std::int32_t rank = rank_;
      std::memcpy(hello + sizeof door.token, &rank, sizeof rank);
      if (error == 0 && ::send(made, hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello) {
        peers_.push_back({.rank = 0, .socket = made, .in = {}, .out = {}, .heard = {}});
        return;
      }
      close(made);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (Clock::now() < end);
  throw DistributedError(message("distributed::init: cannot connect to ", name_of(0), ", port ",
                                 door.port, " (a firewall between the machines must allow it)"));
}

// ---- the thread

void Watch::run() {
  const auto interval =
      std::chrono::duration<double>(std::clamp(options_.heartbeat_timeout / 10, 0.02, 0.5));
  std::unique_lock lock(mutex_);
  Clock::time_point next_beat = Clock::now();
  std::vector<pollfd> fds;
  while (!stopping_) {
    if (Clock::now() >= next_beat) {
      for (Peer& peer : peers_) send(peer, {.kind = Kind::heartbeat, .rank = rank_});
      next_beat = Clock::now() + std::chrono::duration_cast<Clock::duration>(interval);
    }
    fds.assign(1, {wake_, POLLIN, 0});
    for (const Peer& peer : peers_) {
      const int wanted = peer.socket < 0 ? 0 : peer.out.empty() ? POLLIN : POLLIN | POLLOUT;
      fds.push_back({peer.socket, static_cast<short>(wanted), 0});
    }
    const Clock::time_point slept = Clock::now();
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(next_beat - slept).count();
    lock.unlock();
    poll(fds.data(), fds.size(), static_cast<int>(std::clamp<std::int64_t>(left, 1, 500)));
    lock.lock();
    // A process that was itself suspended, as all ranks of a job may be, has heard of nobody.
    if (Clock::now() - slept > std::chrono::seconds(1)) {
      for (Peer& peer : peers_) peer.heard = Clock::now();
    }
    if ((fds[0].revents & POLLIN) != 0) {
      std::uint64_t count = 0;
      [[maybe_unused]] const auto got = ::read(wake_, &count, sizeof count);
    }
    for (std::size_t k = 0; k < peers_.size(); ++k) {
      if ((fds[k + 1].revents & (POLLIN | POLLHUP | POLLERR)) != 0) read(peers_[k]);
      if ((fds[k + 1].revents & POLLOUT) != 0) flush(peers_[k]);
    }
    check_times();
  }
}

void Watch::read(Peer& peer) {
  char block[4096];
  bool is_closed = false;
  for (;;) {
    const ssize_t got = recv(peer.socket, block, sizeof block, 0);
    if (got > 0) {
      peer.in.append(block, static_cast<std::size_t>(got));
      continue;
    }
    is_closed = got == 0 || (errno != EAGAIN && errno != EINTR);
    break;
  }
  peer.heard = Clock::now();
  std::size_t at = 0;
  while (peer.in.size() - at >= sizeof(Header)) {
    Header header;
    std::memcpy(&header, peer.in.data() + at, sizeof header);
    if (header.bytes > most_text) {
      is_closed = true;
      break;
    }
    if (peer.in.size() - at < sizeof header + header.bytes) break;
    handle(peer, header, peer.in.substr(at + sizeof header, header.bytes));
    at += sizeof header + header.bytes;
  }
  peer.in.erase(0, at);
  if (!is_closed) return;
  close(peer.socket);
  peer.socket = -1;
  if (!ending_) fail_locked(name_of(peer.rank) + " has ended", rank_);
}

void Watch::handle(Peer& peer, const Header& header, const std::string& text) {
  switch (header.kind) {
    case Kind::announce:
      announced(peer.rank, header.sequence, header.signature, header.confirm != 0);
      break;
    case Kind::confirm:
      confirmed_ = std::max(confirmed_, header.sequence);
      changed_.notify_all();
      break;
    case Kind::failure:
      fail_locked(text, peer.rank);
      break;
    case Kind::heartbeat:
      break;
  }
}

// Of rank 0: compares the calls of all ranks.
void Watch::announced(int rank, std::uint64_t sequence, const Signature& signature, bool confirm) {
  const auto [place, is_new] = called_.try_emplace(sequence);
  Called& call = place->second;
  if (is_new) {
    call.signature = signature;
    call.first_rank = rank;
    call.by.resize(ranks_.size());
    call.since = Clock::now();
  } else if (!(call.signature == signature)) {
    fail_locked(message("the ranks disagree: ", name_of(call.first_rank), " calls ",
                        call.signature.describe(), ", ", name_of(rank), " calls ",
                        signature.describe(), ", each as its collective ", sequence),
                rank_);
    return;
  }
  call.by[static_cast<std::size_t>(rank)] = true;
  call.count += 1;
  if (confirm) call.confirm.push_back(rank);
  if (call.count < static_cast<int>(ranks_.size())) return;
  for (const int each : call.confirm) {
    if (each == 0) {
      confirmed_ = std::max(confirmed_, sequence);
      changed_.notify_all();
      continue;
    }
    for (Peer& peer : peers_) {
      if (peer.rank == each) {
        send(peer, {.kind = Kind::confirm, .rank = 0, .sequence = sequence});
      }
    }
  }
  called_.erase(place);
}

void Watch::check_times() {
  if (failed() || ending_) return;
  const Clock::time_point now = Clock::now();
  const auto seconds = [&](Clock::time_point since) {
    return std::chrono::duration<double>(now - since).count();
  };
  for (const Peer& peer : peers_) {
    if (seconds(peer.heard) < options_.heartbeat_timeout) continue;
    fail_locked(message(name_of(peer.rank), " hangs or cannot be reached: no sign of life for ",
                        options_.heartbeat_timeout, " s"),
                rank_);
    return;
  }
  if (called_.empty()) return;
  const auto& [sequence, oldest] = *called_.begin();
  if (seconds(oldest.since) < options_.collective_timeout) return;
  std::string missing;
  for (std::size_t k = 0; k < oldest.by.size(); ++k) {
    if (!oldest.by[k]) {
      missing += (missing.empty() ? "" : ", ") + name_of(static_cast<int>(k));
    }
  }
  fail_locked(
      message(missing, " did not call ", oldest.signature.describe(), ", collective ", sequence,
              ", within ", options_.collective_timeout, " s of ", name_of(oldest.first_rank)),
      rank_);
}

// ---- sending

void Watch::send(Peer& peer, const Header& header, const std::string& text) {
  if (peer.socket < 0) return;
  // A peer that reads nothing is about to time out: signs of life need not pile up for it.
  if (header.kind == Kind::heartbeat && !peer.out.empty()) return;
  peer.out.append(reinterpret_cast<const char*>(&header), sizeof header);
  peer.out.append(text);
  flush(peer);
}

void Watch::flush(Peer& peer) {
  while (!peer.out.empty()) {
    const ssize_t sent =
        ::send(peer.socket, peer.out.data(), peer.out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0) return;  // the thread tries again, or finds the connection closed
    peer.out.erase(0, static_cast<std::size_t>(sent));
  }
}

void Watch::announce(std::uint64_t sequence, const Signature& signature, bool confirm) {
  const std::lock_guard lock(mutex_);
  if (failed()) return;
  if (rank_ == 0) {
    announced(0, sequence, signature, confirm);
  } else {
    send(peers_[0], {.kind = Kind::announce,
                     .rank = rank_,
                     .bytes = 0,
                     .confirm = confirm ? 1u : 0u,
                     .sequence = sequence,
                     .signature = signature});
  }
}

bool Watch::wait_confirmed(std::uint64_t sequence) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failed() || confirmed_ >= sequence; });
  return !failed();
}

void Watch::expect_end() {
  const std::lock_guard lock(mutex_);
  ending_ = true;
}

// ---- failure

std::string Watch::reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

void Watch::fail(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  fail_locked(reason, rank_);
}

// The first reason counts. Rank 0 passes it on to all but the rank that it comes from.
void Watch::fail_locked(const std::string& reason, int from) {
  if (failed()) return;
  reason_ = reason.substr(0, most_text);
  failed_.store(true, std::memory_order_release);
  for (Peer& peer : peers_) {
    if (peer.rank == from) continue;
    send(
        peer,
        {.kind = Kind::failure, .rank = rank_, .bytes = static_cast<std::uint32_t>(reason_.size())},
        reason_);
  }
  changed_.notify_all();
}

}  // namespace extensor::distributed
