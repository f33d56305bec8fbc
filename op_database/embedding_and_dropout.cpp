#include "op_database/op_database.h"
#include "op_database/random_reference.h"

namespace extensor::op_database {

namespace {

Sample embedding_sample(std::string label, const Tensor& weight, const Tensor& ids) {
  Sample sample;
  sample.label = std::move(label);
  sample.inputs = {weight, ids};
  sample.forward = [](const Tensors& in) { return Tensors{embedding(in[0], in[1])}; };
  sample.reference = [](const Tensors& in) {
    const auto table = in[0].to(DType::float64).to_vector<double>();
    const auto rows = in[1].to(DType::int64).to_vector<std::int64_t>();
    const std::int64_t width = in[0].size(1);
    std::vector<double> values;
    for (std::int64_t row : rows) {
      for (std::int64_t c = 0; c < width; ++c) {
        values.push_back(table[static_cast<std::size_t>(row * width + c)]);
      }
    }
    Shape shape = in[1].shape();
    shape.push_back(width);
    return Tensors{from_data(values, shape)};
  };
  sample.backward = [](const Tensors& g, const Tensors& in) {
    return Tensors{embedding_backward(g[0], in[1], in[0].size(0)), Tensor()};
  };
  return sample;
}

std::vector<Sample> embedding_samples() {
  const Tensor table = sample_uniform({7, 5}, -2, 2, 1);
  std::vector<Sample> samples;
  samples.push_back(embedding_sample("ids [6]", table, tensor({3, 0, 6, 1, 2, 5})));
  samples.push_back(embedding_sample("repeated ids [2, 3]", table, tensor({{1, 1, 4}, {4, 1, 0}})));
  samples.push_back(embedding_sample("int32 ids", table, tensor({2, 2, 0}, DType::int32)));
  samples.push_back(embedding_sample("0-d id", table, scalar(4)));
  samples.push_back(embedding_sample("no ids", table, zeros({0}, DType::int64)));
  samples.push_back(
      embedding_sample("width 17", sample_uniform({4, 17}, -2, 2, 2), tensor({3, 3, 1})));
  samples.push_back(embedding_sample("one id 40 times", sample_uniform({3, 4}, -2, 2, 3),
                                     full({40}, 1, DType::int64)));
  samples.push_back(embedding_sample("width 0", zeros({3, 0}, DType::float64), tensor({2, 0})));
  samples.push_back(embedding_sample("ids [2, 2, 3]", table, sample_integers({2, 2, 3}, 0, 7, 4)));
  return samples;
}

Sample dropout_sample(std::string label, const Shape& shape, double p, bool training = true) {
  constexpr std::uint64_t seed = 0x123456789abcdef, offset = 3;
  const auto run = [=](const Tensor& x) {
    Generator generator(RandomState{seed, 0, offset});
    return dropout(x, p, training, generator);
  };
  Sample sample;
  sample.label = std::move(label);
  sample.inputs = {sample_uniform(shape, -2, 2, 1)};
  sample.forward = [=](const Tensors& in) { return Tensors{run(in[0]).output}; };
  sample.reference = [=](const Tensors& in) {
    auto values = in[0].to(DType::float64).to_vector<double>();
    for (std::size_t i = 0; training && i < values.size(); ++i) {
      const bool dropped = random_reference::word(seed, offset + i) < p * 4294967296.0;
      values[i] = dropped ? 0 : values[i] / (1 - p);
    }
    return Tensors{from_data(values, in[0].shape())};
  };
  sample.backward = [=](const Tensors& g, const Tensors& in) {
    return Tensors{dropout_backward(g[0], run(in[0]).mask)};
  };
  return sample;
}

std::vector<Sample> dropout_samples() {
  std::vector<Sample> samples;
  samples.push_back(dropout_sample("[5, 7], p 0.5", {5, 7}, 0.5));
  samples.push_back(dropout_sample("[131], p 0.1", {131}, 0.1));
  samples.push_back(dropout_sample("[2, 3, 17], p 0.8", {2, 3, 17}, 0.8));
  samples.push_back(dropout_sample("p 0", {33}, 0));
  samples.push_back(dropout_sample("p 1", {33}, 1));
  samples.push_back(dropout_sample("not training", {33}, 0.5, false));
  samples.push_back(dropout_sample("0-d", {}, 0.3));
  samples.push_back(dropout_sample("nothing", {3, 0}, 0.3));
  return samples;
}

}  // namespace

void add_embedding_and_dropout(std::vector<Op>& ops) {
  ops.push_back({"embedding",
                 "layers",
                 "weight[ids]",
                 "weight: g added to the rows ids name",
                 {"embedding_backward"},
                 DTypes::all,
                 embedding_samples});
  ops.push_back({"dropout",
                 "layers",
                 "x / (1 − p), or 0 with probability p",
                 "g / (1 − p) where x was kept, else 0",
                 {"dropout_backward"},
                 DTypes::floats,
                 dropout_samples});
}

}  // namespace extensor::op_database
