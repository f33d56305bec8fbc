// A run in which one rank fails; tests/distributed/failure_test.sh starts it and reads what the
// others say. `failing_rank WAY [DEVICE]`: rank 1 (or the rank that WAY@RANK names) ends, hangs or
// disagrees in the middle of a run of all_reduce. Every other rank prints the error and the seconds
// since, on lines that begin with a newline: another rank may have written the beginning of a line.
// DEVICE is cpu or cuda, the first one for all ranks.
#include <extensor/cuda.h>
#include <extensor/distributed.h>
#include <extensor/extensor.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

using namespace extensor;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void fail(distributed::Communicator& world, const std::string& way, Device device) {
  Tensor x = zeros({10}, device);
  std::fprintf(stderr, "\nFAILS rank %d at %.3f\n", world.rank(), now());
  if (way == "killed") kill(getpid(), SIGKILL);
  if (way == "hung") kill(getpid(), SIGSTOP);
  if (way == "exit") std::exit(3);
  if (way == "quick_exit") _exit(0);
  if (way == "exception") throw std::runtime_error("a mistake of the program");
  if (way == "abort") {
    world.abort("its disk is full");
    throw std::runtime_error("its disk is full");
  }
  if (way == "shape") {
    Tensor other = zeros({11}, device);
    world.all_reduce(other);
  }
  if (way == "dtype") {
    Tensor other = zeros({1000}, {float64, device});
    world.all_reduce(other);
  }
  if (way == "device") {
    Tensor other = zeros({1000});
    world.all_reduce(other);
  }
  if (way == "order") world.broadcast(x);
  if (way == "late") sleep(30);
  if (way == "network" && std::system(std::getenv("EXTENSOR_CUT")) != 0) {
    throw std::runtime_error("the network cannot be cut");
  }
  if (way == "parameters") {
    models::Mlp model({4, 6, 2});
    model.to(device);
    const distributed::DistributedDataParallel parallel(model, world);
  }
}

}  // namespace

int main(int count, char** words) {
  std::string way = count > 1 ? words[1] : "none";
  int rank = 1;
  if (const std::size_t at = way.find('@'); at != std::string::npos) {
    rank = std::stoi(way.substr(at + 1));
    way.resize(at);
  }
  const Device device = count > 2 && std::string(words[2]) == "cuda" ? cuda() : cpu_device;
  // The machine may stall, and the library for CUDA takes time to load.
  const double collective_timeout = way == "late" ? 3 : 60;
  zeros({1}, device);  // starts CUDA before the ranks wait for each other
  distributed::Communicator& world = distributed::init({.collective_timeout = collective_timeout});
  // NCCL takes ranks on one device only if it believes them to be on different machines.
  setenv("NCCL_HOSTID", ("host" + std::to_string(world.rank())).c_str(), 0);
  try {
    for (int step = 0; step < 1000; ++step) {
      Tensor x = full({1000}, 1.0 * step, device);
      world.all_reduce(x);
      if (step == 20 && way == "parameters" && world.rank() != rank) {
        models::Mlp model({4, 5, 2});
        model.to(device);
        const distributed::DistributedDataParallel parallel(model, world);
      }
      if (step == 20 && world.rank() == rank) fail(world, way, device);
    }
  } catch (const distributed::DistributedError& error) {
    std::fprintf(stderr, "\nENDS rank %d at %.3f: %s\n", world.rank(), now(), error.what());
    return 5;
  }
  std::printf("rank %d is done\n", world.rank());
  return 0;
}
