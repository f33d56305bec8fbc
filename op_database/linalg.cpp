// Linear algebra. linalg_reference.h has the references. Matrices of the samples have well
// separated eigenvalues and singular values: where they meet, decompositions have no gradient.
#include "op_database/linalg_reference.h"
#include "op_database/loops.h"

namespace extensor::op_database {

namespace {

Tensor draw(const Shape& shape, std::uint64_t seed) { return sample_uniform(shape, -2, 2, seed); }

Tensors both(const std::pair<Tensor, Tensor>& gradients) {
  return {gradients.first, gradients.second};
}

std::int64_t rows_of(const Tensor& x) { return x.size(-2); }
std::int64_t columns_of(const Tensor& x) { return x.size(-1); }
std::size_t as_size(std::int64_t x) { return static_cast<std::size_t>(x); }
Shape batch_of(const Tensor& x) {
  Shape batch = x.shape();
  batch.resize(batch.size() - 2);
  return batch;
}

// Matrices of numbers of −½ … ½, to whose diagonal 2, 4, 6 … is added: they are far from singular,
// and so are their leading blocks. Not symmetric.
Tensor dominant(const Shape& shape, std::uint64_t seed) {
  std::vector<double> values = sample_uniform(shape, -0.5, 0.5, seed).to_vector<double>();
  const auto m = as_size(shape[shape.size() - 2]), n = as_size(shape[shape.size() - 1]);
  for (std::size_t e = 0; e < values.size(); ++e) {
    const std::size_t i = e / n % m, j = e % n;
    if (i == j) values[e] += 2.0 + 2.0 * static_cast<double>(i);
  }
  return from_data(values, shape);
}

const std::vector<Shape>& square_shapes() {
  static const std::vector<Shape> shapes = {{1, 1},       {3, 3}, {5, 5},    {2, 3, 3},
                                            {2, 1, 4, 4}, {0, 0}, {2, 0, 0}, {0, 3, 3}};
  return shapes;
}
const std::vector<Shape>& shapes() {
  static const std::vector<Shape> list = {{1, 1},    {3, 3},    {5, 3}, {3, 5}, {4, 1},   {1, 4},
                                          {2, 4, 3}, {2, 3, 4}, {3, 0}, {0, 2}, {0, 3, 3}};
  return list;
}

// Samples of an op on square matrices with one result of the shape batch + tail.
using Tail = std::function<Shape(std::int64_t n)>;
std::vector<Sample> square_samples(
    const std::function<Tensor(const Tensor&)>& forward, const Tail& tail,
    const std::function<Rows(const Rows&)>& reference,
    const std::function<Tensor(const Tensor& g, const Tensor& x, const Tensor& y)>& backward,
    const std::string& label = "") {
  std::vector<Sample> samples;
  for (const Shape& shape : square_shapes()) {
    Sample sample{
        label + to_string(shape),
        {dominant(shape, 1)},
        [=](const Tensors& in) { return Tensors{forward(in[0])}; },
        [=](const Tensors& in) {
          return Tensors{mapped_matrices(in[0], tail(columns_of(in[0])), reference)};
        },
        [=](const Tensors& g, const Tensors& in) { return Tensors{backward(g[0], in[0], in[1])}; }};
    sample.saves_results = true;
    sample.rows_must_differ = true;
    samples.push_back(sample);
  }
  return samples;
}

Shape square_tail(std::int64_t n) { return {n, n}; }
Shape vector_tail(std::int64_t n) { return {n}; }
Shape scalar_tail(std::int64_t) { return {}; }

// ---- solving

Rows symmetric(const Rows& a) {
  Rows result = a;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a.size(); ++j) result[i][j] = (a[i][j] + a[j][i]) / 2;
  }
  return result;
}

