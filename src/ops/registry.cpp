#include "ops/registry.h"

#include <algorithm>

#include "ops/row_gradients.h"

namespace extensor::ops {

const std::vector<const Op*>& registered_ops() {
  static const std::vector<const Op*> all = [] {
    std::vector<const Op*> list;
    for (const OpList& family : {attention_ops,        batch_norm_ops,    class_loss_ops,
                                 complex_ops,          composed_loss_ops, contract_ops,
                                 convolution_3d_ops,   convolution_ops,   copy_ops,
                                 ctc_loss_ops,         cumulative_ops,    dropout_ops,
                                 embedding_ops,        fft_ops,           index_assignment_ops,
                                 index_expression_ops, indexing_ops,      interpolation_ops,
                                 linalg_factor_ops,    linalg_solve_ops,  linear_cross_entropy_ops,
                                 linear_ops,           loss_ops,          manipulation_ops,
                                 matrix_ops,           norm_ops,          normalization_ops,
                                 packed_attention_ops, pooling_ops,       rearrange_ops,
                                 recurrent_ops,        reduction_ops,     rotary_ops,
                                 scatter_reduce_ops,   softmax_ops,       sorting_ops,
                                 statistics_ops,       triplet_loss_ops,  view_ops}) {
      list.insert(list.end(), family.begin(), family.end());
    }
    for (int row = 0; row < backend::elementwise_op_count; ++row) {
      list.push_back(&row_role(static_cast<ElementwiseOp>(row)).op);
    }
    return list;
  }();
  return all;
}

const Op* find_op(std::string_view name) {
  const auto& all = registered_ops();
  const auto found = std::ranges::find_if(all, [&](const Op* op) { return op->name == name; });
  return found == all.end() ? nullptr : *found;
}

}  // namespace extensor::ops
