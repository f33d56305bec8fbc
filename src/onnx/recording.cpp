#include "onnx/recording.h"

#include <cstring>
#include <map>
#include <unordered_map>
#include <utility>

#include "core/check.h"
#include "core/context.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/indexing.h"
#include "extensor/manipulation.h"
#include "extensor/reduction.h"
#include "io/check_tensors.h"
#include "nn/calls.h"
#include "nn/naming_walker.h"

namespace extensor::onnx {

using detail::message;

namespace {

using Kind = RecordedValue::Kind;

std::uint64_t version_of(const Tensor& x) {
  return x.impl().storage->version.load(std::memory_order_relaxed);
}

// The paths of modules. A module and its first member have the same address, but not the same type.
using Paths = std::map<std::pair<const void*, std::string_view>, std::string>;

class PathWalker final : public nn::detail::NamingWalker {
 public:
  PathWalker(Paths& paths, std::string root) : paths_(paths), root_(std::move(root)) {}
  void enter(std::string_view name, const nn::ModuleDescription& module) override {
    NamingWalker::enter(name, module);
    paths_.emplace(std::pair(module.address, module.type), root_ + "." + std::string(path()));
  }
  void tensor(std::string_view, const Tensor&) override {}

 private:
  Paths& paths_;
  std::string root_;
};

// Sets evaluation mode until the end of a scope.
class Evaluation final : private nn::Walker {
 public:
  explicit Evaluation(const RecordedModule& module) {
    if (module.walk != nullptr) (*module.walk)(*this);
    for (const auto& [flag, on] : flags_) flag->set(false);
  }
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;
  ~Evaluation() override {
    for (const auto& [flag, on] : flags_) flag->set(on);
  }

 private:
  void training(nn::Training& flag) override { flags_.emplace_back(&flag, flag); }
  void tensor(std::string_view, const Tensor&) override {}

  std::vector<std::pair<nn::Training*, bool>> flags_;
};

// Collects the calls of one thread.
class Recorder final : public nn::detail::ModuleObserver {
 public:
  Recorder(const char* operation, const Paths& paths) : operation_(operation), paths_(paths) {}

  int add(Kind kind, const Tensor& tensor, std::string name = {}) {
    RecordedValue value{kind, std::move(name), tensor, {}, version_of(tensor)};
    for (const std::int64_t size : tensor.shape()) value.shape.push_back({size, 0});
    recording.values.push_back(std::move(value));
    const int id = static_cast<int>(recording.values.size()) - 1;
    ids_[tensor.impl_or_null()] = id;
    return id;
  }

  // The value of a tensor; one that no call has made is a constant.
  int find(const Tensor& tensor, const char* user) {
    const auto found = ids_.find(tensor.impl_or_null());
    int id = no_value;
    if (found != ids_.end()) {
      id = found->second;
    } else {
      id = alias_of(tensor);
    }
    if (id == no_value) return add(Kind::constant, tensor);
    if (recording.values[static_cast<std::size_t>(id)].version != version_of(tensor)) {
      throw ValueError(message(operation_, ": ", user, " reads a tensor of shape ", tensor.shape(),
                               " that was changed in place through another tensor", place(),
                               " (write the result into a new tensor instead)"));
    }
    return id;
  }

  void call(const ops::Op& op, const void* attributes, ops::Inputs inputs,
            std::span<const Tensor> results) {
    RecordedCall made;
    made.op = &op;
    made.attributes = parse_attributes(op.attributes->describe(attributes));
    if (op.row) made.row = *static_cast<const ops::RowAttributes*>(attributes);
    const bool in_place = made.row && made.row->in_place;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      const Tensor& input = inputs[k];
      if (in_place && input.impl_or_null() == results[0].impl_or_null()) refresh(input);
      made.inputs.push_back(input.defined() ? find(input, op.name) : no_value);
    }
    if (!in_place && results.size() == 1 && is_input(results[0], inputs)) return;
    if (in_place) check_unshared(op, results[0]);
    for (const Tensor& result : results) {
      made.results.push_back(result.defined() ? add(Kind::result, result) : no_value);
    }
    if (!modules_.empty()) made.module = modules_.back();
    recording.calls.push_back(std::move(made));
  }

  void enter(const nn::ModuleDescription& module) override {
    const auto found = paths_.find({module.address, module.type});
    modules_.push_back(found != paths_.end() ? found->second
                       : modules_.empty()
                           ? nn::detail::unqualified(module.type)
                           : modules_.back() + " > " + nn::detail::unqualified(module.type));
  }
  void result(const Tensor&) override {}
  void leave() override { modules_.pop_back(); }

  Recording recording;

