#include "extensor/distributed/data_parallel.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "autograd/leaf_sink.h"
#include "core/check.h"
#include "core/graph.h"
#include "core/make_tensor.h"
#include "distributed/agreement.h"
#include "distributed/bucket_sharding.h"
#include "extensor/autograd.h"
#include "extensor/version.h"

namespace extensor::distributed {

using detail::message;

namespace {

constexpr const char* operation = "DistributedDataParallel";

// The gradient of a leaf, which may be undefined.
Tensor& gradient_of(const Tensor& leaf) {
  return static_cast<detail::LeafNode&>(*detail::node_of(leaf.impl())).grad;
}

bool is_same_memory(const Tensor& a, const Tensor& b) {
  return a.defined() && a.impl().data == b.impl().data && a.is_contiguous() &&
         a.impl().storage.get() == b.impl().storage.get();
}

}  // namespace

// Holds the gradients in buckets and reduces each bucket when all of its gradients are complete,
// always in the order of buckets: the ranks must not differ in that order.
class DistributedDataParallel::Reducer {
 public:
  Reducer(const NamedTensors& parameters, const NamedTensors& buffers, Communicator& communicator,
          const DataParallelOptions& options);
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;
  ~Reducer() {
    remove_sinks();
    if (sharding_ == nullptr) return;
    sharding_->deactivate();
    optim::unregister_sharding(*sharding_);
  }

  void backward_empty();
  void shard(optim::Optimizer& optimizer);
  void broadcast_buffers();

  Communicator& communicator;
  std::size_t bucket_count() const { return buckets_.size(); }
  Device device() const { return parameters_.front().tensor.device(); }
  bool syncs = true;

 private:
  struct Parameter {
    std::string name;
    Tensor tensor;
    Tensor view = {};  // of the bucket
    std::size_t bucket = 0;
    detail::NodePointer sink = {};  // the node of the tensor while it has a sink
    bool ready = false;             // in the current walk
    bool touched = false;           // since the last reduction
    bool divided = false;           // the view has the averages of this rank's part, else 0
  };
  struct Bucket {
    Tensor flat;                      // its size is a multiple of the number of ranks
    Tensor own;                       // this rank's part of the averages, while they are computed
    std::size_t size = 0, ready = 0;  // parameters
    Work work = {};
  };

  void remove_sinks() const;
  void check_device() const;
  void check_ranks(const NamedTensors& buffers);
  void make_buckets();
  void take(Parameter& parameter, const Tensor& gradient, bool create_graph);
  void add(Parameter& parameter, const Tensor& gradient) const;
  Tensor& move_into_view(Parameter& parameter) const;
  void launch_ready(bool all);
  void end_walk(bool completed);
  void check_all_touched();
  void finish();

