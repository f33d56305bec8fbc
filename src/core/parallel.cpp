// The pool of host threads that runs parallel_for.
//
// Each running loop occupies one Slot. Worker threads look for open slots, join them and claim
// chunks until none is left. Workers and callers spin briefly while they wait and then sleep on a
// futex.
//
// Other processes may want the cores, too. A thread that notices that it lost its core while
// spinning marks the machine as crowded; for a while, threads then sleep at once instead of
// spinning, and a loop wakes sleeping workers only if it lasts longer than waking them takes. A
// worker that lost its core in the middle of a chunk while the caller waited for it makes loops use
// one thread fewer for a while.
#include "core/parallel.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <ctime>
#include <exception>
#include <mutex>
#include <new>
#include <utility>

#include "core/check.h"
#include "core/machine.h"
#include "extensor/error.h"
#include "extensor/threads.h"

namespace extensor::detail {

namespace {

// ---- Waiting --------------------------------------------------------------------------

using Nanoseconds = std::int64_t;

// How long threads spin before they sleep. Spinning bridges the gaps between the loops of one
// training step; sleeping frees the core and costs the next loop a few microseconds to undo.
constexpr Nanoseconds worker_spin = 200'000;
constexpr Nanoseconds caller_spin = 1'000'000;
constexpr Nanoseconds crowded_spin = 5'000;
// A spinning thread that sees the clock jump by this much was not running.
constexpr Nanoseconds lost_core = 200'000;
constexpr Nanoseconds crowded_period = 20'000'000;
// Losing the core for this long in the middle of a chunk makes loops use fewer threads. Moving to
// another core takes less, being preempted by another process more.
constexpr Nanoseconds harmful_loss = 1'500'000;
// Loops shorter than this do not wake sleeping workers while the machine is crowded.
constexpr Nanoseconds wake_pays = 20'000;

Nanoseconds read_clock(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return time.tv_sec * Nanoseconds{1'000'000'000} + time.tv_nsec;
}
Nanoseconds now() { return read_clock(CLOCK_MONOTONIC); }

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t while_value) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, while_value, nullptr, nullptr, 0);
}
void futex_wake(std::atomic<std::uint32_t>& word, int count) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

constinit std::atomic<Nanoseconds> crowded_until{0};

bool is_crowded(Nanoseconds time) { return time < crowded_until.load(std::memory_order_relaxed); }

// Spins until done() holds. Gives up, and returns false, after `limit` or when the machine is
// crowded.
template <class Done>
bool spin_until(Nanoseconds limit, const Done& done) {
  constexpr int pauses_per_clock_read = 32;
  for (int i = 0; i < pauses_per_clock_read; ++i) {
    if (done()) return true;
    pause();
  }
  const Nanoseconds start = now();
  if (is_crowded(start)) limit = crowded_spin;
  for (Nanoseconds last = start;;) {
    for (int i = 0; i < pauses_per_clock_read; ++i) {
      if (done()) return true;
      pause();
    }
    const Nanoseconds time = now();
    if (time - last > lost_core) {
      crowded_until.store(time + crowded_period, std::memory_order_relaxed);
      return done();
    }
    if (time - start > limit) return false;
    last = time;
  }
}

// Reduces the number of threads by one for every worker that kept a caller waiting because it had
// lost its core, for a period that doubles as long as it keeps happening.
class Backoff {
 public:
  int threads(int wanted) {
    const Nanoseconds until = until_.load(std::memory_order_relaxed);
    if (until == 0) return wanted;
    if (now() > until) {
      until_.store(0, std::memory_order_relaxed);
      return wanted;
    }
    return std::max(1, wanted - reduction_.load(std::memory_order_relaxed));
  }

  void report_lost_core() {
    const std::lock_guard lock(mutex_);
    const Nanoseconds time = now();
    crowded_until.store(time + crowded_period, std::memory_order_relaxed);
    const bool active = time < until_.load(std::memory_order_relaxed);
    const bool again = time < last_until_ + 2 * period_;
    reduction_.store(active ? reduction_.load(std::memory_order_relaxed) + 1 : 1,
                     std::memory_order_relaxed);
    period_ = again ? std::min(2 * period_, longest_period) : shortest_period;
    last_until_ = time + period_;
    until_.store(last_until_, std::memory_order_relaxed);
  }

  void reset_after_fork() {
    new (&mutex_) std::mutex;  // another thread of the parent may have held it
    until_.store(0, std::memory_order_relaxed);
  }

 private:
  static constexpr Nanoseconds shortest_period = 20'000'000, longest_period = 160'000'000;

