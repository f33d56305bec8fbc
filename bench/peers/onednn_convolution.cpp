// Convolution in oneDNN's C++ API. A user has plain NCHW tensors; oneDNN chooses the algorithm and
// its internal formats, and conversion to and from them is part of the work.
#include <dnnl.hpp>
#include <memory>
#include <unordered_map>

#include "peers/onednn_work.h"

namespace extensor::bench {
namespace {

using dnnl::memory;

// The shape as oneDNN expects it, in the row-major format or in one that oneDNN chooses.
memory::desc plain(const memory::dims& shape) {
  return {shape, memory::data_type::f32,
          shape.size() == 5 ? memory::format_tag::goihw : memory::format_tag::nchw};
}
memory::desc any(const memory::dims& shape) {
  return {shape, memory::data_type::f32, memory::format_tag::any};
}

// A list of primitives that is made once and run many times.
class Convolution {
 public:
  explicit Convolution(const Task& task);

  // Each of these adds a step to run().
  void add_forward();
  void add_input_gradient();
  void add_weight_gradient();
  void run();

 private:
  using Arguments = std::unordered_map<int, memory>;
  struct Step {
    dnnl::primitive primitive;
    Arguments arguments;
  };
  struct Conversion {
    memory from, to;
  };

  memory operand(const Task& task, std::size_t index, const memory::dims& shape) const;
  memory converted(const memory& held, const memory::desc& wanted);
  void add(const dnnl::primitive& primitive, Arguments inputs, int output, const memory& held,
           const memory::desc& computed);

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  memory::dims x_shape_, weight_shape_, y_shape_, strides_, padding_;
  // The user's tensors.
  memory x_, weight_, grad_y_, y_, grad_x_, grad_weight_;
  dnnl::convolution_forward::primitive_desc forward_;
  std::vector<Step> steps_;
  std::vector<Conversion> conversions_;
};

Convolution::Convolution(const Task& task)
    : x_shape_(task.operands[0].shape),
      weight_shape_(task.operands[1].shape),
      y_shape_(task.operands[2].shape),
      strides_(2, task.attributes[0]),
      padding_(2, task.attributes[1]) {
  const std::int64_t groups = task.attributes[2];
  if (groups > 1) {
    weight_shape_.front() /= groups;
    weight_shape_.insert(weight_shape_.begin(), groups);
  }
  x_ = operand(task, 0, x_shape_);
  weight_ = operand(task, 1, weight_shape_);
  grad_y_ = operand(task, 2, y_shape_);
  y_ = memory(plain(y_shape_), engine_);
  grad_x_ = memory(plain(x_shape_), engine_);
  grad_weight_ = memory(plain(weight_shape_), engine_);
  // The backward passes need the forward primitive as a hint.
  forward_ = {{dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_auto, any(x_shape_),
               any(weight_shape_), any(y_shape_), strides_, padding_, padding_},
              engine_};
}

void Convolution::add_forward() {
  const memory x = converted(x_, forward_.src_desc());
  const memory weight = converted(weight_, forward_.weights_desc());
  add(dnnl::convolution_forward(forward_), {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, weight}},
      DNNL_ARG_DST, y_, forward_.dst_desc());
}

void Convolution::add_input_gradient() {
  const dnnl::convolution_backward_data::primitive_desc backward(
      {dnnl::algorithm::convolution_auto, any(x_shape_), any(weight_shape_), any(y_shape_),
       strides_, padding_, padding_},
      engine_, forward_);
  const memory grad_y = converted(grad_y_, backward.diff_dst_desc());
  const memory weight = converted(weight_, backward.weights_desc());
  add(dnnl::convolution_backward_data(backward),
      {{DNNL_ARG_DIFF_DST, grad_y}, {DNNL_ARG_WEIGHTS, weight}}, DNNL_ARG_DIFF_SRC, grad_x_,
      backward.diff_src_desc());
}

void Convolution::add_weight_gradient() {
  const dnnl::convolution_backward_weights::primitive_desc backward(
      {dnnl::algorithm::convolution_auto, any(x_shape_), any(weight_shape_), any(y_shape_),
       strides_, padding_, padding_},
      engine_, forward_);
  const memory grad_y = converted(grad_y_, backward.diff_dst_desc());
  const memory x = converted(x_, backward.src_desc());
  add(dnnl::convolution_backward_weights(backward),
      {{DNNL_ARG_DIFF_DST, grad_y}, {DNNL_ARG_SRC, x}}, DNNL_ARG_DIFF_WEIGHTS, grad_weight_,
      backward.diff_weights_desc());
}

void Convolution::run() {
  for (const Step& step : steps_) step.primitive.execute(stream_, step.arguments);
  stream_.wait();
}

// Operand `index` of a task, with the same values as ExTensor's.
memory Convolution::operand(const Task& task, std::size_t index, const memory::dims& shape) const {
  memory held(plain(shape), engine_);
  fill(static_cast<float*>(held.get_data_handle()), count(task.operands[index]), task.lo, task.hi,
       static_cast<std::uint32_t>(index + 1));
  return held;
}

// The forward and the backward passes share a conversion if they agree on the format.
memory Convolution::converted(const memory& held, const memory::desc& wanted) {
  if (held.get_desc() == wanted) return held;
  for (const Conversion& done : conversions_) {
    if (done.from == held && done.to.get_desc() == wanted) return done.to;
  }
  const memory copy(wanted, engine_);
  steps_.push_back({dnnl::reorder(held, copy), {{DNNL_ARG_FROM, held}, {DNNL_ARG_TO, copy}}});
  conversions_.push_back({held, copy});
  return copy;
}

void Convolution::add(const dnnl::primitive& primitive, Arguments inputs, int output,
                      const memory& held, const memory::desc& computed) {
  const bool as_held = held.get_desc() == computed;
  const memory result = as_held ? held : memory(computed, engine_);
  inputs.emplace(output, result);
  steps_.push_back({primitive, std::move(inputs)});
  if (as_held) return;
  steps_.push_back({dnnl::reorder(result, held), {{DNNL_ARG_FROM, result}, {DNNL_ARG_TO, held}}});
}

}  // namespace

Work onednn_convolution(const Task& task) {
  if (task.op.rfind("conv2d", 0) != 0 || task.dtype != DType::float32) return {};
  const auto convolution = std::make_shared<Convolution>(task);
  const bool whole = task.op == "conv2d";
  if (whole || task.op == "conv2d/forward") convolution->add_forward();
  if (whole || task.op == "conv2d/input") convolution->add_input_gradient();
  if (whole || task.op == "conv2d/weight") convolution->add_weight_gradient();
  return [convolution] { convolution->run(); };
}

}  // namespace extensor::bench
