// The first few elements of sorted rows, without sorting all of them.
#pragma once

#include "backend/backend.h"

namespace extensor::backend::cuda {

// Whether sort_first() takes the call, and is faster than a sort of whole rows.
bool is_for_sort_first(const SortCall& call);

void sort_first(const SortCall& call);

}  // namespace extensor::backend::cuda