// a⁻¹·b for every pair of a broadcast batch.
Tensor solution_of(const Tensor& a, const Tensor& b, bool triangular, bool upper) {
  const bool is_vector = b.ndim() == 1;
  const Tensor columns = is_vector ? b.unsqueeze(1) : b;
  const Shape batch = broadcast_shapes(batch_of(a), batch_of(columns));
  const std::int64_t n = a.size(-1), right = columns.size(-1);
  Shape a_shape = batch, b_shape = batch;
  for (const std::int64_t size : {n, n}) a_shape.push_back(size);
  for (const std::int64_t size : {n, right}) b_shape.push_back(size);
  const Tensor pairs = concatenate(
      {a.to(float64).broadcast_to(a_shape), columns.to(float64).broadcast_to(b_shape)}, -1);
  const Tensor solution = mapped_matrices(pairs, {n, right}, [=](const Rows& pair) {
    Rows left = zero_rows(as_size(n), as_size(n)), other = zero_rows(as_size(n), as_size(right));
    for (std::size_t i = 0; i < as_size(n); ++i) {
      for (std::size_t j = 0; j < as_size(n); ++j) {
        const bool is_read = !triangular || i == j || (upper ? j > i : j < i);
        left[i][j] = is_read ? pair[i][j] : 0;
      }
      for (std::size_t j = 0; j < as_size(right); ++j) other[i][j] = pair[i][as_size(n) + j];
    }
    return product_of(inverse_of(left), other, as_size(right));
  });
  return is_vector ? solution.squeeze(-1) : solution;
}

std::vector<Sample> solve_samples(bool triangular, bool upper) {
  std::vector<Sample> samples;
  for (const auto& [a, b] : std::vector<std::pair<Shape, Shape>>{{{1, 1}, {1}},
                                                                 {{3, 3}, {3}},
                                                                 {{4, 4}, {4, 2}},
                                                                 {{2, 3, 3}, {2, 3, 2}},
                                                                 {{2, 3, 3}, {3}},
                                                                 {{3, 3}, {2, 3, 1}},
                                                                 {{2, 1, 2, 2}, {3, 2, 2}},
                                                                 {{0, 0}, {0, 2}},
                                                                 {{3, 3}, {3, 0}},
                                                                 {{0, 3, 3}, {0, 3, 1}}}) {
    const Tensors inputs{dominant(a, 1), draw(b, 2)};
    Sample sample{
        shapes_of(inputs) + (triangular ? upper ? ", upper" : ", lower" : ""), inputs,
        [=](const Tensors& in) {
          return Tensors{triangular ? linalg::solve_triangular(in[0], in[1], upper)
                                    : linalg::solve(in[0], in[1])};
        },
        [=](const Tensors& in) { return Tensors{solution_of(in[0], in[1], triangular, upper)}; },
        [=](const Tensors& g, const Tensors& in) {
          return both(triangular
                          ? linalg::solve_triangular_backward(g[0], in[0], in[1], in[2], upper)
                          : linalg::solve_backward(g[0], in[0], in[1], in[2]));
        }};
    sample.saves_results = true;
    sample.rows_must_differ = true;
    samples.push_back(sample);
  }
  return samples;
}

std::vector<Sample> triangular_samples() {
  std::vector<Sample> samples = solve_samples(true, false);
  for (Sample& sample : solve_samples(true, true)) samples.push_back(std::move(sample));
  return samples;
}

