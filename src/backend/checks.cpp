#include "backend/checks.h"

#include <bit>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/check.h"
#include "extensor/error.h"

namespace extensor::backend {

using detail::message;

// ---- notes of the CPU's kernels

namespace {

constinit thread_local CheckReport noted;

}  // namespace

void note(const CheckReport& report) {
  if (noted.check == 0) noted = report;
}

std::optional<CheckReport> take_note() {
  if (noted.check == 0) return {};
  return std::exchange(noted, CheckReport());
}

// ---- numbers

namespace {

using Key = std::tuple<ValueCheck::Kind, std::string, std::string, std::string, std::int64_t,
                       std::int64_t, bool, DType, std::vector<std::int64_t>>;

// All checks that were made on a device. A program has few: one per op and shape.
struct Registry {
  std::mutex mutex;
  std::map<Key, std::uint32_t> numbers;
  std::deque<ValueCheck> checks;  // by number − first_number; strings are those of the keys
};
constexpr std::uint32_t first_number = immediate_check + 1;

// Never destroyed: a device may wait at any time.
Registry& registry() {
  static auto* made = new Registry;
  return *made;
}

}  // namespace

std::uint32_t check_number(const ValueCheck& check) {
  Key key(check.kind, check.operation, check.argument,
          check.counted == nullptr ? "" : check.counted, check.axis, check.size, check.from_end,
          check.dtype, {check.shape.begin(), check.shape.end()});
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto [found, is_new] = all.numbers.emplace(
      std::move(key), first_number + static_cast<std::uint32_t>(all.checks.size()));
  if (is_new) {
    ValueCheck kept = check;
    const Key& strings = found->first;
    kept.operation = std::get<1>(strings).c_str();
    kept.argument = std::get<2>(strings).c_str();
    if (check.counted != nullptr) kept.counted = std::get<3>(strings).c_str();
    all.checks.push_back(kept);
  }
  return found->second;
}

// ---- messages

namespace {

std::string value_text(const ValueCheck& check, const CheckReport& report) {
  if (is_floating_point(check.dtype)) return message(std::bit_cast<double>(report.bits));
  if (check.dtype == DType::uint64) return message(report.bits);
  return message(static_cast<std::int64_t>(report.bits));
}

Dims position_in(const Shape& shape, std::int64_t row_major) {
  Dims position(shape.size(), 0);
  for (std::size_t d = position.size(); d-- > 0;) {
    position[d] = row_major % shape[d];
    row_major /= shape[d];
  }
  return position;
}

[[noreturn]] void throw_matrix_error(const ValueCheck& check, const CheckReport& report) {
  const Shape& batch = check.shape;
  throw ValueError(message(
      check.operation, ": ", check.argument,
      check.kind == ValueCheck::Kind::positive ? " is not positive-definite, or contains NaN"
                                               : " is singular",
      batch.empty()
          ? std::string()
          : message(": matrix ", position_in(batch, report.position), " of the batch ", batch)));
}

[[noreturn]] void throw_index_error(const ValueCheck& check, const CheckReport& report) {
  const Dims position = position_in(check.shape, report.position);
  const std::int64_t size = check.size;
  throw IndexError(message(
      check.operation, ": index ", value_text(check, report), " at position ", position, " of ",
      check.argument, " is out of range for ",
      check.counted == nullptr ? message("axis ", check.axis, " of size ", size)
                               : message(size, " ", check.counted),
      size == 0 ? std::string(" (allowed: none)")
                : message(" (allowed: ", check.from_end ? -size : 0, " to ", size - 1, ")")));
}

}  // namespace

void throw_not_allowed(const ValueCheck& check, const CheckReport& report) {
  const std::string value = value_text(check, report);
  switch (check.kind) {
    case ValueCheck::Kind::index:
      throw_index_error(check, report);
    case ValueCheck::Kind::divisor:
      throw ValueError(message(check.operation, ": integer division by zero: ", check.argument,
                               ", ", check.shape, " of ", check.dtype, ", contains 0"));
    case ValueCheck::Kind::exponent:
      throw ValueError(message(check.operation,
                               ": integers to a negative integer power: ", check.argument,
                               " contains ", value, "; convert to a float dtype first"));
    case ValueCheck::Kind::shift:
      throw ValueError(message(check.operation, ": a shift in ", check.argument, " is ", value,
                               " (allowed: 0 to ", check.size - 1, ")"));
    case ValueCheck::Kind::invertible:
    case ValueCheck::Kind::positive:
      throw_matrix_error(check, report);
    case ValueCheck::Kind::unit_interval:
      break;
  }
  throw ValueError(message(check.operation, ": ", check.argument, " is ", value, " at element ",
                           report.position, " (allowed: 0 to 1)"));
}

void throw_reported(const CheckReport& report) {
  ValueCheck check;
  {
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    check = all.checks.at(report.check - first_number);
  }
  throw_not_allowed(check, report);
}

}  // namespace extensor::backend
