// Cases of linear algebra, beside OpenBLAS's LAPACK as NumPy calls it: matrix by matrix.
#include <extensor/extensor.h>

#include "cases.h"

namespace extensor::bench {

namespace {

// x·xᵀ + n: the symmetric matrices of both contenders.
Tensor positive_definite(const Tensor& x) {
  return matmul(x, x.matrix_transpose()) +
         eye(x.size(-1), {}, 0, {.dtype = x.dtype()}) * static_cast<double>(x.size(-1));
}

}  // namespace

void add_linalg(std::vector<Case>& cases) {
  for (const char* op : {"svd", "eigh", "solve", "qr", "cholesky"}) {
    const auto add = [&](const std::string& size, std::vector<std::int64_t> shape, double goal) {
      Case c;
      c.name = std::string("linalg ") + op + "/float64/" + size;
      c.task.op = std::string("linalg::") + op;
      c.task.dtype = DType::float64;
      c.task.operands.push_back({std::move(shape)});
      c.goal.library = goal;
      c.rounds = size == "1000x1000" ? 3 : 15;
      cases.push_back(std::move(c));
    };
    add("10x10", {10, 10}, 0.9);
    add("100x100", {100, 100}, 0.9);
    add("1000x1000", {1000, 1000}, 0.9);
    add("1000 of 8x8", {1000, 8, 8}, 5);
  }
}

Work linalg_work(const Task& task) {
  if (!task.op.starts_with("linalg::")) return {};
  const std::string op = task.op.substr(8);
  const Tensor x = task_operand(task, 0), p = positive_definite(x);
  if (op == "svd") return [x] { linalg::svd(x); };
  if (op == "eigh") return [p] { linalg::eigh(p); };
  if (op == "qr") return [x] { linalg::qr(x); };
  if (op == "cholesky") return [p] { linalg::cholesky(p); };
  const Tensor b = x.slice(-1, 0, 1).contiguous();
  if (op == "solve") return [p, b] { linalg::solve(p, b); };
  return {};
}

}  // namespace extensor::bench