std::vector<Sample> power_samples() {
  std::vector<Sample> samples;
  for (const std::int64_t n : {1, 2, 3, 6, -1, -2, 0}) {
    for (const Shape& shape : {Shape{1, 1}, Shape{3, 3}, Shape{2, 2, 2}, Shape{0, 0}}) {
      Sample sample{to_string(shape) + ", n " + std::to_string(n),
                    {dominant(shape, 3)},
                    [n](const Tensors& in) { return Tensors{linalg::matrix_power(in[0], n)}; },
                    [n](const Tensors& in) {
                      const std::int64_t size = columns_of(in[0]);
                      return Tensors{mapped_matrices(in[0], {size, size}, [n](const Rows& a) {
                        Rows result = identity_rows(a.size());
                        const Rows factor = n < 0 ? inverse_of(a) : a;
                        for (std::int64_t k = 0; k < std::abs(n); ++k) {
                          result = product_of(result, factor, a.size());
                        }
                        return result;
                      })};
                    },
                    [n](const Tensors& g, const Tensors& in) {
                      return Tensors{linalg::matrix_power_backward(g[0], in[0], n)};
                    }};
      if (n == 0) sample.backward = nullptr;  // a constant
      sample.rows_must_differ = true;
      samples.push_back(sample);
    }
  }
  return samples;
}

std::vector<Sample> pinv_samples() {
  std::vector<Sample> samples;
  for (const Shape& shape : shapes()) {
    Sample sample{
        to_string(shape),
        {dominant(shape, 4)},
        [](const Tensors& in) { return Tensors{linalg::pinv(in[0])}; },
        [](const Tensors& in) {
          const std::int64_t m = rows_of(in[0]), n = columns_of(in[0]);
          return Tensors{mapped_matrices(in[0], {n, m}, [=](const Rows& a) {
            // (aᵀ a)⁻¹ aᵀ, or aᵀ (a aᵀ)⁻¹ for a wide matrix.
            const Rows t = transposed_rows(a, as_size(n));
            return m >= n ? product_of(inverse_of(product_of(t, a, as_size(n))), t, as_size(m))
                          : product_of(t, inverse_of(product_of(a, t, as_size(m))), as_size(m));
          })};
        },
        [](const Tensors& g, const Tensors& in) {
          return Tensors{linalg::pinv_backward(g[0], in[0], in[1])};
        }};
    sample.saves_results = true;
    sample.rows_must_differ = true;
    samples.push_back(sample);
  }
  return samples;
}

// ---- factorizations

std::vector<Sample> qr_samples() {
  std::vector<Sample> samples;
  for (const auto mode : {linalg::QrMode::reduced, linalg::QrMode::complete}) {
    const bool complete = mode == linalg::QrMode::complete;
    for (const Shape& shape : shapes()) {
      Sample sample{to_string(shape) + (complete ? ", complete" : ", reduced"),
                    {dominant(shape, 5)},
                    [mode](const Tensors& in) {
                      const auto [q, r] = linalg::qr(in[0], mode);
                      return Tensors{q, r};
                    },
                    [complete](const Tensors& in) {
                      const std::int64_t m = rows_of(in[0]), n = columns_of(in[0]);
                      const std::int64_t width = complete ? m : std::min(m, n);
                      const auto part = [=](bool wants_q) {
                        return mapped_matrices(in[0], wants_q ? Shape{m, width} : Shape{width, n},
                                               [=](const Rows& a) {
                                                 QrRows factors = qr_of(a, as_size(n));
                                                 for (auto& row : factors.q)
                                                   row.resize(as_size(width));
                                                 factors.r.resize(as_size(width));
                                                 return wants_q ? factors.q : factors.r;
                                               });
                      };
                      return Tensors{part(true), part(false)};
                    },
                    [](const Tensors& g, const Tensors& in) {
                      return Tensors{linalg::qr_backward(g[0], g[1], in[1], in[2])};
                    }};
      if (complete && shape[shape.size() - 2] > shape.back()) sample.backward = nullptr;
      sample.saves_results = true;
      sample.rows_must_differ = true;
      samples.push_back(sample);
    }
  }
  return samples;
}

