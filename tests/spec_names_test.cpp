// Pins the names and arguments of the core ops: calls each once, by family, with its aliases and
// backwards. A name that is missing or changes its arguments does not compile. The calls check only
// shapes: the last test checks that every name is in the op database, whose values op_database_test
// checks.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "op_database/op_database.h"

namespace {

using namespace extensor;

// Two ordinary matrices, a vector, and a gradient of the matrices' shape.
const Tensor& a() {
  static const Tensor value = tensor({{0.25, 0.5}, {0.75, 0.9}}, float64);
  return value;
}
const Tensor& b() {
  static const Tensor value = tensor({{1.5, 2.0}, {2.5, 3.0}}, float64);
  return value;
}
const Tensor& v() {
  static const Tensor value = tensor({0.5, 1.5}, float64);
  return value;
}
const Tensor& g() {
  static const Tensor value = ones({2, 2}, float64);
  return value;
}
const Tensor& integers() {
  static const Tensor value = tensor({{1, 2}, {3, 4}});
  return value;
}

// Checks the shape of a result.
void expect_shape(const Shape& shape, const std::vector<Tensor>& results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].shape(), shape) << "call " << i;
  }
}
void expect_shape(const Shape& shape, const std::vector<std::pair<Tensor, Tensor>>& results) {
  for (const auto& [first, second] : results) expect_shape(shape, {first, second});
}

TEST(SpecNames, Creation) {
  const Shape shape{2, 2};
  expect_shape(shape, {zeros(shape), ones(shape), full(shape, 3), empty(shape), eye(2),
                       zeros_like(a()), ones_like(a()), full_like(a(), 3), empty_like(a()),
                       from_data(std::vector<float>{1, 2, 3, 4}, shape), tril(a()), triu(a()),
                       meshgrid({v(), v()})[0], rand(shape), randn(shape), randint(0, 5, shape),
                       bernoulli(0.5, shape)});
  expect_shape({2}, {arange(2), linspace(0, 1, 2), randperm(2)});
}

TEST(SpecNames, Arithmetic) {
  expect_shape({2, 2},
               {add(a(), b()), subtract(a(), b()), multiply(a(), b()), divide(a(), b()),
                floor_divide(a(), b()), modulo(a(), b()), remainder(a(), b()), power(a(), b()),
                pow(a(), b()), negative(a()), positive(a()), abs(a()), reciprocal(a()), square(a()),
                maximum(a(), b()), minimum(a(), b()), fma(a(), b(), a())});
  const Shape shape{2, 2};
  expect_shape(shape, {add_backward(g(), shape, shape), subtract_backward(g(), shape, shape),
                       multiply_backward(g(), a(), b()), divide_backward(g(), a(), b()),
                       power_backward(g(), a(), b()), floor_divide_backward(g(), a(), b()),
                       modulo_backward(g(), a(), b()), maximum_backward(g(), a(), b()),
                       minimum_backward(g(), a(), b())});
  expect_shape(shape, {negative_backward(g(), a()), positive_backward(g(), a()),
                       abs_backward(g(), a()), reciprocal_backward(g(), a()),
                       square_backward(g(), a()), fma_backward(g(), a(), b(), shape).c});
}

TEST(SpecNames, Broadcasting) {
  EXPECT_EQ(broadcast_shapes({2, 1}, {3}), (Shape{2, 3}));
  EXPECT_TRUE(are_shapes_broadcastable({2, 1}, {3}));
  EXPECT_EQ(compute_broadcast_strides({2, 1}, {1, 1}, {2, 3}), (Strides{1, 0}));
  EXPECT_EQ(broadcast_to(v(), {2, 2}).shape(), (Shape{2, 2}));
  EXPECT_EQ(reduce_broadcast_dims(g(), {2}).shape(), (Shape{2}));
}

TEST(SpecNames, Matrix) {
  expect_shape({2, 2},
               {matmul(a(), b()), transpose(a()), transpose(a(), {1, 0}), permute_dims(a(), {1, 0}),
                matrix_transpose(a()), outer(v(), v()), inner(a(), b()), tensordot(a(), b(), 1),
                tensordot(a(), b(), {1}, {0}), einsum("ij,jk->ik", {a(), b()})});
  expect_shape({}, {dot(v(), v())});
  expect_shape({2}, {vecdot(a(), b()), vecdot(a(), b(), 0)});
  expect_shape({2, 2},
               {matmul_backward(g(), a(), b()), inner_backward(g(), a(), b()),
                tensordot_backward(g(), a(), b(), 1), tensordot_backward(g(), a(), b(), {1}, {0}),
                vecdot_backward(v(), a(), b())});
  expect_shape({2, 2}, {transpose_backward(g(), {1, 0})});
  expect_shape({2, 2}, einsum_backward(g(), "ij,jk->ik", {a(), b()}));
  expect_shape({2}, {dot_backward(ones({}), v(), v()), outer_backward(g(), v(), v())});
}

