// A collective as ranks compare it: all must call the same one.
#pragma once

#include <cstdint>
#include <string>

#include "distributed/transport.h"
#include "extensor/distributed/communicator.h"

namespace extensor::distributed {

struct Signature {
  // The end of the program is announced like a collective.
  static constexpr std::uint64_t end = 255;

  std::uint64_t what = end;
  std::int64_t count = 0;

  // Ranks may use devices of different indices, but not of different types.
  static Signature of(CollectiveKind kind, DType dtype, ReduceOp op, Device::Type device, int root,
                      std::int64_t count) {
    return {static_cast<std::uint64_t>(kind) | static_cast<std::uint64_t>(dtype) << 8 |
                static_cast<std::uint64_t>(op) << 16 | static_cast<std::uint64_t>(device) << 24 |
                static_cast<std::uint64_t>(root) << 32,
            count};
  }
  // "all_reduce (sum) of 1024 float32", with " on cuda" for tensors of CUDA devices
  std::string describe() const;

  friend bool operator==(const Signature&, const Signature&) = default;
};

}  // namespace extensor::distributed
