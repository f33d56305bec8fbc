// The side channel of a run: every rank holds a TCP connection to rank 0, over which it sends signs
// of life and announces its collectives. A thread notices a rank that ends, hangs, cannot be
// reached or calls another collective than the rest, also while MPI waits for it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "distributed/signature.h"

namespace extensor::distributed {

// The message of a rank that connects. Trivially copyable: it travels as bytes.
struct Introduction {
  char version[32];
  char host[128];
  char machine[64];  // differs between machines and between their network namespaces
  std::int32_t process;
  std::uint32_t addresses[8];  // IPv4, in network order; 0: none
};

Introduction introduce();

class Watch {
 public:
  // Exchanges a block of bytes between all ranks: each sends its own and gets all, or throws.
  using Exchange = std::function<void(const void* own, void* all, std::size_t bytes)>;

  // Connects the ranks; throws DistributedError.
  Watch(int rank, std::vector<Introduction> ranks, const InitOptions& options,
        const Exchange& exchange);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();

  // Tells rank 0 that this rank calls its collective number `sequence`. With `confirm`,
  // wait_confirmed() waits until all ranks have called the same one; it returns false on failure.
  void announce(std::uint64_t sequence, const Signature& signature, bool confirm);
  bool wait_confirmed(std::uint64_t sequence);
  // From now on, the other ranks may end.
  void expect_end();

  bool failed() const { return failed_.load(std::memory_order_acquire); }
  std::string reason() const;  // why it failed
  // Tells all ranks that the run has failed.
  void fail(const std::string& reason);

 private:
  using Clock = std::chrono::steady_clock;
  enum class Kind : std::uint32_t { heartbeat = 1, announce, confirm, failure };
  struct Header {
    Kind kind = Kind::heartbeat;
    std::int32_t rank = 0;
    std::uint32_t bytes = 0;  // of the text that follows
    std::uint32_t confirm = 0;
    std::uint64_t sequence = 0;
    Signature signature = {};
  };
  struct Peer {
    int rank = 0;
    int socket = -1;
    std::string in, out;
    Clock::time_point heard;
  };
  struct Called {
    Signature signature;
    int first_rank = 0;
    std::vector<bool> by;  // ranks
    int count = 0;
    std::vector<int> confirm;  // ranks that wait for confirmation
    Clock::time_point since;
  };

  void listen_for_ranks(const Exchange& exchange);
  void connect_to_first(const Exchange& exchange);
  void close_all() const;
  void run();
  void read(Peer& peer);
  void handle(Peer& peer, const Header& header, const std::string& text);
  void announced(int rank, std::uint64_t sequence, const Signature& signature, bool confirm);
  void check_times();
  void send(Peer& peer, const Header& header, const std::string& text = {});
  void flush(Peer& peer);
  void fail_locked(const std::string& reason, int from);
  std::string name_of(int rank) const;

  const int rank_;
  const std::vector<Introduction> ranks_;
  const InitOptions options_;
  mutable std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  std::vector<Peer> peers_;
  std::map<std::uint64_t, Called> called_;  // of rank 0: collectives that not all ranks have called
  std::uint64_t confirmed_ = 0;
  std::string reason_;
  bool ending_ = false, stopping_ = false;
  std::atomic<bool> failed_{false};
  int wake_ = -1;
  std::jthread thread_;
};

}  // namespace extensor::distributed