TEST(SpecNames, Reduction) {
  expect_shape({2},
               {sum(a(), 0), mean(a(), 0), max_reduce(a(), 0), extensor::max(a(), 0),
                min_reduce(a(), 0), extensor::min(a(), 0), prod(a(), 0), var(a(), 0),
                extensor::std(a(), 0), extensor::all(a(), 0), extensor::any(a(), 0), argmax(a(), 0),
                argmin(a(), 0), logsumexp(a(), 0), count_nonzero(a(), 0), norm(a(), 2, 0)});
  expect_shape({2, 2},
               {sum_backward(v(), {2, 2}, 0), mean_backward(v(), {2, 2}, 0),
                max_reduce_backward(v(), a(), 0), min_reduce_backward(v(), a(), 0),
                prod_backward(v(), a(), 0), var_backward(v(), a(), 0), std_backward(v(), a(), 0),
                logsumexp_backward(v(), a(), 0), norm_backward(v(), a(), 2, 0),
                cumulative_sum(a(), 0), cumulative_prod(a(), 0), cumulative_sum_backward(g(), 0),
                cumulative_prod_backward(g(), a(), 0)});
}

TEST(SpecNames, Shape) {
  const Shape shape{2, 2};
  expect_shape(shape, {reshape(a(), {2, 2}),
                       squeeze(a()),
                       flip(a()),
                       roll(a(), 1),
                       moveaxis(a(), 0, 1),
                       permute_dims(a(), {1, 0}),
                       concatenate({a().slice(0, 0, 1), a().slice(0, 1, 2)}),
                       concat({a()}),
                       stack({v(), v()}),
                       tile(v(), {2, 1}),
                       repeat(a().slice(0, 0, 1), 2, 0),
                       pad(a().slice(0, 0, 1), {{0, 1}, {0, 0}}),
                       reshape_backward(g(), shape),
                       squeeze_backward(g(), shape),
                       unsqueeze_backward(ones({1, 2, 2}), 0),
                       flatten_backward(ones({4}), shape),
                       split_backward({v().reshape({1, 2}), v().reshape({1, 2})}, shape),
                       unstack_backward({v(), v()}, shape),
                       tile_backward(ones({4, 2}), shape, {2, 1}),
                       repeat_backward(ones({4, 2}), shape, 2, 0),
                       flip_backward(g()),
                       roll_backward(g(), 1),
                       moveaxis_backward(g(), 0, 1),
                       pad_backward(ones({3, 2}), shape, {{0, 1}, {0, 0}}),
                       concatenate_backward(g(), {{2, 1}, {2, 1}}, 1)[0].broadcast_to(shape),
                       stack_backward(ones({1, 2, 2}))[0],
                       split(a(), 2)[0].broadcast_to(shape)});
  expect_shape({1, 2, 2}, {unsqueeze(a(), 0), expand_dims(a(), 0)});
  expect_shape({4}, {flatten(a()), ravel(a())});
  expect_shape({2}, {unstack(a())[0]});
}

TEST(SpecNames, Indexing) {
  const Shape shape{2, 2};
  const Tensor rows = tensor({1, 0}), mask = a() > 0.4, places = tensor({{0, 1}, {1, 0}});
  expect_shape(shape, {a()[{Slice{{}, {}, -1}, ellipsis}],
                       a()[{newaxis}][0],
                       take(a(), rows, 0),
                       take_along_axis(a(), places),
                       gather(a(), 0, places),
                       scatter(a(), 0, places, b()),
                       index_add(a(), 0, rows, b()),
                       where(mask, a(), b()),
                       masked_fill(a(), mask, 0),
                       one_hot(rows, 2),
                       sort(a()),
                       argsort(a()),
                       topk(a(), 2).values,
                       take_backward(g(), shape, rows, 0),
                       take_along_axis_backward(g(), shape, places),
                       gather_backward(g(), shape, 0, places),
                       where_backward(g(), mask, shape, shape).first,
                       scatter_backward(g(), 0, places, shape).second,
                       index_add_backward(g(), 0, rows).second,
                       masked_fill_backward(g(), mask),
                       sort_backward(g(), places),
                       topk_backward(g(), shape, places),
                       slice_backward(ones({1, 2}), shape, 0, 0, 1)});
  expect_shape({3}, {a()[mask], masked_select(a(), mask), nonzero(mask)[0]});
  expect_shape({2}, {searchsorted(v(), v()), unique(v())});
  expect_shape(shape, {masked_select_backward(ones({3}), shape, mask)});
}

