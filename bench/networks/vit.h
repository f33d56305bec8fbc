// A small vision transformer: 64 patches of 4 × 4 pixels and a class token, width 192, 6 layers
// with 3 heads.
#pragma once

#include <extensor/extensor.h>

namespace extensor::bench {

struct Vit : nn::Module<Vit> {
  nn::Conv2d patches{3, 192, 4, {.stride = 4}};
  nn::Parameter token{randn({1, 1, 192}) * 0.02};
  nn::Parameter positions{randn({1, 65, 192}) * 0.02};
  nn::TransformerEncoder encoder{
      nn::TransformerEncoderLayer(192, 3,
                                  {.feedforward = 768,
                                   .dropout = 0,
                                   .activation = nn::TransformerActivation::gelu,
                                   .norm_first = true}),
      6};
  nn::LayerNorm norm{192};
  nn::Linear head{192, 10};

  // [n, 3, 32, 32] → [n, 10]
  Tensor forward(const Tensor& x) const {
    const Tensor embedded = patches(x).flatten(2).transpose({0, 2, 1});
    const Tensor tokens = concatenate({token.broadcast_to({x.size(0), 1, 192}), embedded}, 1);
    return head(norm(encoder(tokens + positions)[{Slice(), 0}]));
  }
};

}  // namespace extensor::bench
