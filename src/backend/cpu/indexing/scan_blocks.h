// How scans divide their work: blocks of neighbouring columns, which threads take one by one.
#pragma once

#include <algorithm>

#include "backend/indexing_call.h"
#include "core/parallel.h"

namespace extensor::cpu {

inline constexpr std::int64_t columns_together = 32;

// Calls body(first element, columns, slot) for every block of neighbouring columns.
template <class Body>
void for_each_block(const backend::ScanCall& call, int threads, std::int64_t grain, Body&& body) {
  const std::int64_t blocks = (call.inner + columns_together - 1) / columns_together;
  detail::parallel_for(threads, call.outer * blocks, grain,
                       [&](std::int64_t begin, std::int64_t end, int slot) {
                         for (std::int64_t unit = begin; unit < end; ++unit) {
                           const std::int64_t column = unit % blocks * columns_together;
                           body(unit / blocks * call.length * call.inner + column,
                                std::min(columns_together, call.inner - column), slot);
                         }
                       });
}

inline std::int64_t block_count(const backend::ScanCall& call) {
  return call.outer * ((call.inner + columns_together - 1) / columns_together);
}
inline std::int64_t block_grain(const backend::ScanCall& call) {
  return std::max<std::int64_t>(1, 8192 / (call.length * std::min(call.inner, columns_together)));
}

// The gradients of products, ScanOp::prod_backward and prod_double_backward, of floats.
void scan_product_gradients(const backend::ScanCall& call);

}  // namespace extensor::cpu