TEST(SpecNames, ElementwiseMath) {
  expect_shape({2, 2}, {abs(a()),
                        sign(a()),
                        exp(a()),
                        exp2(a()),
                        expm1(a()),
                        log(a()),
                        log2(a()),
                        log10(a()),
                        log1p(a()),
                        sqrt(a()),
                        rsqrt(a()),
                        cbrt(a()),
                        sin(a()),
                        cos(a()),
                        tan(a()),
                        asin(a()),
                        acos(a()),
                        atan(a()),
                        sinh(a()),
                        cosh(a()),
                        tanh(a()),
                        asinh(a()),
                        acosh(b()),
                        atanh(a()),
                        erf(a()),
                        ceil(a()),
                        floor(a()),
                        round(a()),
                        trunc(a()),
                        clip(a(), 0, 1),
                        atan2(a(), b()),
                        hypot(a(), b()),
                        copysign(a(), b()),
                        logaddexp(a(), b()),
                        logical_and(a(), b()),
                        logical_or(a(), b()),
                        logical_not(a()),
                        logical_xor(a(), b()),
                        bitwise_and(integers(), integers()),
                        bitwise_or(integers(), integers()),
                        bitwise_xor(integers(), integers()),
                        bitwise_invert(integers()),
                        bitwise_left_shift(integers(), 1),
                        bitwise_right_shift(integers(), 1)});
  expect_shape({2, 2},
               {abs_backward(g(), a()),   sign_backward(g(), a()),  exp_backward(g(), a()),
                exp2_backward(g(), a()),  expm1_backward(g(), a()), log_backward(g(), a()),
                log2_backward(g(), a()),  log10_backward(g(), a()), log1p_backward(g(), a()),
                sqrt_backward(g(), a()),  rsqrt_backward(g(), a()), cbrt_backward(g(), a()),
                sin_backward(g(), a()),   cos_backward(g(), a()),   tan_backward(g(), a()),
                asin_backward(g(), a()),  acos_backward(g(), a()),  atan_backward(g(), a()),
                sinh_backward(g(), a()),  cosh_backward(g(), a()),  tanh_backward(g(), a()),
                asinh_backward(g(), a()), acosh_backward(g(), b()), atanh_backward(g(), a()),
                erf_backward(g(), a()),   ceil_backward(g(), a()),  floor_backward(g(), a()),
                round_backward(g(), a()), trunc_backward(g(), a()), clip_backward(g(), a(), 0, 1)});
  // A gradient with a denominator that can be 0 has an eps.
  expect_shape({2, 2}, {log_backward(g(), a(), 0.0), log2_backward(g(), a(), 0.0),
                        log10_backward(g(), a(), 0.0), sqrt_backward(g(), a(), 0.0),
                        rsqrt_backward(g(), a(), 0.0), reciprocal_backward(g(), a(), 0.0),
                        divide_backward(g(), a(), b(), 0.0).second,
                        power_backward(g(), a(), b(), 0.0).second});
  expect_shape({2, 2}, {atan2_backward(g(), a(), b()), hypot_backward(g(), a(), b()),
                        copysign_backward(g(), a(), b()), logaddexp_backward(g(), a(), b())});
}

TEST(SpecNames, Comparison) {
  expect_shape({2, 2}, {equal(a(), b()), not_equal(a(), b()), less(a(), b()), less_equal(a(), b()),
                        greater(a(), b()), greater_equal(a(), b()), isnan(a()), isinf(a()),
                        isfinite(a()), isclose(a(), b())});
  EXPECT_FALSE(allclose(a(), b()));
}

