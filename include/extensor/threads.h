// How many threads the kernels use.
#pragma once

namespace extensor {

// 1 … 1024; ValueError otherwise. The default is what OpenMP decides (OMP_NUM_THREADS or the
// cores). Results do not depend on it.
void set_num_threads(int count);
int get_num_threads();

}  // namespace extensor