std::vector<Sample> eigh_samples() {
  std::vector<Sample> samples;
  for (const Shape& shape : square_shapes()) {
    Sample sample{
        to_string(shape),
        {dominant(shape, 6)},
        [](const Tensors& in) {
          const auto [values, vectors] = linalg::eigh(in[0]);
          return Tensors{values, vectors};
        },
        [](const Tensors& in) {
          const std::int64_t n = columns_of(in[0]);
          return Tensors{
              mapped_matrices(in[0], {n}, [](const Rows& a) { return Rows{eigen_of(a).values}; }),
              mapped_matrices(in[0], {n, n}, [](const Rows& a) { return eigen_of(a).vectors; })};
        },
        [](const Tensors& g, const Tensors& in) {
          return Tensors{linalg::eigh_backward(g[0], g[1], in[1], in[2])};
        }};
    sample.saves_results = true;
    sample.rows_must_differ = true;
    samples.push_back(sample);
  }
  return samples;
}

Rows row_of(const std::vector<Real>& values) { return {values}; }

Tensors svd_reference(const Tensor& x) {
  const std::int64_t m = rows_of(x), n = columns_of(x), k = std::min(m, n);
  return {mapped_matrices(x, {m, k}, [n](const Rows& a) { return svd_of(a, as_size(n)).u; }),
          mapped_matrices(x, {k}, [n](const Rows& a) { return row_of(svd_of(a, as_size(n)).s); }),
          mapped_matrices(x, {k, n}, [n](const Rows& a) { return svd_of(a, as_size(n)).vh; })};
}

std::vector<Sample> svd_samples() {
  std::vector<Sample> samples;
  for (const Shape& shape : shapes()) {
    Sample sample{to_string(shape) + ", reduced",
                  {dominant(shape, 7)},
                  [](const Tensors& in) {
                    const auto [u, s, vh] = linalg::svd(in[0], false);
                    return Tensors{u, s, vh};
                  },
                  [](const Tensors& in) { return svd_reference(in[0]); },
                  [](const Tensors& g, const Tensors& in) {
                    return Tensors{linalg::svd_backward(g[0], g[1], g[2], in[1], in[2], in[3])};
                  }};
    sample.saves_results = true;
    sample.rows_must_differ = true;
    samples.push_back(sample);
    // With full matrices the vectors beyond the singular values are any that complete a basis: the
    // product with their transpose is 1.
    Sample full = sample;
    full.label = to_string(shape) + ", full matrices";
    full.forward = [](const Tensors& in) {
      const auto [u, s, vh] = linalg::svd(in[0]);
      const std::int64_t k = s.size(-1);
      return Tensors{u.slice(-1, 0, k), s, vh.slice(-2, 0, k), matmul(u, u.matrix_transpose()),
                     matmul(vh, vh.matrix_transpose())};
    };
    full.reference = [](const Tensors& in) {
      Tensors result = svd_reference(in[0]);
      for (const std::int64_t n : {rows_of(in[0]), columns_of(in[0])}) {
        result.push_back(
            mapped_matrices(in[0], {n, n}, [n](const Rows&) { return identity_rows(as_size(n)); }));
      }
      return result;
    };
    full.cancelling_terms = 1;
    full.backward = nullptr;
    full.saves_results = false;
    samples.push_back(full);
  }
  return samples;
}

std::vector<Sample> values_samples(
    const std::vector<Shape>& list, const std::function<Tensor(const Tensor&)>& forward,
    const std::function<Tensor(const Tensor&)>& reference,
    const std::function<Tensor(const Tensor&, const Tensor&)>& backward) {
  std::vector<Sample> samples;
  for (const Shape& shape : list) {
    samples.push_back(sample_of(
        to_string(shape), {dominant(shape, 8)}, [=](const Tensors& in) { return forward(in[0]); },
        [=](const Tensors& in) { return reference(in[0]); },
        [=](const Tensor& g, const Tensors& in) { return Tensors{backward(g, in[0])}; }));
    samples.back().rows_must_differ = true;
  }
  return samples;
}