TEST(SpecNames, Activations) {
  expect_shape({2, 2}, {relu(a()),       leaky_relu(a()),   leaky_relu(a(), 0.2),
                        prelu(a(), v()), sigmoid(a()),      tanh(a()),
                        softmax(a()),    softmax(a(), 0),   log_softmax(a()),
                        gelu(a()),       gelu(a(), true),   elu(a()),
                        selu(a()),       silu(a()),         mish(a()),
                        softplus(a()),   hard_sigmoid(a()), hard_swish(a()),
                        hard_tanh(a()),  relu6(a())});
  expect_shape({2, 1}, {glu(a())});
  expect_shape({2, 2}, {relu_backward(g(), a()),
                        leaky_relu_backward(g(), a()),
                        leaky_relu_backward(g(), a(), 0.2),
                        prelu_backward(g(), a(), v()).first,
                        sigmoid_backward(g(), a()),
                        tanh_backward(g(), a()),
                        softmax_backward(g(), a()),
                        softmax_backward(g(), a(), 0),
                        log_softmax_backward(g(), a()),
                        gelu_backward(g(), a()),
                        gelu_backward(g(), a(), true),
                        elu_backward(g(), a()),
                        selu_backward(g(), a()),
                        silu_backward(g(), a()),
                        mish_backward(g(), a()),
                        softplus_backward(g(), a()),
                        hard_sigmoid_backward(g(), a()),
                        hard_swish_backward(g(), a()),
                        hard_tanh_backward(g(), a()),
                        relu6_backward(g(), a()),
                        glu_backward(ones({2, 1}), a())});
  EXPECT_EQ(prelu_backward(g(), a(), v()).second.shape(), (Shape{2}));
}

TEST(SpecNames, Initializers) {
  const Shape shape{2, 2};
  expect_shape(shape, {xavier_uniform(shape), xavier_normal(shape), kaiming_uniform(shape),
                       kaiming_normal(shape), uniform(shape, 0, 1), normal(shape, 0, 1),
                       trunc_normal(shape), constant(shape, 1), orthogonal(shape)});
}

TEST(SpecNames, Losses) {
  const Tensor classes = tensor({0, 1}), one = ones({}, float64);
  expect_shape(
      {}, {binary_cross_entropy(a(), a()), binary_cross_entropy_with_logits(a(), a()),
           mean_squared_error(a(), b()), cross_entropy(a(), classes), nll_loss(a(), classes),
           l1_loss(a(), b()), smooth_l1_loss(a(), b()), huber_loss(a(), b()), hinge_loss(a(), b()),
           kl_divergence(a(), b()), focal_loss(a(), a()), triplet_margin_loss(a(), b(), g())});
  expect_shape({2, 2}, {mean_squared_error(a(), b(), Reduction::none)});
  expect_shape(
      {2, 2},
      {binary_cross_entropy_backward(one, a(), a()).first,
       binary_cross_entropy_with_logits_backward(one, a(), a()).first,
       mean_squared_error_backward(one, a(), b()).first,
       cross_entropy_backward(one, a(), classes).first, nll_loss_backward(one, a(), classes),
       l1_loss_backward(one, a(), b()).first, smooth_l1_loss_backward(one, a(), b()).first,
       huber_loss_backward(one, a(), b()).first, hinge_loss_backward(one, a(), b()).first,
       kl_divergence_backward(one, a(), b()).first, focal_loss_backward(one, a(), a()).first});
  (void)triplet_margin_loss_backward(one, a(), b(), g());
}

TEST(SpecNames, NeuralNetKernels) {
  expect_shape({2, 2},
               {linear(a(), b()), linear(a(), b(), v()), linear(a(), b(), v(), Activation::gelu),
                linear_backward(g(), a(), b()).weight,
                linear_backward(g(), a(), b(), v(), Activation::gelu).x});
  const Tensor image = a().reshape({1, 1, 2, 2}), series = v().reshape({1, 1, 2});
  const Tensor kernel = ones({1, 1, 1, 1}, float64);
  expect_shape(
      {1, 1, 2, 2},
      {conv2d(image, kernel), conv_transpose2d(image, kernel), max_pool2d(image, {1, 1}),
       avg_pool2d(image, {1, 1}), adaptive_avg_pool2d(image, {2, 2}),
       conv2d_backward(image, image, kernel).x, conv_transpose2d_backward(image, image, kernel).x,
       max_pool2d_backward(image, image, {1, 1}), avg_pool2d_backward(image, image.shape(), {1, 1}),
       adaptive_avg_pool2d_backward(image, image.shape()), group_norm(image, 1),
       instance_norm(image), group_norm_backward(image, image, 1).x,
       instance_norm_backward(image, image).x});
  expect_shape({1, 1, 2}, {conv1d(series, ones({1, 1, 1}, float64)),
                           conv1d_backward(series, series, ones({1, 1, 1}, float64)).x});
  const Tensor ids = tensor({1, 0}), mean_of = zeros({2}, float64), var_of = ones({2}, float64);
  const DropoutResult dropped = dropout(a(), 0.5);
  expect_shape({2, 2},
               {batch_norm(a(), mean_of, var_of), layer_norm(a(), {2}), rms_norm(a(), {2}),
                layer_norm_backward(g(), a(), {2}).x, rms_norm_backward(g(), a(), {2}).first,
                batch_norm_backward(g(), a(), mean_of, var_of).x, dropped.output,
                dropout_backward(g(), dropped.mask), embedding(a(), ids),
                embedding_backward(g(), ids, 2), scaled_dot_product_attention(a(), b(), g()),
                scaled_dot_product_attention_backward(g(), a(), b(), g()).q});
}

