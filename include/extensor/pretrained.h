// State dicts of models from other libraries, under the names that ExTensor's models have.
//
//   models::Gpt model(models::gpt2_options());
//   model.load_state_dict(models::from_hugging_face_gpt2(load_safetensors("model.safetensors").tensors));
//
// ResNet18, ResNet50 and Vgg16 have torchvision's names already (resnet18, resnet50, vgg16_bn).
#pragma once

#include "extensor/export.h"
#include "extensor/named_tensors.h"

EXTENSOR_BEGIN_API

namespace extensor::models {

// The state of a GPT-2 of Hugging Face, GPT2LMHeadModel or GPT2Model, under the names of
// models::Gpt. Weights of its Conv1D layers are transposed, masks are dropped, and a missing output
// projection is the token embedding. ValueError for a name that is not one of GPT-2.
NamedTensors from_hugging_face_gpt2(const NamedTensors& state);
// The reverse: the state of a models::Gpt with biases, under the names of GPT2LMHeadModel.
NamedTensors to_hugging_face_gpt2(const NamedTensors& state);

}  // namespace extensor::models

EXTENSOR_END_API