std::vector<Sample> slogdet_samples() {
  std::vector<Sample> samples = values_samples(
      square_shapes(), [](const Tensor& x) { return linalg::slogdet(x).logabsdet; },
      [](const Tensor& x) {
        return mapped_matrices(
            x, {}, [](const Rows& a) { return Rows{{std::log(std::fabs(determinant_of(a)))}}; });
      },
      [](const Tensor& g, const Tensor& x) { return linalg::slogdet_backward(g, x); });
  // The logarithms of pivots cancel.
  for (Sample& sample : samples) sample.cancelling_terms = 1;
  for (const Shape& shape : {Shape{3, 3}, Shape{4, 2, 2}, Shape{0, 0}}) {
    samples.push_back({to_string(shape) + ", sign",
                       {draw(shape, 9)},
                       [](const Tensors& in) { return Tensors{linalg::slogdet(in[0]).sign}; },
                       [](const Tensors& in) {
                         return Tensors{mapped_matrices(in[0], {}, [](const Rows& a) {
                           return Rows{{determinant_of(a) < 0 ? -1.0L : 1.0L}};
                         })};
                       },
                       nullptr});
    samples.back().rows_must_differ = true;
  }
  return samples;
}

// ---- ranks and norms

std::vector<Sample> rank_samples() {
  struct Case {
    std::vector<double> values;
    Shape shape;
    std::vector<std::int64_t> ranks;
    std::optional<double> rtol = {};
  };
  std::vector<Sample> samples;
  for (const Case& c : std::vector<Case>{
           {{1, 2, 2, 4}, {2, 2}, {1}},
           {{1, 2, 3, 4}, {2, 2}, {2}},
           {{1, 2, 3, 4, 5, 6, 7, 8, 9}, {3, 3}, {2}},
           {{1, 0, 0, 0, 1, 0}, {2, 3}, {2}},
           {{0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 1}, {3, 2, 2}, {0, 1, 2}},
           {{8, 0, 0, 0, 2, 0, 0, 0, 1}, {3, 3}, {2}, 0.125},
           {{}, {2, 0, 3}, {0, 0}},
       }) {
    samples.push_back({to_string(c.shape) + ", ranks " + std::to_string(c.ranks[0]) + " …" +
                           (c.rtol ? ", rtol" : ""),
                       {from_data(c.values, c.shape)},
                       [c](const Tensors& in) {
                         return Tensors{c.rtol ? linalg::matrix_rank(in[0], *c.rtol)
                                               : linalg::matrix_rank(in[0])};
                       },
                       [c](const Tensors& in) {
                         Shape batch = in[0].shape();
                         batch.resize(batch.size() - 2);
                         return Tensors{from_data(c.ranks, batch)};
                       },
                       nullptr});
    samples.back().rows_must_differ = true;
  }
  return samples;
}

Rows norm_reference(const Rows& a, std::size_t n, const std::string& name, double ord) {
  const std::size_t m = a.size();
  Real result = 0;
  if (name == "fro") {
    for (const auto& row : a) {
      for (const Real x : row) result += x * x;
    }
    return {{std::sqrt(result)}};
  }
  std::vector<Real> sums;
  if (name == "nuc" || std::fabs(ord) == 2) {
    sums = svd_of(a, n).s;
  } else if (std::fabs(ord) == 1) {
    sums.assign(n, 0);
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 0; j < n; ++j) sums[j] += std::fabs(a[i][j]);
    }
  } else {
    sums.assign(m, 0);
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 0; j < n; ++j) sums[i] += std::fabs(a[i][j]);
    }
  }
  if (name == "nuc") {
    for (const Real s : sums) result += s;
    return {{result}};
  }
  result = sums[0];
  for (const Real s : sums) result = ord > 0 ? std::max(result, s) : std::min(result, s);
  return {{result}};
}

