#include <cmath>
#include <optional>

#include "op_database/op_database.h"

namespace extensor::op_database {

namespace {

// A dense copy in double that can be indexed with broadcast batch dimensions in front.
struct Values {
  Shape shape;
  std::vector<double> data;

  explicit Values(const Tensor& x)
      : shape(x.shape()), data(x.to(DType::float64).to_vector<double>()) {}

  // The element at `index`, whose last positions index this shape; a dimension of size 1 repeats.
  double at(const std::vector<std::int64_t>& index) const {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const std::int64_t position = index[index.size() - shape.size() + d];
      offset = offset * shape[d] + (shape[d] == 1 ? 0 : position);
    }
    return data[static_cast<std::size_t>(offset)];
  }
};

struct Setting {
  bool causal = false;
  std::optional<double> scale = {};
};

// softmax(scale · q·kᵀ + mask)·v by its definition, one query at a time, and the logsumexp of the
// scores.
Tensors reference(const Tensors& inputs, const Setting& setting) {
  const Values q(inputs[0]), k(inputs[1]), v(inputs[2]);
  const bool has_mask = inputs.size() > 3;
  const bool is_bool = has_mask && inputs[3].dtype() == DType::bool_;
  const Values mask(has_mask ? inputs[3] : zeros({}));
  std::vector<std::int64_t> batch;  // the broadcast dimensions except the last two
  for (const Values* operand : {&q, &k, &v}) {
    const std::size_t rank = operand->shape.size() - 2;
    if (batch.size() < rank) batch.insert(batch.begin(), rank - batch.size(), 1);
    for (std::size_t d = 0; d < rank; ++d) {
      std::int64_t& size = batch[batch.size() - rank + d];
      if (operand->shape[d] != 1) size = operand->shape[d];
    }
  }
  const auto last = [](const Values& x, std::size_t from_end) {
    return x.shape[x.shape.size() - from_end];
  };
  const std::int64_t queries = last(q, 2), keys = last(k, 2), width = last(q, 1);
  const std::int64_t columns = last(v, 1);
  const double scale = setting.scale.value_or(1 / std::sqrt(static_cast<double>(width)));
  std::int64_t count = 1;
  for (std::int64_t size : batch) count *= size;

  std::vector<double> result, logsumexp;
  for (std::int64_t b = 0; b < count; ++b) {
    std::vector<std::int64_t> index(batch.size() + 2);
    for (std::int64_t rest = b, d = static_cast<std::int64_t>(batch.size()) - 1; d >= 0; --d) {
      const auto at = static_cast<std::size_t>(d);
      index[at] = rest % batch[at];
      rest /= batch[at];
    }
    const auto element = [&](const Values& x, std::int64_t i, std::int64_t j) {
      index[batch.size()] = i;
      index[batch.size() + 1] = j;
      return x.at(index);
    };
    for (std::int64_t i = 0; i < queries; ++i) {
      std::vector<double> weights(static_cast<std::size_t>(keys), 0);
      double total = 0;
      for (std::int64_t j = 0; j < keys; ++j) {
        if (setting.causal && j > i) continue;
        if (is_bool && element(mask, i, j) == 0) continue;
        double score = 0;
        for (std::int64_t p = 0; p < width; ++p) score += element(q, i, p) * element(k, j, p);
        score *= scale;
        if (has_mask && !is_bool) score += element(mask, i, j);
        weights[static_cast<std::size_t>(j)] = std::exp(score);
        total += weights[static_cast<std::size_t>(j)];
      }
      logsumexp.push_back(std::log(total));
      for (std::int64_t c = 0; c < columns; ++c) {
        double sum = 0;
        for (std::int64_t j = 0; j < keys; ++j) {
          sum += weights[static_cast<std::size_t>(j)] * element(v, j, c);
        }
        result.push_back(total == 0 ? 0 : sum / total);
      }
    }
  }
  Shape shape(batch);
  shape.push_back(queries);
  const Tensor totals = from_data(logsumexp, shape);
  shape.push_back(columns);
  return {from_data(result, shape), totals};
}

Tensor mask_of(const Tensors& inputs) { return inputs.size() > 3 ? inputs[3] : Tensor(); }

Sample sample(std::string label, Tensors inputs, Setting setting = {}) {
  Sample result;
  result.label = std::move(label);
  result.inputs = std::move(inputs);
  result.cancelling_terms = 1;  // g·vᵀ − Σ g·y of a query that sees one key
  result.forward = [setting](const Tensors& in) {
    return Tensors{scaled_dot_product_attention(in[0], in[1], in[2], mask_of(in), setting.causal,
                                                setting.scale)};
  };
  result.reference = [setting](const Tensors& in) { return Tensors{reference(in, setting)[0]}; };
  result.backward = [setting](const Tensors& g, const Tensors& in) {
    const bool has_float_mask = in.size() > 3 && in[3].dtype() != DType::bool_;
    AttentionGradients gradients = scaled_dot_product_attention_backward(
        g[0], in[0], in[1], in[2], mask_of(in), setting.causal, setting.scale, {}, has_float_mask);
    Tensors list{gradients.q, gradients.k, gradients.v};
    if (in.size() > 3) list.push_back(gradients.mask);
    return list;
  };
  return result;
}

// q, k and v with values of ordinary size.
Tensors operands(const Shape& q, const Shape& k, const Shape& v, std::uint64_t seed) {
  return {sample_uniform(q, -1.5, 1.5, seed), sample_uniform(k, -1.5, 1.5, seed + 1),
          sample_uniform(v, -2, 2, seed + 2)};
}

Tensors with_mask(Tensors list, Tensor mask) {
  list.push_back(std::move(mask));
  return list;
}

// About two in three entries are visible; row `hidden_row` of the second last axis sees nothing.
Tensor drawn_mask(const Shape& shape, std::uint64_t seed, std::int64_t hidden_row = -1) {
  Tensor mask = greater(sample_integers(shape, 0, 3, seed), 0);
  if (hidden_row >= 0) mask[{ellipsis, hidden_row, Slice{}}].fill(false);
  return mask;
}

// Every head of k and v serves three heads of q; the reference repeats them.
Sample grouped_sample(std::string label, Tensors inputs) {
  Sample result;
  result.label = std::move(label);
  result.inputs = std::move(inputs);
  result.cancelling_terms = 1;
  const auto options_of = [](const Tensors& in) {
    return AttentionOptions{.mask = mask_of(in), .enable_gqa = true};
  };
  result.forward = [=](const Tensors& in) {
    return Tensors{scaled_dot_product_attention(in[0], in[1], in[2], options_of(in))};
  };
  result.reference = [](const Tensors& in) {
    Tensors repeated = in;
    repeated[1] = repeat(in[1], 3, 1);
    repeated[2] = repeat(in[2], 3, 1);
    return Tensors{reference(repeated, {})[0]};
  };
  result.backward = [=](const Tensors& g, const Tensors& in) {
    AttentionGradients gradients = scaled_dot_product_attention_backward(
        g[0], in[0], in[1], in[2], options_of(in), in.size() > 3);
    Tensors list{gradients.q, gradients.k, gradients.v};
    if (in.size() > 3) list.push_back(gradients.mask);
    return list;
  };
  return result;
}

std::vector<Sample> samples() {
  std::vector<Sample> list;
  list.push_back(sample("[5, 4]", operands({5, 4}, {5, 4}, {5, 4}, 1)));
  list.push_back(sample("[5, 7] against [9, 7], dv 3", operands({5, 7}, {9, 7}, {9, 3}, 2)));
  list.push_back(sample("d 17, dv 33", operands({3, 17}, {4, 17}, {4, 33}, 3)));
  list.push_back(sample("two keys", operands({3, 4}, {2, 4}, {2, 5}, 4)));
  list.push_back(sample("one query, 33 keys", operands({1, 4}, {33, 4}, {33, 3}, 5)));
  list.push_back(sample("33 queries", operands({33, 3}, {5, 3}, {5, 2}, 6)));
  list.push_back(sample("batch [2]", operands({2, 4, 6}, {2, 5, 6}, {2, 5, 4}, 7)));
  list.push_back(
      sample("batch and heads [2, 3]", operands({2, 3, 4, 4}, {2, 3, 5, 4}, {2, 3, 5, 4}, 8)));
  list.push_back(
      sample("keys shared by the heads", operands({2, 3, 4, 4}, {2, 1, 5, 4}, {1, 3, 5, 2}, 9)));
  list.push_back(sample("k and v without batch", operands({3, 4, 4}, {5, 4}, {5, 4}, 10)));
  list.push_back(sample("scale 0.3", operands({4, 5}, {6, 5}, {6, 5}, 11), {false, 0.3}));
  list.push_back(sample("scale -0.7", operands({4, 5}, {6, 5}, {6, 5}, 12), {false, -0.7}));
  list.push_back(sample("causal [6, 4]", operands({6, 4}, {6, 4}, {6, 4}, 13), {true, {}}));
  list.push_back(sample("causal, more queries", operands({7, 4}, {3, 4}, {3, 4}, 14), {true, {}}));
  list.push_back(sample("causal, more keys", operands({3, 4}, {7, 4}, {7, 4}, 15), {true, {}}));
  list.push_back(sample("causal, heads, scale",
                        operands({2, 2, 5, 3}, {2, 2, 5, 3}, {2, 2, 5, 4}, 16), {true, 0.9}));
  list.push_back(sample("bool mask [5, 6]",
                        with_mask(operands({5, 4}, {6, 4}, {6, 4}, 17), drawn_mask({5, 6}, 18))));
  list.push_back(
      sample("bool mask of the keys",
             with_mask(operands({2, 2, 3, 4}, {2, 2, 5, 4}, {2, 2, 5, 3}, 19),
                       tensor({{true, true, false, true, false}, {false, true, true, true, true}})
                           .reshape({2, 1, 1, 5}))));
  list.push_back(
      sample("bool mask, a row that sees nothing",
             with_mask(operands({2, 4, 4}, {2, 5, 4}, {2, 5, 4}, 20), drawn_mask({4, 5}, 21, 2))));
  list.push_back(sample("bool mask, causal",
                        with_mask(operands({5, 4}, {5, 4}, {5, 4}, 22), drawn_mask({5, 5}, 23)),
                        {true, {}}));
  list.push_back(sample("float mask [5, 6]", with_mask(operands({5, 4}, {6, 4}, {6, 4}, 24),
                                                       sample_uniform({5, 6}, -2, 2, 25))));
  list.push_back(sample("float mask of the heads",
                        with_mask(operands({2, 3, 3, 4}, {2, 3, 4, 4}, {2, 3, 4, 2}, 26),
                                  sample_uniform({3, 1, 4}, -2, 2, 27))));
  list.push_back(
      sample("float mask of the keys, causal",
             with_mask(operands({5, 4}, {5, 4}, {5, 4}, 28), sample_uniform({1, 5}, -2, 2, 29)),
             {true, {}}));
  for (bool has_mask : {false, true}) {
    Tensors inputs = operands({2, 6, 3, 4}, {2, 2, 5, 4}, {2, 2, 5, 3}, 50);
    if (has_mask) inputs.push_back(sample_uniform({6, 3, 5}, -2, 2, 51));
    list.push_back(grouped_sample(has_mask ? "grouped queries, float mask" : "grouped queries",
                                  std::move(inputs)));
  }
  list.push_back(sample("no queries", operands({2, 0, 4}, {2, 3, 4}, {2, 3, 5}, 30)));
  list.push_back(sample("no keys", operands({2, 3, 4}, {2, 0, 4}, {2, 0, 5}, 31)));
  list.push_back(sample("no batch", operands({0, 3, 4}, {0, 2, 4}, {0, 2, 5}, 32)));
  return list;
}

// Without a backward: the logsumexp only serves the backward of the other op.
std::vector<Sample> samples_with_logsumexp() {
  const auto both = [](std::string label, Tensors inputs, Setting setting = {}) {
    Sample result;
    result.label = std::move(label);
    result.inputs = std::move(inputs);
    result.forward = [setting](const Tensors& in) {
      const AttentionResult got = scaled_dot_product_attention_with_logsumexp(
          in[0], in[1], in[2], mask_of(in), setting.causal, setting.scale);
      return Tensors{got.output, got.logsumexp};
    };
    result.reference = [setting](const Tensors& in) { return reference(in, setting); };
    return result;
  };
  return {both("[5, 7] against [9, 7], dv 3", operands({5, 7}, {9, 7}, {9, 3}, 40)),
          both("causal, heads", operands({2, 2, 5, 3}, {2, 2, 5, 3}, {2, 2, 5, 4}, 41), {true, {}}),
          both("float mask [5, 6], scale 0.4",
               with_mask(operands({5, 4}, {6, 4}, {6, 4}, 42), sample_uniform({5, 6}, -2, 2, 43)),
               {false, 0.4}),
          both("no queries", operands({2, 0, 4}, {2, 3, 4}, {2, 3, 5}, 44))};
}

// ---- packed

// Splits [batch, time, 3 · heads · d] into q, k and v of each head, runs the reference on them, and
// puts the rows back in place.
Tensor packed_reference(const Tensors& in, std::int64_t heads, const Setting& setting) {
  const Values all(in[0]);
  const std::int64_t batch = all.shape[0], time = all.shape[1], width = all.shape[2] / 3;
  const std::int64_t d = width / heads;
  Tensors parts;
  for (std::int64_t part = 0; part < 3; ++part) {
    std::vector<double> rows;
    for (std::int64_t i = 0; i < batch * heads * time * d; ++i) {
      const std::int64_t c = i % d, t = i / d % time, h = i / d / time % heads;
      const std::int64_t b = i / d / time / heads;
      rows.push_back(all.at({b, t, part * width + h * d + c}));
    }
    parts.push_back(from_data(rows, {batch, heads, time, d}));
  }
  if (in.size() > 1) parts.push_back(in[1]);
  const Values result(reference(parts, setting)[0]);
  std::vector<double> joined;
  for (std::int64_t i = 0; i < batch * time * width; ++i) {
    const std::int64_t c = i % d, h = i / d % heads, t = i / width % time, b = i / width / time;
    joined.push_back(result.at({b, h, t, c}));
  }
  return from_data(joined, {batch, time, width});
}

Sample packed_sample(std::string label, std::int64_t heads, Tensors inputs, Setting setting = {}) {
  Sample result;
  result.label = std::move(label);
  result.inputs = std::move(inputs);
  result.cancelling_terms = 1;
  const auto mask = [](const Tensors& in) { return in.size() > 1 ? in[1] : Tensor(); };
  result.forward = [=](const Tensors& in) {
    return Tensors{
        scaled_dot_product_attention_packed(in[0], heads, mask(in), setting.causal, setting.scale)};
  };
  result.reference = [=](const Tensors& in) {
    return Tensors{packed_reference(in, heads, setting)};
  };
  result.backward = [=](const Tensors& g, const Tensors& in) {
    const bool has_float_mask = in.size() > 1 && in[1].dtype() != DType::bool_;
    const PackedAttentionGradients found = scaled_dot_product_attention_packed_backward(
        g[0], in[0], heads, mask(in), setting.causal, setting.scale, has_float_mask);
    Tensors list{found.qkv};
    if (in.size() > 1) list.push_back(found.mask);
    return list;
  };
  return result;
}

std::vector<Sample> packed_samples() {
  const auto drawn = [](const Shape& shape, std::uint64_t seed) {
    return Tensors{sample_uniform(shape, -1.5, 1.5, seed)};
  };
  std::vector<Sample> list;
  list.push_back(packed_sample("one head", 1, drawn({2, 5, 12}, 50)));
  list.push_back(packed_sample("3 heads, causal", 3, drawn({2, 6, 36}, 51), {true, {}}));
  list.push_back(
      packed_sample("2 heads of 17, scale 0.3", 2, drawn({1, 3, 102}, 52), {false, 0.3}));
  list.push_back(packed_sample("bool mask", 2,
                               with_mask(drawn({2, 4, 12}, 53), drawn_mask({2, 1, 4, 4}, 54, 2))));
  list.push_back(packed_sample(
      "float mask of the heads, causal", 2,
      with_mask(drawn({2, 4, 18}, 55), sample_uniform({2, 1, 4}, -2, 2, 56)), {true, {}}));
  list.push_back(packed_sample("no time", 2, drawn({2, 0, 12}, 57)));
  list.push_back(packed_sample("no batch", 2, drawn({0, 3, 12}, 58)));
  return list;
}

}  // namespace

