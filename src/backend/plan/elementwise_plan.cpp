#include "backend/plan/elementwise_plan.h"

#include <algorithm>
#include <cstdlib>

namespace extensor::plan {

namespace {

constexpr std::int64_t shortest_row = 64;
constexpr std::int64_t shortest_tile_side = 8;

void swap_dimensions(ElementwisePlan& plan, int operand_count, std::size_t a, std::size_t b) {
  std::swap(plan.sizes[a], plan.sizes[b]);
  for (int k = 0; k < operand_count; ++k) std::swap(plan.strides[k][a], plan.strides[k][b]);
}

// Puts the largest stride of the result outermost: the result is then written in memory order.
void order_by_result(ElementwisePlan& plan, int operand_count) {
  const Dims& result = plan.strides[0];
  for (std::size_t i = 1; i < plan.sizes.size(); ++i) {
    for (std::size_t j = i; j > 0 && std::llabs(result[j - 1]) < std::llabs(result[j]); --j) {
      swap_dimensions(plan, operand_count, j - 1, j);
    }
  }
}

bool mergeable(const ElementwisePlan& plan, int operand_count, std::size_t outer, std::size_t inner,
               std::int64_t inner_size) {
  for (int k = 0; k < operand_count; ++k) {
    if (plan.strides[k][outer] != plan.strides[k][inner] * inner_size) return false;
  }
  return true;
}

void merge_dimensions(ElementwisePlan& plan, int operand_count) {
  std::size_t kept = 0;
  for (std::size_t d = 1; d < plan.sizes.size(); ++d) {
    if (mergeable(plan, operand_count, kept, d, plan.sizes[d])) {
      plan.sizes[kept] *= plan.sizes[d];
    } else {
      ++kept;
      plan.sizes[kept] = plan.sizes[d];
    }
    for (int k = 0; k < operand_count; ++k) plan.strides[k][kept] = plan.strides[k][d];
  }
  plan.sizes.resize(kept + 1);
  for (int k = 0; k < operand_count; ++k) plan.strides[k].resize(kept + 1);
}

// The dimension along which some input is dense although the innermost one is not, or −1.
std::int64_t transposed_dimension(const ElementwisePlan& plan, int operand_count) {
  const std::size_t inner = plan.sizes.size() - 1;
  if (plan.strides[0][inner] != 1 || plan.sizes[inner] < shortest_tile_side) return -1;
  for (int k = 1; k < operand_count; ++k) {
    const std::int64_t inner_stride = plan.strides[k][inner];
    if (inner_stride == 0 || std::llabs(inner_stride) == 1) continue;
    for (std::size_t d = 0; d < inner; ++d) {
      if (std::llabs(plan.strides[k][d]) == 1 && plan.sizes[d] >= shortest_tile_side) {
        return static_cast<std::int64_t>(d);
      }
    }
  }
  return -1;
}

Layout classify(ElementwisePlan& plan, int operand_count) {
  const std::size_t inner = plan.sizes.size() - 1;
  if (inner == 0) {
    bool dense = plan.strides[0][0] == 1;
    for (int k = 1; k < operand_count; ++k) {
      dense = dense && (plan.strides[k][0] == 1 || plan.strides[k][0] == 0);
    }
    return dense ? Layout::contiguous : Layout::rows;
  }
  const std::int64_t dense_dimension = transposed_dimension(plan, operand_count);
  if (dense_dimension >= 0) {
    for (std::size_t d = static_cast<std::size_t>(dense_dimension); d + 1 < inner; ++d) {
      swap_dimensions(plan, operand_count, d, d + 1);
    }
    return Layout::tiled;
  }
  return plan.sizes[inner] >= shortest_row ? Layout::rows : Layout::gathered;
}

}  // namespace

ElementwisePlan plan_elementwise(const Shape& shape, int operand_count,
                                 const std::int64_t* const* strides) {
  ElementwisePlan plan;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    plan.sizes.push_back(shape[d]);
    for (int k = 0; k < operand_count; ++k) plan.strides[k].push_back(strides[k][d]);
  }
  if (plan.sizes.empty()) {
    plan.sizes.push_back(1);
    for (int k = 0; k < operand_count; ++k) plan.strides[k].push_back(1);
  }
  order_by_result(plan, operand_count);
  merge_dimensions(plan, operand_count);
  plan.layout = classify(plan, operand_count);
  return plan;
}

}  // namespace extensor::plan
