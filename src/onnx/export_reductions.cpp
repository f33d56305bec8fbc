// Rules for reductions, softmax, sorting and norms of vectors.
#include <cmath>
#include <limits>

#include "core/check.h"
#include "extensor/creation.h"
#include "onnx/graph_builder.h"

namespace extensor::onnx {

namespace {

using Integers = std::vector<std::int64_t>;

// A reduction over no axes is a copy; a node with an empty list of axes would reduce all of them.
std::string reduce(CallWriter& call, const char* type, const std::string& x, const Integers& axes,
                   bool keepdims) {
  if (axes.empty()) return call.node("Identity", {x});
  return call.node(type, {x, call.graph.integers(axes)}, {attribute("keepdims", keepdims)});
}

Integers reduced_axes(const CallWriter& call) { return call.axes(call.item("axes"), call.rank(0)); }

constexpr char sum_type[] = "ReduceSum", mean_type[] = "ReduceMean", max_type[] = "ReduceMax",
               min_type[] = "ReduceMin", prod_type[] = "ReduceProd",
               logsumexp_type[] = "ReduceLogSumExp";

template <const char* type>
void write_reduction(CallWriter& call) {
  call.result(reduce(call, type, call.input(0, call.result_dtype()), reduced_axes(call),
                     call.flag("keepdims")));
}

// Nonzero numbers are true.
template <const char* type>
void write_truth(CallWriter& call) {
  const std::string truth = call.cast(call.input(0, DType::bool_), DType::bool_, DType::int32);
  call.result(call.cast(reduce(call, type, truth, reduced_axes(call), call.flag("keepdims")),
                        DType::int32, DType::bool_));
}

void write_count_nonzero(CallWriter& call) {
  const std::string truth = call.cast(call.input(0, DType::bool_), DType::bool_, DType::int64);
  call.result(reduce(call, "ReduceSum", truth, reduced_axes(call), call.flag("keepdims")));
}

constexpr char argmax_type[] = "ArgMax", argmin_type[] = "ArgMin";

template <const char* type>
void write_argument(CallWriter& call) {
  const Integers axes = reduced_axes(call);
  const bool keepdims = call.flag("keepdims");
  if (axes.size() == 1) {
    return call.result(call.node(type, {call.input(0)},
                                 {attribute("axis", axes[0]), attribute("keepdims", keepdims)}));
  }
  if (static_cast<std::int64_t>(axes.size()) != call.rank(0)) {
    call.refuse("several axes, but not all, have no form in ONNX");
  }
  const std::string flat = call.node("Reshape", {call.input(0), call.graph.integers({-1})});
  const std::string found =
      call.node(type, {flat}, {attribute("axis", 0), attribute("keepdims", 0)});
  call.result(keepdims ? call.reshape(found, call.result_shape()) : found);
}

// The mean of the squared distances from the mean, times n / (n − correction).
template <bool takes_root>
void write_spread(CallWriter& call) {
  const DType dtype = call.result_dtype();
  const Integers axes = reduced_axes(call);
  double n = 1;
  for (const std::int64_t axis : axes) n *= static_cast<double>(call.fixed(0, axis));
  const std::string x = call.input(0, dtype);
  const std::string centred = call.node("Sub", {x, reduce(call, "ReduceMean", x, axes, true)});
  std::string spread =
      reduce(call, "ReduceMean", call.node("Mul", {centred, centred}), axes, call.flag("keepdims"));
  const double correction = call.real("correction");
  if (correction != 0) {
    const double scale =
        n > correction ? n / (n - correction) : std::numeric_limits<double>::quiet_NaN();
    spread = call.node("Mul", {spread, call.graph.number(scale, dtype)});
  }
  call.result(takes_root ? call.node("Sqrt", {spread}) : spread);
}

void write_norm(CallWriter& call) {
  const DType dtype = call.result_dtype();
  const double p = call.real("p");
  const Integers axes = reduced_axes(call);
  const bool keepdims = call.flag("keepdims");
  const std::string x = call.input(0, dtype);
  const std::string size = call.node("Abs", {x});
  if (axes.empty()) return call.result(size);
  if (p == 2) return call.result(reduce(call, "ReduceL2", x, axes, keepdims));
  if (p == 1) return call.result(reduce(call, "ReduceSum", size, axes, keepdims));
  if (std::isinf(p)) {
    return call.result(reduce(call, p > 0 ? "ReduceMax" : "ReduceMin", size, axes, keepdims));
  }
  if (p == 0) call.refuse("p = 0 has no form in ONNX");
  const std::string power = call.node("Pow", {size, call.graph.number(p, dtype)});
  call.result(call.node(
      "Pow", {reduce(call, "ReduceSum", power, axes, keepdims), call.graph.number(1 / p, dtype)}));
}

// ---- rows

constexpr char softmax_type[] = "Softmax", log_softmax_type[] = "LogSoftmax";

template <const char* type>
void write_softmax(CallWriter& call) {
  const std::int64_t axis = call.axis(call.integer("axis"), call.rank(0));
  call.result(call.node(type, {call.input(0, call.result_dtype())}, {attribute("axis", axis)}));
}

void write_cumulative_sum(CallWriter& call) {
  const AttributeTree& item = call.item("axis");
  const std::int64_t axis = item.is_none() ? 0 : call.axis(call.integer(item), call.rank(0));
  if (call.rank(0) == 0) return call.result(call.input(0, call.result_dtype()));
  call.result(call.node("CumSum", {call.input(0, call.result_dtype()),
                                   call.graph.constant(tensor(axis, DType::int64))}));
}

// ---- sorting: the largest n of n elements

Names sorted(CallWriter& call, const std::vector<Size>& count, std::int64_t axis, bool largest) {
  return call.graph.nodes("TopK", {call.input(0), call.graph.sizes(count)}, 2,
                          {attribute("axis", axis), attribute("largest", largest)});
}

// The results are the values and the indices; an op for one of them leaves the other undefined.
void write_sort(CallWriter& call) {
  if (call.rank(0) == 0) call.refuse("a tensor without axes has no form in ONNX");
  const std::int64_t axis = call.axis(call.integer("axis"), call.rank(0));
  const Names pair =
      sorted(call, {call.shape(0)[static_cast<std::size_t>(axis)]}, axis, call.flag("descending"));
  call.result(0, pair[0]);
  call.result(1, pair[1]);
}

void write_topk(CallWriter& call) {
  const std::int64_t axis = call.axis(call.integer("axis"), call.rank(0));
  const Names pair = sorted(call, {call.item("k").integer}, axis, call.flag("largest"));
  call.result(0, pair[0]);
  call.result(1, pair[1]);
}

constexpr ExportRule rules[] = {
    {"sum", write_reduction<sum_type>},
    {"mean", write_reduction<mean_type>},
    {"max_reduce", write_reduction<max_type>},
    {"min_reduce", write_reduction<min_type>},
    {"prod", write_reduction<prod_type>},
    {"logsumexp", write_reduction<logsumexp_type>},
    {"all", write_truth<min_type>},
    {"any", write_truth<max_type>},
    {"count_nonzero", write_count_nonzero},
    {"argmax", write_argument<argmax_type>},
    {"argmin", write_argument<argmin_type>},
    {"var", write_spread<false>},
    {"std", write_spread<true>},
    {"norm", write_norm},
    {"softmax", write_softmax<softmax_type>},
    {"log_softmax", write_softmax<log_softmax_type>},
    {"cumulative_sum", write_cumulative_sum},
    {"sort", write_sort},
    {"argsort", write_sort},
    {"sort_with_indices", write_sort},
    {"topk", write_topk},
};

}  // namespace

const std::span<const ExportRule> reduction_export_rules = rules;

}  // namespace extensor::onnx