TEST(SpecNames, OptimizerSteps) {
  Tensor parameter = a().clone();
  AdamState adam{zeros_like(parameter), zeros_like(parameter)};
  RmspropState rmsprop{zeros_like(parameter)};
  AdagradState adagrad{zeros_like(parameter)};
  sgd_step(parameter, g());
  adam_step(parameter, g(), adam, 1);
  adamw_step(parameter, g(), adam, 2);
  rmsprop_step(parameter, g(), rmsprop, 1);
  adagrad_step(parameter, g(), adagrad, 1);
  LionState lion{zeros_like(parameter)};
  lion_step(parameter, g(), lion, 1);
  std::vector<Tensor> gradients = {g().clone()};
  EXPECT_EQ(clip_grad_norm(gradients, 1), 2);
  clip_grad_value(gradients, 0.25);
  EXPECT_EQ(gradients[0].to_vector<double>(), std::vector<double>(4, 0.25));
}

// The primary names and the aliases of the list, without backwards.
constexpr const char* names = R"(
zeros ones full empty arange eye linspace zeros_like ones_like full_like empty_like tril triu meshgrid
rand randn randint randperm bernoulli
add subtract multiply divide floor_divide modulo remainder power pow negative positive abs reciprocal
square maximum minimum fma
broadcast_to matmul transpose permute_dims matrix_transpose dot outer inner tensordot einsum vecdot
sum mean max_reduce max min_reduce min prod var std all any argmax argmin count_nonzero logsumexp norm
cumulative_sum cumulative_prod
sign exp exp2 expm1 log log2 log10 log1p sqrt rsqrt cbrt sin cos tan asin acos atan atan2 sinh cosh
tanh asinh acosh atanh erf ceil floor round trunc clip hypot copysign logaddexp
logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_xor bitwise_invert
bitwise_left_shift bitwise_right_shift
equal not_equal less less_equal greater greater_equal isnan isinf isfinite isclose allclose
reshape squeeze unsqueeze expand_dims flatten ravel concatenate concat stack split unstack tile repeat
flip roll moveaxis pad
take take_along_axis gather scatter index_add where nonzero masked_fill one_hot sort argsort topk
searchsorted unique
relu leaky_relu prelu sigmoid softmax log_softmax gelu elu selu silu mish softplus hard_sigmoid
hard_swish hard_tanh relu6 glu
xavier_uniform xavier_normal kaiming_uniform kaiming_normal uniform normal trunc_normal constant
orthogonal
binary_cross_entropy binary_cross_entropy_with_logits mean_squared_error cross_entropy nll_loss l1_loss
smooth_l1_loss huber_loss hinge_loss kl_divergence focal_loss triplet_margin_loss
linear conv1d conv2d conv_transpose2d max_pool2d avg_pool2d adaptive_avg_pool2d batch_norm layer_norm
rms_norm group_norm instance_norm dropout embedding scaled_dot_product_attention
sgd_step adam_step adamw_step rmsprop_step adagrad_step clip_grad_norm clip_grad_value
)";

TEST(SpecNames, AreInTheOpDatabaseWithReferences) {
  const auto op_of = [](const std::string& name) -> const op_database::Op* {
    for (const op_database::Op& op : op_database::ops()) {
      if (op.name == name || std::ranges::find(op.aliases, name) != op.aliases.end()) return &op;
    }
    return nullptr;
  };
  std::istringstream list(names);
  int count = 0;
  for (std::string name; list >> name; ++count) {
    const op_database::Op* op = op_of(name);
    ASSERT_NE(op, nullptr) << name << " is not in the op database";
    const auto samples = op->samples();
    EXPECT_FALSE(samples.empty()) << name;
    for (const op_database::Sample& sample : samples) {
      EXPECT_TRUE(static_cast<bool>(sample.reference)) << name << " " << sample.label;
    }
  }
  EXPECT_GT(count, 180);
}

}  // namespace