std::vector<Sample> norm_samples() {
  struct Case {
    std::string name;
    double ord = 0;
  };
  std::vector<Sample> samples;
  for (const Case& c : {Case{"fro"}, Case{"nuc"}, Case{"", 1}, Case{"", -1}, Case{"", 2},
                        Case{"", -2}, Case{"", INFINITY}, Case{"", -INFINITY}}) {
    for (const Shape& shape : {Shape{3, 3}, Shape{4, 2}, Shape{2, 2, 3}, Shape{0, 2, 2}}) {
      for (const bool keepdims : {false, true}) {
        if (keepdims && shape.size() == 2) continue;
        samples.push_back(sample_of(
            to_string(shape) + ", ord " + (c.name.empty() ? std::to_string(c.ord) : c.name) +
                (keepdims ? ", keepdims" : ""),
            {dominant(shape, 10)},
            [=](const Tensors& in) {
              return c.name.empty() ? linalg::matrix_norm(in[0], c.ord, keepdims)
                                    : linalg::matrix_norm(in[0], c.name, keepdims);
            },
            [=](const Tensors& in) {
              const auto n = as_size(columns_of(in[0]));
              return mapped_matrices(in[0], keepdims ? Shape{1, 1} : Shape{}, [=](const Rows& a) {
                return norm_reference(a, n, c.name, c.ord);
              });
            },
            [=](const Tensor& g, const Tensors& in) {
              return Tensors{c.name.empty() ? linalg::matrix_norm_backward(g, in[0], c.ord)
                                            : linalg::matrix_norm_backward(g, in[0], c.name)};
            }));
        samples.back().rows_must_differ = true;
      }
    }
  }
  return samples;
}

// ---- diagonals and the vector product

std::vector<Sample> diagonal_samples(bool is_trace) {
  std::vector<Sample> samples;
  for (const Shape& shape :
       {Shape{3, 3}, Shape{2, 5}, Shape{5, 2}, Shape{2, 3, 4}, Shape{0, 0}, Shape{2, 0, 3}}) {
    for (const std::int64_t offset : {0, 1, -2, 7}) {
      const std::int64_t m = shape[shape.size() - 2], n = shape.back();
      std::int64_t length = 0;
      for (std::int64_t i = 0; i < m; ++i) length += i + offset >= 0 && i + offset < n ? 1 : 0;
      const auto reference = [=](const Tensors& in) {
        return mapped_matrices(in[0], is_trace ? Shape{} : Shape{length}, [=](const Rows& a) {
          std::vector<Real> elements;
          Real sum = 0;
          for (std::int64_t i = 0; i < m; ++i) {
            if (i + offset < 0 || i + offset >= n) continue;
            elements.push_back(a[as_size(i)][as_size(i + offset)]);
            sum += elements.back();
          }
          return is_trace ? Rows{{sum}} : Rows{elements};
        });
      };
      samples.push_back(sample_of(
          to_string(shape) + ", offset " + std::to_string(offset), {draw(shape, 11)},
          [=](const Tensors& in) {
            return is_trace ? linalg::trace(in[0], offset) : linalg::diagonal(in[0], offset);
          },
          reference,
          [=](const Tensor& g, const Tensors& in) {
            return Tensors{is_trace ? linalg::trace_backward(g, in[0].shape(), offset)
                                    : linalg::diagonal_backward(g, in[0].shape(), offset)};
          }));
    }
  }
  return samples;
}

