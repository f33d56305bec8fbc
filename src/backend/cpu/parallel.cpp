#include "backend/cpu/parallel.h"

#include "core/check.h"
#include "extensor/error.h"
#include "extensor/threads.h"

namespace extensor {

void set_num_threads(int count) {
  if (count < 1) {
    throw ValueError(detail::message("set_num_threads: count is ", count, ", must be at least 1"));
  }
  omp_set_num_threads(count);
}

int get_num_threads() { return omp_get_max_threads(); }

}  // namespace extensor
