#include "backend/cpu/elementwise/half_table.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>

namespace extensor::cpu {

namespace {

constexpr std::int64_t worth_a_table = 65536;  // elements; filling the table computes as many

struct Slot {
  std::atomic<std::int64_t> asked{0};
  std::atomic<const HalfTable*> table{nullptr};
};

Slot& slot_of(backend::ElementwiseOp op, DType half) {
  static Slot slots[backend::elementwise_op_count][2];
  return slots[static_cast<int>(op)][half == DType::float16 ? 0 : 1];
}

}  // namespace

const HalfTable* half_table(backend::ElementwiseOp op, DType half, std::int64_t numel,
                            FillHalfTable fill) {
  Slot& slot = slot_of(op, half);
  if (const HalfTable* table = slot.table.load(std::memory_order_acquire)) return table;
  const std::int64_t asked = slot.asked.load(std::memory_order_relaxed);
  if (numel < worth_a_table - asked) {
    slot.asked.store(asked + numel, std::memory_order_relaxed);
    return nullptr;
  }
  static std::mutex filling;
  const std::lock_guard lock(filling);
  if (const HalfTable* table = slot.table.load(std::memory_order_acquire)) return table;
  auto* table = new (std::nothrow) HalfTable;
  if (table == nullptr) return nullptr;
  fill(op, half, table->results);
  table->parameter.integer = reinterpret_cast<std::intptr_t>(table->results);
  slot.table.store(table, std::memory_order_release);
  return table;
}

// Processes eight at a time, each inserted into its lane of a vector: a plain loop is limited by
// its 16-bit stores.
void look_up_loop(const void* const* inputs, const std::size_t*, void* out, std::size_t n,
                  const backend::Parameter* table) {
  const auto* results = reinterpret_cast<const std::uint16_t*>(table->integer);
  const auto* from = static_cast<const std::uint16_t*>(inputs[0]);
  auto* to = static_cast<std::uint16_t*>(out);
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    std::uint64_t low, high;
    std::memcpy(&low, from + i, 8);
    std::memcpy(&high, from + i + 4, 8);
    std::uint16_t __attribute__((vector_size(16))) eight = {};
    eight[0] = results[low & 0xffff];
    eight[1] = results[low >> 16 & 0xffff];
    eight[2] = results[low >> 32 & 0xffff];
    eight[3] = results[low >> 48];
    eight[4] = results[high & 0xffff];
    eight[5] = results[high >> 16 & 0xffff];
    eight[6] = results[high >> 32 & 0xffff];
    eight[7] = results[high >> 48];
    std::memcpy(to + i, &eight, sizeof eight);
  }
  for (; i < n; ++i) to[i] = results[from[i]];
}

}  // namespace extensor::cpu