std::vector<Sample> cross_samples() {
  struct Case {
    Shape a, b;
    std::int64_t axis;
  };
  std::vector<Sample> samples;
  for (const Case& c : {Case{{3}, {3}, -1}, Case{{4, 3}, {3}, -1}, Case{{3, 4}, {3, 1}, 0},
                        Case{{2, 3, 4}, {3, 4}, 1}, Case{{0, 3}, {3}, 1}}) {
    const Tensors inputs{draw(c.a, 12), draw(c.b, 13)};
    samples.push_back(sample_of(
        shapes_of(inputs) + ", axis " + std::to_string(c.axis), inputs,
        [c](const Tensors& in) { return linalg::cross(in[0], in[1], c.axis); },
        [c](const Tensors& in) {
          const Shape shape = broadcast_shapes(in[0].shape(), in[1].shape());
          const PlainArray a(in[0].to(float64).broadcast_to(shape).contiguous()),
              b(in[1].to(float64).broadcast_to(shape).contiguous());
          const std::int64_t axis =
              c.axis < 0 ? c.axis + static_cast<std::int64_t>(shape.size()) : c.axis;
          return PlainArray::from(shape,
                                  [&](const Dims& position) {
                                    const std::int64_t i = position[as_size(axis)];
                                    const Dims next = with_entry(position, axis, (i + 1) % 3);
                                    const Dims last = with_entry(position, axis, (i + 2) % 3);
                                    return a.at(next) * b.at(last) - a.at(last) * b.at(next);
                                  })
              .to_tensor();
        },
        [c](const Tensor& g, const Tensors& in) {
          return both(linalg::cross_backward(g, in[0], in[1], c.axis));
        }));
  }
  return samples;
}

}  // namespace

