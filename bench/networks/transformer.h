// A transformer encoder of 6 layers for sentences, with width 256 and 4 heads.
#pragma once

#include <extensor/extensor.h>

namespace extensor::bench {

struct SentenceEncoder : nn::Module<SentenceEncoder> {
  nn::Embedding words{1000, 256};
  nn::Embedding positions{128, 256};
  nn::TransformerEncoder encoder{
      nn::TransformerEncoderLayer(
          256, 4,
          {.feedforward = 1024, .dropout = 0, .activation = nn::TransformerActivation::gelu}),
      6};
  // int64 [n, length] → [n, length, 256]
  Tensor forward(const Tensor& tokens) const {
    return encoder(words(tokens) + positions(arange(tokens.size(1))));
  }
};

}  // namespace extensor::bench
