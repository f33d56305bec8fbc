// The memory of optimizer states that are divided between ranks beside states that are whole:
//   mpirun -n 4 build/bench/bench/distributed/bench_states
#include <extensor/distributed.h>
#include <extensor/extensor.h>

#include <cstdio>

using namespace extensor;

int main() {
  set_num_threads(1);
  distributed::Communicator& world = distributed::init();
  // The bytes of live tensors that the first step adds on the rank where it adds most.
  const auto state_bytes = [&](bool shards) {
    models::ResNet18 model;
    distributed::DistributedDataParallel parallel(model, world);
    optim::AdamW optimizer(model.parameters());
    if (shards) parallel.shard(optimizer);
    train::classification_loss(model(randn({2, 3, 32, 32})), randint(0, 10, {2})).backward();
    const std::size_t before = memory_stats().allocated_bytes;
    optimizer.step();
    Tensor added = scalar(static_cast<double>(memory_stats().allocated_bytes - before), float64);
    world.all_reduce(added, distributed::ReduceOp::maximum);
    return added.item<double>();
  };
  const double whole = state_bytes(false), divided = state_bytes(true);
  if (world.rank() == 0) {
    std::printf(
        "AdamW of ResNet-18 on %d ranks: states of %.1f MB, divided %.1f MB at most, "
        "%.3f of it\n",
        world.size(), whole / 1e6, divided / 1e6, divided / whole);
  }
  return 0;
}