void add_linalg(std::vector<Op>& ops) {
  const auto add = [&](const char* name, const char* formula, const char* gradient,
                       std::vector<std::string> backward,
                       std::function<std::vector<Sample>()> samples,
                       DTypes dtypes = DTypes::wide_floats) {
    ops.push_back(
        {name, "linalg", formula, gradient, std::move(backward), dtypes, std::move(samples)});
  };
  add("cholesky", "L of x = L·Lᵀ, lower triangular with a positive diagonal; U = Lᵀ with upper",
      "the symmetric part of L⁻ᵀ·Φ(Lᵀ·g)·L⁻¹; Φ is the lower triangle with half of the diagonal",
      {"cholesky_backward"}, [] {
        std::vector<Sample> samples =
            square_samples([](const Tensor& x) { return linalg::cholesky(x); }, square_tail,
                           [](const Rows& a) { return cholesky_of(symmetric(a)); },
                           [](const Tensor& g, const Tensor&, const Tensor& y) {
                             return linalg::cholesky_backward(g, y);
                           });
        for (Sample& sample : square_samples(
                 [](const Tensor&x) { return linalg::cholesky(x, true); }, square_tail,
                 [](const Rows&a) { return transposed_rows(cholesky_of(symmetric(a)), a.size()); },
                 [](const Tensor&g, const Tensor&, const Tensor&y) {
                   return linalg::cholesky_backward(g, y, true);
                 },
                 "upper, ")) {
          samples.push_back(std::move(sample));
        }
        return samples;
      });
  add("qr", "Q and R of x = Q·R: orthonormal columns, and an upper triangle",
      "(gq + Q·(M + Mᵀ − its diagonal))·R⁻ᵀ with M = triu(gr·Rᵀ − Qᵀ·gq)", {"qr_backward"},
      qr_samples);
  add("eigh", "w and V of x = V·diag(w)·Vᵀ", "V·(diag(gw) + F ∘ (Vᵀ·gv))·Vᵀ, Fᵢⱼ = 1 / (wⱼ − wᵢ)",
      {"eigh_backward"}, eigh_samples);
  add("eigvalsh", "w of x = V·diag(w)·Vᵀ", "V·diag(g)·Vᵀ", {"eigvalsh_backward"}, [] {
    return values_samples(
        square_shapes(), [](const Tensor& x) { return linalg::eigvalsh(x); },
        [](const Tensor& x) {
          return mapped_matrices(x, vector_tail(columns_of(x)),
                                 [](const Rows& a) { return row_of(eigen_of(a).values); });
        },
        [](const Tensor& g, const Tensor& x) { return linalg::eigvalsh_backward(g, x); });
  });
  add("svd", "U, S and Vh of x = U·diag(S)·Vh",
      "U·(skew(Uᵀ·gu) ∘ F·S + S·(skew(Vᵀ·gv) ∘ F) + diag(gs))·Vh, Fᵢⱼ = 1 / (Sⱼ² − Sᵢ²), and what "
      "gu "
      "and gv have outside U and V, divided by S",
      {"svd_backward"}, svd_samples);
  add("svdvals", "S of x = U·diag(S)·Vh", "U·diag(g)·Vh", {"svdvals_backward"}, [] {
    return values_samples(
        shapes(), [](const Tensor& x) { return linalg::svdvals(x); },
        [](const Tensor& x) { return svd_reference(x)[1]; },
        [](const Tensor& g, const Tensor& x) { return linalg::svdvals_backward(g, x); });
  });
  add("solve", "y of a·y = b", "grad_b = a⁻ᵀ·g, grad_a = −grad_b·yᵀ", {"solve_backward"},
      [] { return solve_samples(false, false); });
  add("solve_triangular", "y of a·y = b, reading one triangle of a",
      "grad_b = a⁻ᵀ·g, grad_a = that triangle of −grad_b·yᵀ", {"solve_triangular_backward"},
      triangular_samples);
  add("inv", "x⁻¹", "−yᵀ·g·yᵀ", {"inv_backward"}, [] {
    return square_samples(
        [](const Tensor& x) { return linalg::inv(x); }, square_tail, inverse_of,
        [](const Tensor& g, const Tensor&, const Tensor& y) { return linalg::inv_backward(g, y); });
  });
  add("pinv", "x⁺ = V·diag(1 / S)·Uᵀ, with 0 for the S that count as 0",
      "−yᵀ·g·yᵀ + (1 − x·y)·gᵀ·y·yᵀ + yᵀ·y·gᵀ·(1 − y·x)", {"pinv_backward"}, pinv_samples);
  add("matrix_power", "xⁿ", "Σᵢ (xᵀ)ⁱ·g·(xᵀ)ⁿ⁻¹⁻ⁱ", {"matrix_power_backward"}, power_samples);
  add("det", "Σ over permutations σ of sign(σ) Πᵢ x[i, σᵢ]", "g times the cofactors of x",
      {"det_backward"}, [] {
        return square_samples([](const Tensor& x) { return linalg::det(x); }, scalar_tail,
                              [](const Rows& a) { return Rows{{determinant_of(a)}}; },
                              [](const Tensor& g, const Tensor& x, const Tensor&) {
                                return linalg::det_backward(g, x);
                              });
      });
  add("slogdet", "sign(det(x)) and log(|det(x)|)", "g·x⁻ᵀ, with g that of the logarithm",
      {"slogdet_backward"}, slogdet_samples);
  add("matrix_rank", "the number of singular values above rtol times the largest", "", {},
      rank_samples);
  add("matrix_norm",
      "√Σ x² (\"fro\"), Σ S (\"nuc\"), the largest or smallest S (2, −2), Σᵢ |x| (1, −1) or Σⱼ |x| "
      "(±∞)",
      "through the sum: x / y, U·Vh, uᵢ·vᵢᵀ of that S, or sign(x) in that column or row",
      {"matrix_norm_backward"}, norm_samples);
  add(
      "diagonal", "y[…, i] = x[…, i, i + offset]", "g on that diagonal, 0 elsewhere",
      {"diagonal_backward"}, [] { return diagonal_samples(false); }, DTypes::all);
  add(
      "trace", "Σᵢ x[…, i, i + offset]", "g on that diagonal, 0 elsewhere", {"trace_backward"},
      [] { return diagonal_samples(true); }, DTypes::as_64_bits);
  add("cross", "yᵢ = aᵢ₊₁ bᵢ₊₂ − aᵢ₊₂ bᵢ₊₁, indices modulo 3", "grad_a = b × g, grad_b = g × a",
      {"cross_backward"}, cross_samples, DTypes::numbers);
}

}  // namespace extensor::op_database
