// Linear algebra by textbook formulas in long double, independent of the kernels: determinants by
// expansion, inverses by cofactors, reflections as whole matrices, eigenvalues by QR iteration.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "op_database/plain_array.h"

namespace extensor::op_database {

using Real = long double;
using Rows = std::vector<std::vector<Real>>;

inline Rows zero_rows(std::size_t m, std::size_t n) { return Rows(m, std::vector<Real>(n, 0)); }
inline Rows identity_rows(std::size_t n) {
  Rows result = zero_rows(n, n);
  for (std::size_t i = 0; i < n; ++i) result[i][i] = 1;
  return result;
}
inline Rows transposed_rows(const Rows& a, std::size_t columns) {
  Rows result = zero_rows(columns, a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < columns; ++j) result[j][i] = a[i][j];
  }
  return result;
}
inline Rows product_of(const Rows& a, const Rows& b, std::size_t columns) {
  Rows result = zero_rows(a.size(), columns);
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      for (std::size_t k = 0; k < b.size(); ++k) result[i][j] += a[i][k] * b[k][j];
    }
  }
  return result;
}

inline Rows without(const Rows& a, std::size_t row, std::size_t column) {
  Rows minor;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (i == row) continue;
    minor.emplace_back();
    for (std::size_t j = 0; j < a.size(); ++j) {
      if (j != column) minor.back().push_back(a[i][j]);
    }
  }
  return minor;
}
// By expansion along the first row.
inline Real determinant_of(const Rows& a) {
  if (a.empty()) return 1;
  Real sum = 0;
  for (std::size_t j = 0; j < a.size(); ++j) {
    sum += (j % 2 == 0 ? 1 : -1) * a[0][j] * determinant_of(without(a, 0, j));
  }
  return sum;
}
inline Rows inverse_of(const Rows& a) {
  const Real determinant = determinant_of(a);
  Rows result = zero_rows(a.size(), a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a.size(); ++j) {
      const Real sign = (i + j) % 2 == 0 ? 1 : -1;
      result[j][i] = sign * determinant_of(without(a, i, j)) / determinant;
    }
  }
  return result;
}

inline Rows cholesky_of(const Rows& a) {
  Rows factor = zero_rows(a.size(), a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      Real sum = (a[i][j] + a[j][i]) / 2;
      for (std::size_t k = 0; k < j; ++k) sum -= factor[i][k] * factor[j][k];
      factor[i][j] = i == j ? std::sqrt(sum) : sum / factor[j][j];
    }
  }
  return factor;
}

struct QrRows {
  Rows q, r;  // [m, m] and [m, n]
};
// Column by column, r is multiplied by a reflection that leaves one element of the column below
// and on the diagonal, with the sign opposite to its first.
inline QrRows qr_of(const Rows& a, std::size_t n) {
  const std::size_t m = a.size();
  QrRows result{identity_rows(m), a};
  for (std::size_t k = 0; k < n && k + 1 < m; ++k) {
    Real square = 0;
    for (std::size_t i = k; i < m; ++i) square += result.r[i][k] * result.r[i][k];
    std::vector<Real> v(m, 0);
    for (std::size_t i = k; i < m; ++i) v[i] = result.r[i][k];
    v[k] += std::copysign(std::sqrt(square), v[k]);
    Real length = 0;
    for (const Real x : v) length += x * x;
    if (length == 0) continue;
    Rows reflection = identity_rows(m);
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 0; j < m; ++j) reflection[i][j] -= 2 * v[i] * v[j] / length;
    }
    result.r = product_of(reflection, result.r, n);
    result.q = product_of(result.q, reflection, m);
    for (std::size_t i = k + 1; i < m; ++i) result.r[i][k] = 0;
  }
  return result;
}

// The sign convention of eigenvectors and singular vectors: the first entry of at least 0.618 of
// the largest magnitude is positive.
inline Real sign_of_column(const Rows& a, std::size_t column) {
  Real largest = 0;
  for (const auto& row : a) largest = std::max(largest, std::fabs(row[column]));
  for (const auto& row : a) {
    if (std::fabs(row[column]) >= 0.618L * largest) return row[column] < 0 ? -1 : 1;
  }
  return 1;
}

