#include "distributed/signature.h"

#include "core/check.h"

namespace extensor::distributed {

using detail::message;

std::string Signature::describe() const {
  const std::uint64_t kind_number = what & 255;
  if (kind_number == end) return "the end of the program";
  constexpr const char* names[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                   "barrier"};
  constexpr const char* ops[] = {"sum", "mean", "product", "minimum", "maximum"};
  std::string text = kind_number < std::size(names) ? names[kind_number] : "an unknown collective";
  const auto kind = static_cast<CollectiveKind>(kind_number);
  if (kind == CollectiveKind::barrier) return text;
  if (kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter) {
    const std::uint64_t op = what >> 16 & 255;
    text += message(" (", op < std::size(ops) ? ops[op] : "unknown", ")");
  }
  const auto dtype = static_cast<DType>(what >> 8 & 255);
  text += message(" of ", count, " ");
  text += is_valid(dtype) ? message(dtype) : std::string("unknown");
  if (static_cast<Device::Type>(what >> 24 & 255) == Device::Type::cuda) text += " on cuda";
  if (kind == CollectiveKind::broadcast) text += message(" from rank ", what >> 32);
  return text;
}

}  // namespace extensor::distributed