  std::atomic<Nanoseconds> until_{0};  // 0: no reduction
  std::atomic<int> reduction_{0};
  std::mutex mutex_;
  Nanoseconds period_ = 0, last_until_ = 0;
};

constinit Backoff backoff;

// Measures for how long the calling thread was not running since renew(), give or take a
// millisecond: the processor's clock is read at most that often, because reading it is a system
// call.
class LostTime {
 public:
  void renew(Nanoseconds time) {
    constexpr Nanoseconds period = 1'000'000;
    if (time - renewed_ < period) return;
    renewed_ = time;
    used_ = read_clock(CLOCK_THREAD_CPUTIME_ID);
  }
  Nanoseconds elapsed() const {
    return now() - renewed_ - (read_clock(CLOCK_THREAD_CPUTIME_ID) - used_);
  }

 private:
  Nanoseconds renewed_ = 0, used_ = 0;
};

// ---- Loops in progress ------------------------------------------------------------------

// The state of a slot in one word, so that joining and closing are atomic: the number of workers
// inside, the number that ever joined this loop, the most that may join, and two flags.
namespace state {
constexpr std::uint32_t inside = 1;
constexpr std::uint32_t inside_mask = 0x3ff;
constexpr std::uint32_t joined = 1U << 10;
constexpr std::uint32_t limit = 1U << 20;
constexpr std::uint32_t open = 1U << 30;
constexpr std::uint32_t caller_sleeps = 1U << 31;
constexpr std::uint32_t joined_of(std::uint32_t word) { return word >> 10 & 0x3ff; }
constexpr std::uint32_t limit_of(std::uint32_t word) { return word >> 20 & 0x3ff; }
}  // namespace state

// The range of a loop is cut into `parts` of equal length, and each part into chunks.
constexpr int most_parts = 64;
constexpr std::int64_t chunks_per_part = 4;

struct alignas(64) Part {
  std::atomic<std::int64_t> next{0};  // grain number of the first chunk not yet claimed
  std::int64_t end = 0;
};

// The exception of the failed chunk with the lowest index. Lives in the caller's frame.
struct Failure {
  std::mutex mutex;
  std::exception_ptr error;
  std::int64_t begin = 0;
};

struct Slot {
  alignas(64) std::atomic<bool> occupied{false};
  alignas(64) std::atomic<std::uint32_t> word{0};
  // Written by the caller before it opens the slot.
  ParallelLoop loop{};
  int parts = 0;
  std::int64_t chunk = 0;  // in grains
  Failure* failure = nullptr;
  std::array<Part, most_parts> part;

  bool has_unclaimed() const {
    for (int p = 0; p < parts; ++p) {
      const Part& candidate = part[static_cast<std::size_t>(p)];
      if (candidate.next.load(std::memory_order_relaxed) < candidate.end) return true;
    }
    return false;
  }

  // Claims the next chunk of part p.
  bool claim(int p, std::int64_t& begin, std::int64_t& end) {
    Part& from = part[static_cast<std::size_t>(p)];
    if (from.next.load(std::memory_order_relaxed) >= from.end) return false;
    const std::int64_t first = from.next.fetch_add(chunk, std::memory_order_relaxed);
    if (first >= from.end) return false;
    begin = first * loop.grain;
    end = std::min(std::min(first + chunk, from.end) * loop.grain, loop.count);
    return true;
  }

  void run_chunk(std::int64_t begin, std::int64_t end, int slot) {
    try {
      loop.run(loop.body, begin, end, slot);
    } catch (...) {
      const std::lock_guard lock(failure->mutex);
      if (failure->error == nullptr || begin < failure->begin) {
        failure->error = std::current_exception();
        failure->begin = begin;
      }
    }
  }
};

// ---- The pool ---------------------------------------------------------------------------

constinit thread_local bool inside_loop __attribute__((tls_model("initial-exec"))) = false;
constinit thread_local bool serial_thread __attribute__((tls_model("initial-exec"))) = false;

// Several threads may run loops at the same time; when there are more than this, the rest run
// theirs alone.
constexpr int slot_count = 16;

class Pool {
 public:
  static Pool pool;

  constexpr Pool() = default;