  DataParallelOptions options_;
  std::vector<Parameter> parameters_;
  NamedTensors buffers_;
  std::vector<Bucket> buckets_;
  std::shared_ptr<BucketSharding> sharding_;  // null: gradients are whole
  std::size_t launched_ = 0;                  // buckets
  bool in_walk_ = false, broken_ = false;
};

DistributedDataParallel::Reducer::Reducer(const NamedTensors& parameters,
                                          const NamedTensors& buffers, Communicator& among,
                                          const DataParallelOptions& options)
    : communicator(among), options_(options), buffers_(buffers) {
  if (options.bucket_bytes < 1) {
    throw ValueError(
        message(operation, ": bucket_bytes is ", options.bucket_bytes, " (allowed: 1 or more)"));
  }
  for (const auto& [name, tensor] : parameters) {
    if (tensor.requires_grad()) parameters_.push_back({.name = name, .tensor = tensor});
  }
  if (parameters_.empty()) {
    throw ValueError(message(operation, ": no parameter requires a gradient"));
  }
  check_device();
  check_ranks(buffers);
  const NoGrad off;
  for (const auto& [name, tensor] : parameters) {
    Tensor values = tensor;
    communicator.broadcast(values);
  }
  broadcast_buffers();
  make_buckets();
  try {
    for (Parameter& each : parameters_) {
      each.sink = autograd::set_leaf_sink(operation, each.tensor,
                                          [this, &each](const Tensor& gradient, bool create_graph) {
                                            take(each, gradient, create_graph);
                                          });
    }
  } catch (...) {
    remove_sinks();  // the destructor does not run, and the sinks refer to this object
    throw;
  }
}

void DistributedDataParallel::Reducer::remove_sinks() const {
  for (const Parameter& each : parameters_) {
    if (each.sink.get() != nullptr) autograd::remove_leaf_sink(*each.sink);
  }
}

// One device, because buckets contain the gradients of several parameters.
void DistributedDataParallel::Reducer::check_device() const {
  const Parameter& first = parameters_.front();
  const Device device = first.tensor.device();
  if (device.type != Device::Type::cpu && device.type != Device::Type::cuda) {
    throw DeviceError(
        message(operation, ": parameter ", first.name, " is on ", device, " (allowed: cpu, cuda)"));
  }
  for (const Parameter& each : parameters_) {
    if (each.tensor.device() == device) continue;
    throw DeviceError(message(operation, ": parameter ", each.name, " is on ", each.tensor.device(),
                              ", parameter ", first.name, " on ", device,
                              " (allowed: one device)"));
  }
}

void DistributedDataParallel::Reducer::check_ranks(const NamedTensors& buffers) {
  std::vector<std::string> lines{message("version ", version()),
                                 message("buckets of ", options_.bucket_bytes, " bytes"),
                                 message("overlap = ", options_.overlap),
                                 message(parameters_.size(), " parameters with a gradient")};
  if (device().type == Device::Type::cuda) lines.push_back("parameters on cuda");
  for (const Parameter& each : parameters_) {
    lines.push_back(
        message("parameter ", each.name, " ", each.tensor.dtype(), " ", each.tensor.shape()));
  }
  for (const auto& [name, tensor] : buffers) {
    lines.push_back(message("buffer ", name, " ", tensor.dtype(), " ", tensor.shape()));
  }
  check_agreement(operation, communicator, lines);
}

// The gradients of the last parameters are complete first.
void DistributedDataParallel::Reducer::make_buckets() {
  constexpr std::int64_t first_bytes = 1 << 20;
  struct Plan {
    DType dtype;
    std::int64_t numel = 0;
    std::vector<std::size_t> members;
  };
  std::vector<Plan> plans;
  for (std::size_t k = parameters_.size(); k-- > 0;) {
    const Tensor& tensor = parameters_[k].tensor;
    const auto item = static_cast<std::int64_t>(tensor.itemsize());
    const std::int64_t limit =
        plans.size() <= 1 ? std::min(first_bytes, options_.bucket_bytes) : options_.bucket_bytes;
    if (plans.empty() || plans.back().dtype != tensor.dtype() ||
        (plans.back().numel > 0 && (plans.back().numel + tensor.numel()) * item > limit)) {
      plans.push_back({.dtype = tensor.dtype(), .members = {}});
    }
    plans.back().members.push_back(k);
    plans.back().numel += tensor.numel();
  }
  for (const Plan& plan : plans) {
    const std::int64_t ranks = communicator.size();
    const std::int64_t padded = (plan.numel + ranks - 1) / ranks * ranks;
    Bucket bucket{.flat = detail::make_empty(operation, {padded}, plan.dtype, device()),
                  .own = {},
                  .size = plan.members.size()};
    bucket.flat.fill(0);
    std::byte* data = bucket.flat.impl().data;
    for (const std::size_t k : plan.members) {
      Parameter& each = parameters_[k];
      const Shape& shape = each.tensor.shape();
      each.view = detail::make_view(bucket.flat, data, shape, detail::contiguous_strides(shape));
      each.bucket = buckets_.size();
      data += each.tensor.nbytes();
    }
    buckets_.push_back(std::move(bucket));
  }
}

void DistributedDataParallel::Reducer::broadcast_buffers() {
  const NoGrad off;
  for (auto& [name, tensor] : buffers_) communicator.broadcast(tensor);
}

// Gives the view the values of grad(), which may be undefined, and returns grad().
Tensor& DistributedDataParallel::Reducer::move_into_view(Parameter& parameter) const {
  Tensor& grad = gradient_of(parameter.tensor);
  const bool divided = std::exchange(parameter.divided, false);
  if (!grad.defined()) return grad;
  if (!is_same_memory(grad, parameter.view)) {
    parameter.view.copy_from(grad);
  } else if (divided) {
    // The averages of an earlier backward() count once in the next average: only this rank has
    // them.
    Tensor own = optim::part_of(parameter.view, sharding_->part(parameter.tensor));
    own *= static_cast<double>(communicator.size());
  }
  return grad;
}

// Adds the gradient to the view, which becomes grad().
void DistributedDataParallel::Reducer::add(Parameter& parameter, const Tensor& gradient) const {
  const detail::RecordingScope off(false);
  Tensor& grad = move_into_view(parameter);
  if (grad.defined()) {
    parameter.view += gradient;
  } else {
    parameter.view.copy_from(gradient);
  }
  grad = parameter.view;
}

void DistributedDataParallel::Reducer::take(Parameter& parameter, const Tensor& gradient,
                                            bool create_graph) {
  if (create_graph) {
    throw ValueError(message(operation,
                             ": backward with create_graph: gradients that are averaged "
                             "over ranks are not recorded (allowed: grad())"));
  }
  if (broken_) {
    throw ValueError(message(operation,
                             ": an earlier backward failed after ranks had exchanged "
                             "gradients, which no longer agree (allowed: a new run)"));
  }
  if (!in_walk_) {
    in_walk_ = true;
    autograd::at_end_of_walk([this](bool completed) { end_walk(completed); });
  }
  if (parameter.ready && syncs && options_.overlap) {
    throw ValueError(message(operation, ": parameter ", parameter.name,
                             " got a second gradient in one backward, from parts that are "
                             "recomputed (allowed: DataParallelOptions::overlap = false)"));
  }
  add(parameter, gradient);
  parameter.touched = true;
  if (!syncs || parameter.ready) return;
  parameter.ready = true;
  ++buckets_[parameter.bucket].ready;
  if (options_.overlap) launch_ready(false);
}

void DistributedDataParallel::Reducer::launch_ready(bool all) {
  for (; launched_ < buckets_.size(); ++launched_) {
    Bucket& bucket = buckets_[launched_];
    if (!all && bucket.ready < bucket.size) return;
    if (sharding_ == nullptr) {
      bucket.work = communicator.all_reduce_async(bucket.flat, ReduceOp::mean);
    } else {
      bucket.own = detail::make_empty(operation, {bucket.flat.numel() / communicator.size()},
                                      bucket.flat.dtype(), bucket.flat.device());
      bucket.work = communicator.reduce_scatter_async(bucket.flat, bucket.own, ReduceOp::mean);
    }
  }
}

void DistributedDataParallel::Reducer::end_walk(bool completed) {
  in_walk_ = false;
  if (!syncs) return;
  if (!completed) {
    broken_ = launched_ > 0;
    for (Parameter& each : parameters_) each.ready = false;
    for (Bucket& bucket : buckets_) bucket.ready = 0;
    return;
  }
  check_all_touched();
  finish();
}

void DistributedDataParallel::Reducer::check_all_touched() {
  std::string names;
  std::size_t count = 0;
  for (const Parameter& each : parameters_) {
    if (each.touched) continue;
    constexpr std::size_t most_names = 10;
    if (++count <= most_names) names += (names.empty() ? "" : ", ") + each.name;
  }
  if (count == 0) return;
  broken_ = launched_ > 0;
  for (Parameter& each : parameters_) each.ready = false;
  for (Bucket& bucket : buckets_) bucket.ready = 0;
  throw ValueError(message(operation, ": ", count, " of ", parameters_.size(),
                           " parameters got no gradient from backward on rank ",
                           communicator.rank(), ": ", names,
                           " (allowed: a loss that depends on all of them on every rank, or "
                           "requires_grad_(false) for those that are not used)"));
}

void DistributedDataParallel::Reducer::finish() {
  launch_ready(true);
  for (Bucket& bucket : buckets_) {
    bucket.work.wait();
    bucket.work = Work();
    bucket.ready = 0;
    if (sharding_ == nullptr) continue;
    const detail::RecordingScope off(false);
    const std::int64_t first = communicator.rank() * bucket.own.numel();
    bucket.flat.fill(0);
    bucket.flat.slice(0, first, first + bucket.own.numel()).copy_from(bucket.own);
    bucket.own = Tensor();
  }
  launched_ = 0;
  for (Parameter& each : parameters_) {
    each.ready = each.touched = false;
    each.divided = sharding_ != nullptr;
  }
}

void DistributedDataParallel::Reducer::backward_empty() {
  if (broken_) {
    throw ValueError(message(operation, ": an earlier backward failed (allowed: a new run)"));
  }
  const detail::RecordingScope off(false);
  for (Parameter& each : parameters_) {
    Tensor& grad = move_into_view(each);
    if (!grad.defined()) each.view.fill(0);
    grad = each.view;
    each.touched = true;
  }
  if (syncs) finish();
}

void DistributedDataParallel::Reducer::shard(optim::Optimizer& optimizer) {
  constexpr const char* method = "DistributedDataParallel::shard";
  if (communicator.size() == 1) return;
  if (sharding_ != nullptr) {
    throw ValueError(message(method, ": an optimizer is divided already (allowed: one)"));
  }
  const std::vector<Tensor> stepped = optimizer.parameters();
  for (const Parameter& each : parameters_) {
    const auto is_this = [&](const Tensor& other) {
      return other.impl_or_null() == each.tensor.impl_or_null();
    };
    if (std::ranges::any_of(stepped, is_this)) continue;
    throw ValueError(message(method, ": the optimizer does not have parameter ", each.name,
                             " (allowed: an optimizer of all parameters that require a gradient, "
                             "or requires_grad_(false) before DistributedDataParallel is made)"));
  }
  std::vector<BucketSharding::Bucket> buckets;
  buckets.reserve(buckets_.size());
  for (const Bucket& bucket : buckets_) {
    buckets.push_back({bucket.flat.dtype(), bucket.flat.device(), bucket.flat.numel(), {}});
  }
  // The order of the parameters in a bucket, see make_buckets().
  for (std::size_t k = parameters_.size(); k-- > 0;) {
    buckets[parameters_[k].bucket].parameters.push_back(parameters_[k].tensor);
  }
  auto sharding = std::make_shared<BucketSharding>(communicator, std::move(buckets));
  optim::divide_states(optimizer, sharding);
  sharding_ = std::move(sharding);
  optim::register_sharding(sharding_);
}

// ---- the public class

DistributedDataParallel::DistributedDataParallel(const NamedTensors& parameters,
                                                 const NamedTensors& buffers,
                                                 Communicator& communicator,
                                                 const DataParallelOptions& options)
    : reducer_(std::make_unique<Reducer>(parameters, buffers, communicator, options)) {}
DistributedDataParallel::~DistributedDataParallel() = default;

DistributedDataParallel::NoSync::NoSync(DistributedDataParallel& parallel)
    : syncs_(parallel.reducer_->syncs), before_(syncs_) {
  syncs_ = false;
}
DistributedDataParallel::NoSync::~NoSync() { syncs_ = before_; }

void DistributedDataParallel::shard(optim::Optimizer& optimizer) { reducer_->shard(optimizer); }
void DistributedDataParallel::backward_empty() { reducer_->backward_empty(); }
void DistributedDataParallel::broadcast_buffers() { reducer_->broadcast_buffers(); }
Communicator& DistributedDataParallel::communicator() const { return reducer_->communicator; }
std::int64_t DistributedDataParallel::bucket_count() const {
  return static_cast<std::int64_t>(reducer_->bucket_count());
}

}  // namespace extensor::distributed