 private:
  static bool is_input(const Tensor& result, ops::Inputs inputs) {
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (inputs[k].impl_or_null() == result.impl_or_null()) return true;
    }
    return false;
  }
  // The value with the same elements in memory, such as that of x for x.detach().
  int alias_of(const Tensor& tensor) const {
    const detail::TensorImpl& impl = tensor.impl();
    for (std::size_t k = recording.values.size(); k-- > 0 && impl.numel != 0;) {
      const detail::TensorImpl& other = recording.values[k].tensor.impl();
      if (other.data == impl.data && other.dtype == impl.dtype && other.shape == impl.shape &&
          other.strides == impl.strides) {
        return static_cast<int>(k);
      }
    }
    return no_value;
  }
  // The write of this call is not a change through another tensor.
  void refresh(const Tensor& written) {
    const auto found = ids_.find(written.impl_or_null());
    if (found == ids_.end()) return;
    RecordedValue& value = recording.values[static_cast<std::size_t>(found->second)];
    if (value.version + 1 == version_of(written)) value.version = version_of(written);
  }
  // A write into state would be lost, and one into a view would have to change its base as well.
  void check_unshared(const ops::Op& op, const Tensor& written) const {
    const auto found = ids_.find(written.impl_or_null());
    if (found == ids_.end() ||
        recording.values[static_cast<std::size_t>(found->second)].kind != Kind::state) {
      return;
    }
    throw ValueError(message(operation_, ": ", op.name, " writes into parameter or buffer '",
                             recording.values[static_cast<std::size_t>(found->second)].name, "'",
                             place()));
  }
  std::string place() const { return modules_.empty() ? "" : ", in " + modules_.back(); }

  const char* operation_;
  const Paths& paths_;
  std::unordered_map<const detail::TensorImpl*, int> ids_;
  std::vector<std::string> modules_;
};

thread_local Recorder* recorder = nullptr;

void capture(const ops::Op& op, const void* attributes, ops::Inputs inputs,
             std::span<const Tensor> results) {
  recorder->call(op, attributes, inputs, results);
}

Recording record_once(const char* operation, const Function& function, const Paths& paths,
                      const NamedTensors& state, std::span<const Tensor> inputs) {
  Recorder own(operation, paths);
  for (const auto& [name, tensor] : state) own.add(Kind::state, tensor, name);
  for (const Tensor& input : inputs) own.recording.inputs.push_back(own.add(Kind::input, input));
  std::vector<Tensor> outputs;
  {
    detail::Context modes = detail::context;
    modes.recording = false;
    modes.autocast = std::nullopt;
    modes.capture = capture;
    const detail::ContextScope scope(modes);
    const nn::detail::ObserverScope observer(own);
    Recorder* const before = std::exchange(recorder, &own);
    try {
      outputs = function(inputs);
    } catch (...) {
      recorder = before;
      throw;
    }
    recorder = before;
  }
  for (const Tensor& output : outputs) {
    if (!output.defined()) throw ValueError(message(operation, ": an output is undefined"));
    own.recording.outputs.push_back(own.find(output, "the result"));
  }
  if (outputs.empty()) throw ValueError(message(operation, ": the function returns no tensor"));
  return std::move(own.recording);
}

// ---- other inputs, to see what depends on them

// Other values of the same range, so that indices and probabilities stay in theirs. Reversing alone
// would keep sums and extremes, and change nothing where all elements are equal: floats are halved
// as well, or become a ramp if they are 0 or infinite, and the largest integer becomes the
// smallest.
Tensor other_values(const Tensor& x) {
  Tensor back = flip(x.contiguous()).clone();
  if (x.numel() == 0 || x.dtype() == DType::bool_) return back;
  if (!is_floating_point(x.dtype())) return where(equal(back, back.max()), back.min(), back);
  Tensor half = back * 0.5;
  if (any(not_equal(half, x)).to(cpu_device).item<bool>()) return half;
  return ((arange(x.numel(), DType::float64) + 1) / (x.numel() + 1.0))
      .reshape(x.shape())
      .to(x.dtype())
      .to(x.device());
}

// `count` samples from axis 0, from the first on and around.
Tensor samples(const Tensor& x, std::int64_t count) {
  std::vector<std::int64_t> rows;
  for (std::int64_t k = 0; k < count; ++k) rows.push_back(k % x.size(0));
  return take(x, from_data(rows).to(x.device()), 0);
}

std::int64_t batch_of(const char* operation, std::span<const Tensor> inputs) {
  for (const Tensor& x : inputs) {
    if (x.ndim() > 0 && x.size(0) > 0 && x.size(0) == inputs[0].size(0)) continue;
    throw ShapeError(message(operation, ": an input is ", x.shape(),
                             ", and with dynamic_batch axis 0 of every input must be the batch, "
                             "with one sample at least"));
  }
  return inputs[0].size(0);
}

// ---- merging

[[noreturn]] void differs(const char* operation, const std::string& what) {
  throw ValueError(message(operation, ": ", what,
                           " (a graph is the same for all inputs: loops and branches over values, "
                           "item() and functions outside of ops cannot be exported)"));
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  const Tensor left = io::dense(a), right = io::dense(b);
  return a.numel() == 0 || std::memcmp(left.impl().data, right.impl().data, left.nbytes()) == 0;
}