  void run(int threads, const ParallelLoop& loop) {
    const int workers = start_workers(backoff.threads(threads) - 1);
    Slot* slot = workers == 0 ? nullptr : occupy();
    if (slot == nullptr) return run_alone(loop);
    Failure failure;
    slot->failure = &failure;
    prepare(*slot, workers + 1, loop);
    slot->word.store(state::open | state::limit * static_cast<std::uint32_t>(workers),
                     std::memory_order_release);
    announced_.fetch_add(1, std::memory_order_seq_cst);
    bool woken = false;
    Nanoseconds start = 0;
    if (asleep_.load(std::memory_order_seq_cst) > 0) {
      start = now();
      if (!is_crowded(start)) {
        futex_wake(announced_, workers);
        woken = true;
      }
    } else {
      woken = true;
    }

    inside_loop = true;
    for (int p = 0; p < slot->parts; ++p) {
      std::int64_t begin = 0, end = 0;
      while (slot->claim(p, begin, end)) {
        slot->run_chunk(begin, end, 0);
        if (!woken && now() - start > wake_pays) {
          if (slot->has_unclaimed()) futex_wake(announced_, workers);
          woken = true;
        }
      }
    }
    inside_loop = false;

    wait_for_workers(*slot);
    slot->occupied.store(false, std::memory_order_release);
    if (failure.error != nullptr) std::rethrow_exception(failure.error);
  }

 private:
  // A loop that found no other thread still counts as a parallel loop for its body.
  static void run_alone(const ParallelLoop& loop) {
    struct Inside {
      Inside() { inside_loop = true; }
      ~Inside() { inside_loop = false; }
    } const inside;
    loop.run(loop.body, 0, loop.count, 0);
  }

  // The child of a fork has none of the workers and must not wait for loops of the parent's
  // threads.
  void reset_after_fork() {
    for (Slot& slot : slots_) {
      slot.word.store(0, std::memory_order_relaxed);
      slot.occupied.store(false, std::memory_order_relaxed);
    }
    workers_.store(0, std::memory_order_relaxed);
    asleep_.store(0, std::memory_order_relaxed);
    starting_.clear();
    refused_.store(false, std::memory_order_relaxed);
    backoff.reset_after_fork();
    inside_loop = false;
  }

  Slot* occupy() {
    for (Slot& slot : slots_) {
      if (!slot.occupied.load(std::memory_order_relaxed) &&
          !slot.occupied.exchange(true, std::memory_order_acquire)) {
        return &slot;
      }
    }
    return nullptr;
  }

  static void prepare(Slot& slot, int threads, const ParallelLoop& loop) {
    slot.loop = loop;
    const std::int64_t grains = (loop.count - 1) / loop.grain + 1;
    slot.parts =
        loop.contiguous
            ? static_cast<int>(std::min<std::int64_t>(std::min(threads, most_parts), grains))
            : 1;
    slot.chunk = chunk_length(loop, grains / slot.parts);
    for (int p = 0; p < slot.parts; ++p) {
      Part& part = slot.part[static_cast<std::size_t>(p)];
      part.next.store(grains * p / slot.parts, std::memory_order_relaxed);
      part.end = grains * (p + 1) / slot.parts;
    }
  }

  // The number of grains in a chunk, given the grains per part. A part of few short grains is one
  // chunk: claiming takes time that only longer loops earn back, and a thread that is ahead by a
  // chunk would take the last one from the cache of another. Grains of one iteration may be long.
  static std::int64_t chunk_length(const ParallelLoop& loop, std::int64_t grains_per_part) {
    if (!loop.contiguous) return 1;
    if (loop.grain > 1 && grains_per_part < 2 * chunks_per_part) return grains_per_part + 1;
    return std::max<std::int64_t>(1, grains_per_part / chunks_per_part);
  }

  void wait_for_workers(Slot& slot) {
    using namespace state;
    if ((slot.word.fetch_and(~open, std::memory_order_acq_rel) & inside_mask) == 0) return;
    const auto done = [&] {
      return (slot.word.load(std::memory_order_acquire) & inside_mask) == 0;
    };
    if (spin_until(caller_spin, done)) return;
    std::uint32_t word = slot.word.fetch_or(caller_sleeps, std::memory_order_acq_rel);
    word |= caller_sleeps;
    while ((word & inside_mask) != 0) {
      futex_wait(slot.word, word);
      word = slot.word.load(std::memory_order_acquire);
    }
  }

  // Makes sure that `wanted` workers exist, or as many as the system allows; returns how many do,
  // at most `wanted`.
  int start_workers(int wanted) {
    int running = workers_.load(std::memory_order_relaxed);
    if (running < wanted && !refused_.load(std::memory_order_relaxed) &&
        !starting_.test_and_set(std::memory_order_acquire)) {
      if (!std::exchange(handles_fork_, true)) {
        pthread_atfork(nullptr, nullptr, [] { pool.reset_after_fork(); });
      }
      running = workers_.load(std::memory_order_relaxed);
      while (running < wanted && start_worker(running)) {
        workers_.store(++running, std::memory_order_relaxed);
      }
      if (running < wanted) refused_.store(true, std::memory_order_relaxed);
      starting_.clear(std::memory_order_release);
    }
    return std::min(running, wanted);
  }

