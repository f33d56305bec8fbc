// State dicts of other libraries. The reference computes GPT-2 from the tensors under Hugging
// Face's names, as its modeling_gpt2.py describes them: Conv1D is x · weight + bias.
#include "extensor/pretrained.h"

#include <gtest/gtest.h>

#include <cmath>

#include "extensor/extensor.h"

namespace {

using namespace extensor;

constexpr std::int64_t vocabulary = 11, block = 6, layers = 2, heads = 2, width = 8;

NamedTensors hugging_face_state() {
  manual_seed(5);
  NamedTensors state;
  const auto add = [&](const std::string& name, const Shape& shape) {
    state.emplace_back("transformer." + name, randn(shape) * 0.2);
  };
  const auto add_norm = [&](const std::string& name) {
    add(name + ".weight", {width});
    add(name + ".bias", {width});
  };
  add("wte.weight", {vocabulary, width});
  add("wpe.weight", {block, width});
  for (std::int64_t k = 0; k < layers; ++k) {
    const std::string h = "h." + std::to_string(k) + ".";
    add_norm(h + "ln_1");
    state.emplace_back("transformer." + h + "attn.bias", tril(ones({1, 1, block, block})));
    add(h + "attn.c_attn.weight", {width, 3 * width});
    add(h + "attn.c_attn.bias", {3 * width});
    add(h + "attn.c_proj.weight", {width, width});
    add(h + "attn.c_proj.bias", {width});
    add_norm(h + "ln_2");
    add(h + "mlp.c_fc.weight", {width, 4 * width});
    add(h + "mlp.c_fc.bias", {4 * width});
    add(h + "mlp.c_proj.weight", {4 * width, width});
    add(h + "mlp.c_proj.bias", {width});
  }
  add_norm("ln_f");
  return state;
}

Tensor named(const NamedTensors& state, const std::string& name) {
  for (const auto& [each, tensor] : state) {
    if (each == "transformer." + name) return tensor;
  }
  ADD_FAILURE() << name;
  return {};
}

// Logits [length, vocabulary] of one sequence.
Tensor reference(const NamedTensors& state, const std::vector<std::int64_t>& tokens) {
  const auto of = [&](const std::string& name) { return named(state, name); };
  const auto conv1d = [&](const Tensor& x, const std::string& name) {
    return matmul(x, of(name + ".weight")) + of(name + ".bias");
  };
  const auto norm = [&](const Tensor& x, const std::string& name) {
    const Tensor centred = x - mean(x, -1, true);
    return centred / sqrt(mean(centred * centred, -1, true) + 1e-5) * of(name + ".weight") +
           of(name + ".bias");
  };
  const auto length = static_cast<std::int64_t>(tokens.size());
  Tensor x = take(of("wte.weight"), from_data(tokens), 0) + of("wpe.weight").slice(0, 0, length);
  for (std::int64_t k = 0; k < layers; ++k) {
    const std::string h = "h." + std::to_string(k) + ".";
    const Tensor qkv = conv1d(norm(x, h + "ln_1"), h + "attn.c_attn");
    std::vector<Tensor> outputs;
    constexpr std::int64_t part = width / heads;
    for (std::int64_t head = 0; head < heads; ++head) {
      const auto piece = [&](std::int64_t which) {
        const std::int64_t begin = which * width + head * part;
        return qkv.slice(1, begin, begin + part);
      };
      const Tensor scores = matmul(piece(0), piece(1).transpose()) / std::sqrt(double{part});
      const Tensor seen = greater(tril(ones({length, length})), 0);
      outputs.push_back(matmul(softmax(where(seen, scores, -INFINITY), -1), piece(2)));
    }
    x = x + conv1d(concatenate(outputs, 1), h + "attn.c_proj");
    x = x + conv1d(gelu_tanh(conv1d(norm(x, h + "ln_2"), h + "mlp.c_fc")), h + "mlp.c_proj");
  }
  return matmul(norm(x, "ln_f"), of("wte.weight").transpose());
}

models::Gpt small_gpt2() {
  models::GptOptions options = models::gpt2_options();
  options.vocabulary = vocabulary;
  options.block = block;
  options.layers = layers;
  options.heads = heads;
  options.width = width;
  return models::Gpt(options);
}

TEST(Pretrained, GptComputesWhatHuggingFaceDoes) {
  const NamedTensors state = hugging_face_state();
  models::Gpt model = small_gpt2();
  model.load_state_dict(models::from_hugging_face_gpt2(state));
  model.eval();
  const std::vector<std::int64_t> tokens{3, 1, 4, 1, 5};
  const NoGrad off;
  const Tensor logits = model(from_data(tokens).unsqueeze(0)).squeeze(0);
  EXPECT_TRUE(allclose(logits, reference(state, tokens), 1e-4, 1e-5));
}

TEST(Pretrained, BackToHuggingFace) {
  const NamedTensors state = hugging_face_state();
  models::Gpt model = small_gpt2();
  model.load_state_dict(models::from_hugging_face_gpt2(state));
  const NamedTensors back = models::to_hugging_face_gpt2(model.state_dict());
  for (const auto& [name, tensor] : state) {
    if (name.ends_with("attn.bias")) continue;
    const Tensor same = named(back, name.substr(12));
    EXPECT_EQ(same.shape(), tensor.shape()) << name;
    EXPECT_TRUE(allclose(same, tensor, 0, 0)) << name;
  }
  // GPT2Model has no prefix, and a separate output projection stays one.
  NamedTensors plain;
  for (const auto& [name, tensor] : state) plain.emplace_back(name.substr(12), tensor);
  plain.emplace_back("lm_head.weight", ones({vocabulary, width}));
  const NamedTensors ours = models::from_hugging_face_gpt2(plain);
  EXPECT_EQ(ours.size(), 2 + layers * 12 + 2 + 1);
  EXPECT_TRUE(allclose(ours.back().second, ones({vocabulary, width}), 0, 0));
}

TEST(Pretrained, RefusesOtherNames) {
  const auto message_of = [](const auto& function) -> std::string {
    try {
      function();
    } catch (const ValueError& error) {
      return error.what();
    }
    return "";
  };
  for (const char* name :
       {"bert.weight", "transformer.h.x.ln_1.weight", "h.0.attn.q.weight", "h."}) {
    const std::string text = message_of([&] {
      models::from_hugging_face_gpt2({{name, ones({1})}});
    });
    EXPECT_NE(text.find(name), std::string::npos) << text;
  }
  EXPECT_NE(message_of([] {
              models::to_hugging_face_gpt2({{"h.0.fc.scale", ones({1})}});
            }).find("h.0.fc.scale"),
            std::string::npos);
}

}  // namespace
