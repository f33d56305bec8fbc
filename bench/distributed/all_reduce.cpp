// The time of all_reduce beside that of a bare MPI_Allreduce, in one run:
//   mpirun -n 2 build/release/bench/distributed/bench_all_reduce
#include <extensor/distributed.h>
#include <extensor/extensor.h>
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <vector>

using namespace extensor;

namespace {

double median(std::vector<double> times) {
  std::ranges::nth_element(times, times.begin() + std::ssize(times) / 2);
  return times[times.size() / 2];
}

}  // namespace

int main() {
  distributed::Communicator& world = distributed::init();  // initializes MPI
  for (const std::int64_t bytes : {4, 4 << 10, 1 << 20, 25 << 20}) {
    Tensor x = zeros({bytes / 4});
    const int repeats = bytes > 100'000 ? 15 : 200;
    std::vector<double> bare, ours;
    // Alternately, so that a change of the machine's load affects both.
    for (int k = 0; k < repeats + 2; ++k) {
      for (const bool is_bare : {true, false}) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double begin = MPI_Wtime();
        if (is_bare) {
          MPI_Allreduce(MPI_IN_PLACE, x.data<float>(), static_cast<int>(x.numel()), MPI_FLOAT,
                        MPI_SUM, MPI_COMM_WORLD);
        } else {
          world.all_reduce(x);
        }
        const double time = MPI_Wtime() - begin;
        if (k >= 2) (is_bare ? bare : ours).push_back(time);
      }
    }
    if (world.rank() == 0) {
      std::printf("%9lld bytes: all_reduce %9.1f us, MPI_Allreduce %9.1f us, %.2f of its speed\n",
                  static_cast<long long>(bytes), 1e6 * median(ours), 1e6 * median(bare),
                  median(bare) / median(ours));
    }
  }
  return 0;
}