  // Workers are detached and receive no signals, so that handlers run on the program's own threads.
  static bool start_worker(int number) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread{};
    const int failed = pthread_create(
        &thread, &attributes,
        [](void* argument) -> void* {
          pool.work(static_cast<int>(reinterpret_cast<std::intptr_t>(argument)));
          return nullptr;
        },
        reinterpret_cast<void*>(static_cast<std::intptr_t>(number)));
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attributes);
    if (failed == 0) pthread_setname_np(thread, "extensor");
    return failed == 0;
  }

  [[noreturn]] void work(int number) {
    inside_loop = true;
    LostTime lost_time;
    std::uint32_t seen = announced_.load(std::memory_order_acquire) - 1;
    for (;;) {
      const std::uint32_t announced = announced_.load(std::memory_order_acquire);
      if (announced != seen) {
        seen = announced;
        for (Slot& slot : slots_) help(slot, number, lost_time);
        continue;
      }
      const auto changed = [&] { return announced_.load(std::memory_order_acquire) != seen; };
      if (spin_until(worker_spin, changed)) continue;
      asleep_.fetch_add(1, std::memory_order_seq_cst);
      if (announced_.load(std::memory_order_seq_cst) == seen) futex_wait(announced_, seen);
      asleep_.fetch_sub(1, std::memory_order_seq_cst);
    }
  }

  // Joins the loop in `slot`, if one is open, and runs chunks until none is left.
  static void help(Slot& slot, int number, LostTime& lost_time) {
    using namespace state;
    std::uint32_t word = slot.word.load(std::memory_order_relaxed);
    do {
      if ((word & open) == 0 || joined_of(word) >= limit_of(word)) return;
    } while (
        !slot.word.compare_exchange_weak(word, word + inside + joined, std::memory_order_acq_rel));
    const int place = static_cast<int>(joined_of(word)) + 1;
    const Nanoseconds start = now();
    lost_time.renew(start);
    for (int k = 0; k < slot.parts; ++k) {
      const int p = (number + 1 + k) % slot.parts;
      std::int64_t begin = 0, end = 0;
      while (slot.claim(p, begin, end)) slot.run_chunk(begin, end, place);
    }
    // The caller may reuse the slot as soon as this thread has left, so it is not touched again.
    const std::uint32_t before = slot.word.fetch_sub(inside, std::memory_order_acq_rel);
    if ((before & inside_mask) == 1 && (before & caller_sleeps) != 0) {
      futex_wake(slot.word, 1);
      if (now() - start < harmful_loss) return;
      if (lost_time.elapsed() > harmful_loss) backoff.report_lost_core();
    }
  }

  std::array<Slot, slot_count> slots_;
  alignas(64) std::atomic<std::uint32_t> announced_{0};  // counts loops; workers sleep on it
  alignas(64) std::atomic<std::int32_t> asleep_{0};
  std::atomic<int> workers_{0};
  std::atomic_flag starting_;
  bool handles_fork_ = false;         // guarded by starting_
  std::atomic<bool> refused_{false};  // the system did not allow another thread
};

// Never destroyed: workers use it until the process ends.
constinit Pool Pool::pool;

std::atomic<int> threads_asked{0};  // 0: not set

}  // namespace

int max_threads() {
  if (serial_thread) return 1;
  const int asked = threads_asked.load(std::memory_order_relaxed);
  return asked != 0 ? asked : default_threads();
}

void disable_nested_parallelism() { serial_thread = true; }

bool in_parallel_loop() { return inside_loop; }

void run_parallel_loop(int threads, const ParallelLoop& loop) {
  if (inside_loop) return loop.run(loop.body, 0, loop.count, 0);
  Pool::pool.run(std::min(threads, most_threads), loop);
}

}  // namespace extensor::detail

namespace extensor {

void set_num_threads(int count) {
  if (count < 1 || count > detail::most_threads) {
    throw ValueError(detail::message("set_num_threads: count is ", count, " (allowed: 1 … ",
                                     detail::most_threads, ")"));
  }
  detail::threads_asked.store(count, std::memory_order_relaxed);
}

int get_num_threads() { return detail::max_threads(); }

}  // namespace extensor