void add_attention(std::vector<Op>& ops) {
  Op op;
  op.name = "scaled_dot_product_attention";
  op.family = "attention";
  op.formula = "softmax(scale · q·kᵀ + mask)·v";
  op.gradient =
      "dv = pᵀ·g, ds = p · (g·vᵀ − Σ g·y), dq = scale · ds·k, dk = scale · dsᵀ·q, dmask = ds";
  op.backward = {"scaled_dot_product_attention_backward"};
  op.dtypes = DTypes::floats;
  op.samples = samples;
  ops.push_back(std::move(op));

  Op with_logsumexp;
  with_logsumexp.name = "scaled_dot_product_attention_with_logsumexp";
  with_logsumexp.family = "attention";
  with_logsumexp.formula = "softmax(scale · q·kᵀ + mask)·v, and the logsumexp of the scores";
  with_logsumexp.samples = samples_with_logsumexp;
  ops.push_back(std::move(with_logsumexp));

  Op packed;
  packed.name = "scaled_dot_product_attention_packed";
  packed.family = "attention";
  packed.formula = "scaled_dot_product_attention of the q, k and v that qkv holds, head by head";
  packed.gradient = "those of q, k and v, packed as they are";
  packed.backward = {"scaled_dot_product_attention_packed_backward"};
  packed.samples = packed_samples;
  ops.push_back(std::move(packed));
}

}  // namespace extensor::op_database
