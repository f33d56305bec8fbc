// The processes that are compared: ExTensor and each peer has one of its own, so that none meets
// the threads, the memory or the crash of another.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "cases.h"

namespace extensor::bench {

// A process that measures one side of every case, and sleeps until it is asked to. Errors are
// std::runtime_error and name the contender. After a crash, the next case has a new process.
class Contender {
 public:
  // `name` is "ExTensor", "reference", "floor" or that of a peer, which must load. The caller must
  // not have used tensors: a fork does not copy their threads.
  Contender(std::string name, const std::vector<Case>& cases, int threads);
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;
  ~Contender();

  const std::string& name() const { return name_; }
  const std::string& version() const { return version_; }  // of a peer

  // Makes the operands of a case and warms up. False if the contender cannot do the case.
  bool prepare(std::size_t case_index);
  // Seconds per call of the prepared case, in one batch of calls, or the figure of the case.
  double measure();

 private:
  struct Reply;

  void start();
  void end();
  std::string wait_for_end();
  Reply ask(std::size_t request);
  Reply receive();
  [[noreturn]] void serve(int socket) const;

  std::string name_, version_;
  const std::vector<Case>& cases_;
  int threads_;
  int socket_ = -1;
  pid_t process_ = 0;  // 0: none
};

}  // namespace extensor::bench
