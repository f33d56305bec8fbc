// The keys and values of an attention layer, kept so that a later call attends to earlier positions
// without computing them again.
//
//   nn::KeyValueCache cache(512);
//   const NoGrad off;
//   Tensor y = attention(prompt, nn::AttentionMasks{.causal = true}, cache);  // [batch, 10, width]
//   Tensor z = attention(next, nn::AttentionMasks{.causal = true}, cache);    // [batch, 1, width]
#pragma once

#include <vector>

#include "extensor/export.h"
#include "extensor/nn/module.h"

EXTENSOR_BEGIN_API

namespace extensor::nn {

namespace detail {

// The parameters of a module at one moment, to notice another module and changed weights.
class ParameterVersions {
 public:
  void record(const Walk& module);
  // Throws ValueError unless the module has the recorded parameters, unchanged. `owner` begins the
  // message, `kind` is "layer" or "model".
  void check(const char* owner, const char* kind, const Walk& module) const;

 private:
  struct Entry {
    Tensor parameter;
    const Storage* storage;
    std::uint64_t version;
  };
  static std::vector<Entry> entries_of(const Walk& module);

  std::vector<Entry> entries_;
};

}  // namespace detail

// Memory for the keys and values of `context` positions. The first call allocates it, with the
// batch, heads, dtype and device of its keys. A filled cache belongs to the layer that filled it
// and to the weights which that layer had; an empty one can be used by any layer. A copy has
// separate memory. Calls that fail leave length() as it was.
class KeyValueCache {
 public:
  // ValueError unless `context` is at least 1.
  explicit KeyValueCache(std::int64_t context);
  KeyValueCache(const KeyValueCache& other);
  KeyValueCache(KeyValueCache&&) noexcept = default;
  KeyValueCache& operator=(const KeyValueCache& other) { return *this = KeyValueCache(other); }
  KeyValueCache& operator=(KeyValueCache&&) noexcept = default;
  ~KeyValueCache() = default;

  std::int64_t context() const { return context_; }
  std::int64_t length() const { return length_; }  // positions in the cache
  // Views [batch, heads, length, width] of all positions. ValueError for an empty cache.
  Tensor keys() const;
  Tensor values() const;

  // Appends keys [batch, heads, count, width] and values [batch, heads, count, value width], for
  // attention layers of your own. ValueError if they do not fit the context or gradients are
  // recorded (NoGrad turns that off); ShapeError, DTypeError or DeviceError if they differ from
  // what the cache holds.
  void append(const Tensor& keys, const Tensor& values);
  // Drops the positions from `length` on. ValueError unless it is between 0 and length().
  void truncate(std::int64_t length);
  void clear() { truncate(0); }

  // Called by a layer before it appends: takes an empty cache, and throws ValueError if another
  // layer filled the cache or the weights have changed since then.
  void claim(const char* owner, const detail::Walk& layer);

 private:
  std::int64_t context_, length_ = 0;
  Tensor keys_, values_;  // [batch, heads, context, width]
  detail::ParameterVersions layer_;
};

}  // namespace extensor::nn

EXTENSOR_END_API
