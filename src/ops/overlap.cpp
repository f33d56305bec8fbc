#include "ops/overlap.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "core/check.h"

namespace extensor::ops {

namespace {

// One unknown of Σ stride · index = target, with 0 ≤ index ≤ last.
struct Term {
  std::int64_t stride;  // > 0
  std::int64_t last;
};

// Searches for a solution from the largest stride down. The reach of the smaller strides bounds
// each index, so an ordinary layout leaves one or two candidates per dimension.
bool solvable(const std::vector<Term>& terms, std::size_t at, __int128 target, int& budget) {
  __int128 reach = 0;
  for (std::size_t i = at; i < terms.size(); ++i) {
    reach += static_cast<__int128>(terms[i].stride) * terms[i].last;
  }
  if (target < 0 || target > reach) return false;
  if (at == terms.size()) return target == 0;
  if (--budget < 0) return true;
  const __int128 rest = reach - static_cast<__int128>(terms[at].stride) * terms[at].last;
  __int128 low = target - rest <= 0 ? 0 : (target - rest + terms[at].stride - 1) / terms[at].stride;
  const __int128 high = std::min<__int128>(terms[at].last, target / terms[at].stride);
  for (; low <= high; ++low) {
    if (solvable(terms, at + 1, target - low * terms[at].stride, budget)) return true;
  }
  return false;
}

// Adds sign · Σ stride · index of one tensor. Reverses the index if the coefficient is negative,
// which shifts the target.
void add_terms(const Tensor& x, std::int64_t sign, std::vector<Term>& terms, __int128& target) {
  const auto size = static_cast<std::int64_t>(x.itemsize());
  for (std::size_t d = 0; d < x.shape().size(); ++d) {
    const std::int64_t stride = sign * x.strides()[d] * size, last = x.shape()[d] - 1;
    if (last == 0 || stride == 0) continue;
    if (stride < 0) target += static_cast<__int128>(-stride) * last;
    terms.push_back({std::llabs(stride), last});
  }
}

// Whether both layouts are traversed identically; dimensions of size 1 do not count.
bool same_layout(const Tensor& a, const Tensor& b) {
  const auto walked = [](const Tensor& x, std::size_t d) {
    while (d < x.shape().size() && x.shape()[d] == 1) ++d;
    return d;
  };
  std::size_t i = walked(a, 0), j = walked(b, 0);
  while (i < a.shape().size() && j < b.shape().size()) {
    if (a.shape()[i] != b.shape()[j] || a.strides()[i] != b.strides()[j]) return false;
    i = walked(a, i + 1);
    j = walked(b, j + 1);
  }
  return i == a.shape().size() && j == b.shape().size();
}

// Two storages may wrap the same external memory.
bool share_memory(const Storage& a, const Storage& b) {
  if (&a == &b) return true;
  const auto first_a = reinterpret_cast<std::uintptr_t>(a.data);
  const auto first_b = reinterpret_cast<std::uintptr_t>(b.data);
  return first_a < first_b + b.bytes && first_b < first_a + a.bytes;
}

constexpr int search_budget = 10000;

}  // namespace

Overlap overlap(const Tensor& a, const Tensor& b) {
  if (a.numel() == 0 || b.numel() == 0) return Overlap::none;
  if (!share_memory(*a.impl().storage.get(), *b.impl().storage.get())) return Overlap::none;
  if (a.impl().data == b.impl().data && a.dtype() == b.dtype() && same_layout(a, b)) {
    return Overlap::same;
  }
  // An element of a coincides with an element of b if Σ a-terms − Σ b-terms = b.data − a.data. If
  // the item sizes differ, two more terms below cover the bytes of both elements.
  std::vector<Term> terms;
  __int128 target = b.impl().data - a.impl().data;
  add_terms(a, 1, terms, target);
  add_terms(b, -1, terms, target);
  if (a.itemsize() != b.itemsize()) {
    terms.push_back({1, static_cast<std::int64_t>(a.itemsize() - 1)});
    terms.push_back({1, static_cast<std::int64_t>(b.itemsize() - 1)});
    target += static_cast<std::int64_t>(b.itemsize() - 1);
  }
  std::sort(terms.begin(), terms.end(),
            [](const Term& x, const Term& y) { return x.stride > y.stride; });
  int budget = search_budget;
  return solvable(terms, 0, target, budget) ? Overlap::partial : Overlap::none;
}

bool overlaps_itself(const Tensor& x) {
  if (x.is_contiguous() || x.numel() <= 1) return false;
  std::vector<Term> terms;
  for (std::size_t d = 0; d < x.shape().size(); ++d) {
    if (x.shape()[d] == 1) continue;
    if (x.strides()[d] == 0) return true;
    terms.push_back({std::llabs(x.strides()[d]), x.shape()[d] - 1});
  }
  std::sort(terms.begin(), terms.end(),
            [](const Term& a, const Term& b) { return a.stride < b.stride; });
  // If each stride exceeds the reach of all smaller ones, every element has a unique index.
  std::int64_t reach = 0;
  bool nested = true;
  for (const Term& term : terms) {
    nested = nested && term.stride > reach;
    reach += term.stride * term.last;
  }
  if (nested) return false;
  // Two different indices coincide if Σ stride · difference = 0 with some difference ≥ 1.
  for (std::size_t first = 0; first < terms.size(); ++first) {
    std::vector<Term> differences;
    __int128 target = -static_cast<__int128>(terms[first].stride);
    differences.push_back({terms[first].stride, terms[first].last - 1});
    for (std::size_t d = 0; d < terms.size(); ++d) {
      if (d == first) continue;
      differences.push_back({terms[d].stride, 2 * terms[d].last});
      target += static_cast<__int128>(terms[d].stride) * terms[d].last;
    }
    std::sort(differences.begin(), differences.end(),
              [](const Term& a, const Term& b) { return a.stride > b.stride; });
    int budget = search_budget;
    if (solvable(differences, 0, target, budget)) return true;
  }
  return false;
}

void check_writable(const char* operation, const Tensor& x) {
  if (x.impl().storage->read_only) {
    throw ValueError(detail::message(operation, ": cannot write in place: the memory of x, ",
                                     x.shape(), ", is read-only; clone it first"));
  }
  if (!overlaps_itself(x)) return;
  throw ValueError(detail::message(
      operation, ": cannot write in place: several elements of x, ", x.shape(), " with strides ",
      x.strides(), ", share one place in memory (a broadcast view?); clone it first"));
}

void check_no_partial_overlap(const char* operation, const Tensor& x, const Tensor& source) {
  if (overlap(x, source) != Overlap::partial) return;
  throw ValueError(detail::message(operation, ": cannot write in place: x, ", x.shape(),
                                   ", overlaps the other operand, ", source.shape(),
                                   ", at other positions; clone one of them first"));
}

}  // namespace extensor::ops
