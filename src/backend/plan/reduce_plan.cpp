#include "backend/plan/reduce_plan.h"

#include <algorithm>
#include <cstdlib>

namespace extensor::plan {

namespace {

// Dimensions of up to two operands; strides[1] may be empty.
struct Group {
  Dims& sizes;
  Dims* strides[2];
  int operands;

  void sort_by_first_stride() {
    for (std::size_t i = 1; i < sizes.size(); ++i) {
      for (std::size_t j = i;
           j > 0 && std::llabs((*strides[0])[j - 1]) < std::llabs((*strides[0])[j]); --j) {
        std::swap(sizes[j - 1], sizes[j]);
        for (int k = 0; k < operands; ++k) std::swap((*strides[k])[j - 1], (*strides[k])[j]);
      }
    }
  }

  void merge() {
    if (sizes.empty()) return;
    std::size_t last = 0;
    for (std::size_t d = 1; d < sizes.size(); ++d) {
      bool fits = true;
      for (int k = 0; k < operands; ++k) {
        fits = fits && (*strides[k])[last] == (*strides[k])[d] * sizes[d];
      }
      if (fits) {
        sizes[last] *= sizes[d];
      } else {
        sizes[++last] = sizes[d];
      }
      for (int k = 0; k < operands; ++k) (*strides[k])[last] = (*strides[k])[d];
    }
    sizes.resize(last + 1);
    for (int k = 0; k < operands; ++k) strides[k]->resize(last + 1);
  }
};

}  // namespace

ReducePlan plan_reduce(const Shape& shape, const std::int64_t* strides, const bool* reduced,
                       bool ordered) {
  ReducePlan plan;
  std::int64_t out_stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] != 1) {
      if (reduced[d]) {
        plan.reduced_sizes.push_back(shape[d]);
        plan.reduced_strides.push_back(strides[d]);
      } else {
        plan.kept_sizes.push_back(shape[d]);
        plan.kept_strides.push_back(strides[d]);
        plan.kept_out_strides.push_back(out_stride);
      }
    }
    if (!reduced[d]) out_stride *= shape[d];
  }
  for (Dims* list : {&plan.reduced_sizes, &plan.reduced_strides, &plan.kept_sizes,
                     &plan.kept_strides, &plan.kept_out_strides}) {
    std::reverse(list->begin(), list->end());
  }
  Group kept{plan.kept_sizes, {&plan.kept_strides, &plan.kept_out_strides}, 2};
  Group gone{plan.reduced_sizes, {&plan.reduced_strides, nullptr}, 1};
  kept.sort_by_first_stride();
  kept.merge();
  if (!ordered) gone.sort_by_first_stride();
  gone.merge();
  if (plan.reduced_sizes.empty()) {
    plan.reduced_sizes.push_back(1);
    plan.reduced_strides.push_back(1);
  }
  const bool dense_when_gathered =
      plan.reduced_strides.back() == 1 && plan.reduced_sizes.back() > 1;
  plan.columns = !dense_when_gathered && !plan.kept_sizes.empty() && plan.kept_strides.back() == 1;
  return plan;
}

}  // namespace extensor::plan
