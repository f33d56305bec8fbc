// Trains one model on several ranks, each with its part of every batch: gradients are averaged over
// the ranks while backward() still computes others.
//
//   distributed::Communicator& world = distributed::init();
//   distributed::DistributedDataParallel parallel(model, world);      // the one additional line
//   optim::AdamW optimizer(model.parameters());
//   for (const data::Batch& batch : loader.epoch(0)) {  // DataLoaderOptions::rank and ranks
//     optimizer.zero_grad();
//     loss_of(model, batch).backward();                 // ends when all gradients are averaged
//     optimizer.step();
//   }
//
// The model is used as before: clipping, loss scaling and Autocast see the averaged gradients.
//
//   parallel.shard(optimizer);   // each rank holds its part of the optimizer's states (ZeRO-1)
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "extensor/distributed/communicator.h"
#include "extensor/export.h"
#include "extensor/named_tensors.h"
#include "extensor/nn/module.h"
#include "extensor/optim/optimizer.h"

EXTENSOR_BEGIN_API

namespace extensor::distributed {

struct DataParallelOptions {
  // Gradients are reduced in buckets of about this size. The first one is smaller, so that
  // communication begins early.
  std::int64_t bucket_bytes = 25 << 20;
  // Reduces a bucket as soon as its gradients are complete. Without it, all are reduced at the end
  // of backward(), which a model needs that recomputes a parameter's uses in several parts
  // (checkpoint()).
  bool overlap = true;
};

class DistributedDataParallel {
 public:
  // Takes over the gradients of the parameters that require one, until it is destroyed: their
  // grad() are views of buckets. Copies the parameters and buffers of rank 0 to all other ranks.
  // The communicator must outlive it. Throws DistributedError if the ranks have different
  // parameters; ValueError without parameters, for a bucket below 1 byte, or for parameters of
  // another DistributedDataParallel; DeviceError for parameters on several devices.
  template <nn::detail::IsModule Model>
  explicit DistributedDataParallel(Model& model, Communicator& communicator = init(),
                                   const DataParallelOptions& options = {})
      : DistributedDataParallel(model.named_parameters(), model.named_buffers(), communicator,
                                options) {}
  DistributedDataParallel(const NamedTensors& parameters, const NamedTensors& buffers,
                          Communicator& communicator, const DataParallelOptions& options = {});
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;
  ~DistributedDataParallel();

  // While it lives, backward() adds to this rank's gradients without communication:
  //
  //   {
  //     const auto local = parallel.no_sync();
  //     (loss_of(first) / 2).backward();
  //   }
  //   (loss_of(second) / 2).backward();   // averages the sum of both
  class [[nodiscard]] NoSync {
   public:
    explicit NoSync(DistributedDataParallel& parallel);
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;
    ~NoSync();

   private:
    bool& syncs_;
    bool before_;
  };
  NoSync no_sync() { return NoSync(*this); }

  // Takes part in the average with what no_sync() has accumulated, or with zeros: for a rank whose
  // part of a batch is empty, in place of backward().
  void backward_empty();

  // Divides the states of the optimizer between the ranks, those that it has as well: each rank
  // holds and steps its part of every parameter, and step() gathers the parameters. backward() then
  // gives a rank the averages of its part only; the other elements of grad() are 0.
  // optim::clip_grad_norm and GradScaler count all parts. All ranks must call this, step() and
  // state_dict() together. Does nothing on one rank. Throws ValueError unless the optimizer has
  // exactly the parameters that require a gradient, and if another one is divided already.
  void shard(optim::Optimizer& optimizer);

  // Copies the buffers of rank 0, such as the running statistics of batch norms, to all others.
  void broadcast_buffers();

  Communicator& communicator() const;
  std::int64_t bucket_count() const;

 private:
  class Reducer;
  std::unique_ptr<Reducer> reducer_;
};

}  // namespace extensor::distributed

EXTENSOR_END_API