struct EigenRows {
  std::vector<Real> values;  // ascending
  Rows vectors;              // as columns
};
// QR iteration with Wilkinson's shifts on the symmetric part.
inline EigenRows eigen_of(const Rows& given) {
  const std::size_t n = given.size();
  Rows a = zero_rows(n, n), v = identity_rows(n);
  Real norm = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      a[i][j] = (given[i][j] + given[j][i]) / 2;
      norm += std::fabs(a[i][j]);
    }
  }
  std::size_t active = n;
  for (int iteration = 0; iteration < 1000 && active > 1; ++iteration) {
    const std::size_t last = active - 1;
    Real beside = 0;
    for (std::size_t j = 0; j < last; ++j) beside += std::fabs(a[last][j]);
    if (beside <= 1e-20L * norm) {
      --active;
      continue;
    }
    const Real d = (a[last - 1][last - 1] - a[last][last]) / 2, c = a[last][last - 1];
    const Real shift =
        c == 0 ? a[last][last]
               : a[last][last] - c * c / (d + std::copysign(std::sqrt(d * d + c * c), d));
    Rows part = zero_rows(active, active);
    for (std::size_t i = 0; i < active; ++i) {
      for (std::size_t j = 0; j < active; ++j) part[i][j] = a[i][j] - (i == j ? shift : 0);
    }
    const QrRows factors = qr_of(part, active);
    Rows rotation = identity_rows(n);
    for (std::size_t i = 0; i < active; ++i) {
      for (std::size_t j = 0; j < active; ++j) rotation[i][j] = factors.q[i][j];
    }
    a = product_of(product_of(transposed_rows(rotation, n), a, n), rotation, n);
    v = product_of(v, rotation, n);
  }
  EigenRows result{{}, zero_rows(n, n)};
  std::vector<bool> used(n, false);
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t next = n;
    for (std::size_t i = 0; i < n; ++i) {
      if (!used[i] && (next == n || a[i][i] < a[next][next])) next = i;
    }
    used[next] = true;
    result.values.push_back(a[next][next]);
    const Real sign = sign_of_column(v, next);
    for (std::size_t i = 0; i < n; ++i) result.vectors[i][k] = sign * v[i][next];
  }
  return result;
}

struct SvdRows {
  Rows u, vh;  // [m, k] and [k, n]
  std::vector<Real> s;
};
// From the eigenvalues of aᵀ·a, or of a·aᵀ if that is smaller.
inline SvdRows svd_of(const Rows& a, std::size_t n) {
  const std::size_t m = a.size();
  const Rows t = transposed_rows(a, n);
  if (m < n) {
    const SvdRows other = svd_of(t, m);
    SvdRows result{transposed_rows(other.vh, m), transposed_rows(other.u, m), other.s};
    for (std::size_t k = 0; k < m; ++k) {
      const Real sign = sign_of_column(result.u, k);
      for (std::size_t i = 0; i < m; ++i) result.u[i][k] *= sign;
      for (std::size_t j = 0; j < n; ++j) result.vh[k][j] *= sign;
    }
    return result;
  }
  const EigenRows eigen = eigen_of(product_of(t, a, n));
  SvdRows result{zero_rows(m, n), zero_rows(n, n), {}};
  for (std::size_t k = 0; k < n; ++k) {
    const std::size_t from = n - 1 - k;
    result.s.push_back(std::sqrt(std::max<Real>(eigen.values[from], 0)));
    for (std::size_t i = 0; i < m; ++i) {
      Real sum = 0;
      for (std::size_t j = 0; j < n; ++j) sum += a[i][j] * eigen.vectors[j][from];
      result.u[i][k] = sum / result.s.back();
    }
    const Real sign = sign_of_column(result.u, k);
    for (std::size_t i = 0; i < m; ++i) result.u[i][k] *= sign;
    for (std::size_t j = 0; j < n; ++j) result.vh[k][j] = sign * eigen.vectors[j][from];
  }
  return result;
}

// Applies f to every matrix of a batch; each result, a list of rows, is a tensor batch + tail.
inline Tensor mapped_matrices(const Tensor& x, const Shape& tail,
                              const std::function<Rows(const Rows&)>& f) {
  const PlainArray all(x);
  const std::size_t rank = all.shape.size();
  const auto m = static_cast<std::size_t>(all.shape[rank - 2]);
  const auto n = static_cast<std::size_t>(all.shape[rank - 1]);
  Shape shape = all.shape;
  shape.resize(rank - 2);
  std::size_t batch = 1;
  for (const std::int64_t size : shape) batch *= static_cast<std::size_t>(size);
  for (const std::int64_t size : tail) shape.push_back(size);
  std::vector<double> values;
  for (std::size_t b = 0; b < batch; ++b) {
    Rows matrix = zero_rows(m, n);
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 0; j < n; ++j) matrix[i][j] = all.values[(b * m + i) * n + j];
    }
    for (const auto& row : f(matrix)) {
      for (const Real value : row) values.push_back(static_cast<double>(value));
    }
  }
  return from_data(values, shape);
}

}  // namespace extensor::op_database
