// Every op that dispatch() can run, by family. A family is a file in this directory that ends with
// its list; registry.cpp names the lists. Ops of the elementwise tables are added from the tables.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ops/op.h"

namespace extensor::ops {

using OpList = std::span<const Op* const>;

// The list of a family: constinit const OpList softmax_ops = listed<softmax_op, …>;
template <auto&... ops>
inline constexpr const Op* listed[] = {&ops...};

extern const OpList attention_ops;
extern const OpList batch_norm_ops;
extern const OpList class_loss_ops;
extern const OpList complex_ops;
extern const OpList composed_loss_ops;
extern const OpList contract_ops;
extern const OpList convolution_3d_ops;
extern const OpList convolution_ops;
extern const OpList copy_ops;
extern const OpList ctc_loss_ops;
extern const OpList cumulative_ops;
extern const OpList dropout_ops;
extern const OpList embedding_ops;
extern const OpList fft_ops;
extern const OpList index_assignment_ops;
extern const OpList index_expression_ops;
extern const OpList indexing_ops;
extern const OpList interpolation_ops;
extern const OpList linalg_factor_ops;
extern const OpList linalg_solve_ops;
extern const OpList linear_cross_entropy_ops;
extern const OpList linear_ops;
extern const OpList loss_ops;
extern const OpList manipulation_ops;
extern const OpList matrix_ops;
extern const OpList norm_ops;
extern const OpList normalization_ops;
extern const OpList packed_attention_ops;
extern const OpList pooling_ops;
extern const OpList rearrange_ops;
extern const OpList recurrent_ops;
extern const OpList reduction_ops;
extern const OpList rotary_ops;
extern const OpList scatter_reduce_ops;
extern const OpList softmax_ops;
extern const OpList sorting_ops;
extern const OpList statistics_ops;
extern const OpList triplet_loss_ops;
extern const OpList view_ops;

// All registered ops, collected once.
const std::vector<const Op*>& registered_ops();
// Returns null if there is no op of that name.
const Op* find_op(std::string_view name);

}  // namespace extensor::ops