// The element that a tensor consists of, as a tensor without axes; undefined if they differ.
Tensor uniform_element(const Tensor& x) {
  if (x.numel() == 0) return {};
  const Tensor flat = io::dense(x).reshape({-1});
  const std::size_t width = flat.itemsize();
  const std::byte* first = flat.impl().data;
  for (std::size_t k = 1; k < static_cast<std::size_t>(flat.numel()); ++k) {
    if (std::memcmp(first, first + k * width, width) != 0) return {};
  }
  return flat.slice(0, 0, 1).squeeze(0);
}

void merge_value(const char* operation, RecordedValue& a, const RecordedValue& b,
                 const RecordedValue& c) {
  if (a.kind != b.kind || a.kind != c.kind || a.tensor.ndim() != b.tensor.ndim() ||
      a.tensor.ndim() != c.tensor.ndim() || a.tensor.dtype() != b.tensor.dtype() ||
      a.tensor.dtype() != c.tensor.dtype()) {
    differs(operation, "the values of the inputs change which tensors are computed");
  }
  bool grows = false;
  for (std::size_t d = 0; d < a.shape.size(); ++d) {
    const auto size = merged_size(a.shape[d].value, b.shape[d].value, c.shape[d].value);
    if (!size) {
      differs(operation, message("a tensor of shape ", a.tensor.shape(),
                                 " has a size that depends on the values of the inputs, or does "
                                 "not grow evenly with the batch"));
    }
    a.shape[d] = *size;
    grows = grows || !size->is_fixed();
  }
  if (a.kind != Kind::constant) return;
  if (!grows && same_bytes(a.tensor, b.tensor) && same_bytes(a.tensor, c.tensor)) return;
  const Tensor one = uniform_element(a.tensor), two = uniform_element(b.tensor),
               three = uniform_element(c.tensor);
  if (grows && one.defined() && two.defined() && three.defined() && same_bytes(one, two) &&
      same_bytes(one, three)) {
    return;
  }
  differs(operation, message("a tensor of shape ", a.tensor.shape(),
                             grows ? " whose values depend on the size of the batch"
                                   : " that depends on the values of the inputs",
                             " was not computed by ops"));
}

void merge_recordings(const char* operation, Recording& a, const Recording& b, const Recording& c) {
  const auto same_calls = [](const RecordedCall& x, const RecordedCall& y) {
    return x.op == y.op && x.inputs == y.inputs && x.results == y.results;
  };
  for (std::size_t k = 0; k < a.calls.size(); ++k) {
    RecordedCall& call = a.calls[k];
    if (k >= b.calls.size() || k >= c.calls.size() || !same_calls(call, b.calls[k]) ||
        !same_calls(call, c.calls[k]) ||
        !merge(call.attributes, b.calls[k].attributes, c.calls[k].attributes)) {
      differs(operation, message("the inputs or the size of the batch change the call of ",
                                 call.op->name, call.module.empty() ? "" : " in ", call.module));
    }
  }
  if (a.calls.size() != b.calls.size() || a.calls.size() != c.calls.size() ||
      a.values.size() != b.values.size() || a.values.size() != c.values.size() ||
      a.outputs != b.outputs || a.outputs != c.outputs) {
    differs(operation, "the inputs or the size of the batch change the calls of ops");
  }
  for (std::size_t k = 0; k < a.values.size(); ++k) {
    merge_value(operation, a.values[k], b.values[k], c.values[k]);
  }
}

}  // namespace

Recording record(const char* operation, const Function& function, const RecordedModule& module,
                 const NamedTensors& state, std::span<const Tensor> inputs, bool dynamic_batch) {
  if (inputs.empty()) throw ValueError(message(operation, ": there are no inputs"));
  for (const Tensor& input : inputs) {
    if (!input.defined()) throw ValueError(message(operation, ": an input is undefined"));
  }
  Paths paths;
  if (module.walk != nullptr) {
    const std::string root = nn::detail::unqualified(module.description.type);
    paths.emplace(std::pair(module.description.address, module.description.type), root);
    PathWalker walker(paths, root);
    (*module.walk)(walker);
  }
  // A batch of one sample would not differ from an axis of length 1.
  const std::int64_t batch =
      dynamic_batch ? std::max<std::int64_t>(2, batch_of(operation, inputs)) : 0;
  const Evaluation evaluation(module);
  const auto run = [&](int other) {
    std::vector<Tensor> given;
    const detail::RecordingScope off(false);
    for (const Tensor& x : inputs) {
      const Tensor sized = dynamic_batch ? samples(x, batch + other) : x.clone();
      given.push_back(other == 0 ? sized : other_values(sized));
    }
    return record_once(operation, function, paths, state, given);
  };
  Recording all = run(0);
  const Recording more = run(1);
  merge_recordings(operation, all, more, dynamic_batch ? run(2) : more);
  all.batch = batch;
  return all;
}

}  // namespace extensor::onnx
