#include "extensor/nn/key_value_cache.h"

#include "core/check.h"
#include "core/context.h"
#include "extensor/creation.h"
#include "nn/layer_checks.h"

namespace extensor::nn {

using extensor::detail::message;

// ---- the layer or model that filled a cache

std::vector<detail::ParameterVersions::Entry> detail::ParameterVersions::entries_of(
    const Walk& module) {
  struct Collect final : Walker {
    void parameter(std::string_view, Parameter& x) override {
      const Storage* storage = x.impl().storage.get();
      entries.push_back({x.tensor(), storage, storage->version.load(std::memory_order_relaxed)});
    }
    std::vector<Entry> entries;
  } collect;
  module(collect);
  return std::move(collect.entries);
}

void detail::ParameterVersions::record(const Walk& module) { entries_ = entries_of(module); }

void detail::ParameterVersions::check(const char* owner, const char* kind,
                                      const Walk& module) const {
  const std::vector<Entry> now = entries_of(module);
  bool is_same = now.size() == entries_.size(), is_unchanged = true;
  for (std::size_t k = 0; is_same && k < now.size(); ++k) {
    is_same = now[k].parameter.impl_or_null() == entries_[k].parameter.impl_or_null();
    is_unchanged = is_unchanged && now[k].storage == entries_[k].storage &&
                   now[k].version == entries_[k].version;
  }
  if (!is_same) {
    throw ValueError(message(owner, ": the cache was filled by another ", kind,
                             " (allowed: a cache that this ", kind,
                             " filled, or an empty one; clear() empties it)"));
  }
  if (!is_unchanged) {
    throw ValueError(message(owner,
                             ": the weights have changed since the cache was filled (clear() "
                             "empties the cache)"));
  }
}

// ---- the cache

KeyValueCache::KeyValueCache(std::int64_t context) : context_(context) {
  detail::check_positive("KeyValueCache", "context", context);
}

KeyValueCache::KeyValueCache(const KeyValueCache& other)
    : context_(other.context_), length_(other.length_), layer_(other.layer_) {
  if (!other.keys_.defined()) return;
  keys_ = other.keys_.clone();
  values_ = other.values_.clone();
}

namespace {

Tensor filled(const Tensor& memory, std::int64_t length) {
  if (length == 0) throw ValueError("KeyValueCache: the cache is empty");
  return memory.slice(2, 0, length);
}

void check_new(const char* argument, const Tensor& x) {
  if (!is_floating_point(x.dtype())) {
    throw DTypeError(
        message("KeyValueCache: ", argument, " are ", x.dtype(), ", must be floating-point"));
  }
  if (x.ndim() == 4) return;
  throw ShapeError(message("KeyValueCache: ", argument, " are ", x.shape(),
                           ", must be [batch, heads, count, width]"));
}

// `memory` has the context in place of the number of positions.
bool has_shape_of(const Tensor& x, const Tensor& memory) {
  return x.size(0) == memory.size(0) && x.size(1) == memory.size(1) && x.size(3) == memory.size(3);
}

bool fits(const Tensor& x, const Tensor& memory) {
  return memory.defined() && has_shape_of(x, memory) && x.dtype() == memory.dtype() &&
         x.device() == memory.device();
}

void check_fits(const char* argument, const Tensor& x, const Tensor& memory, std::int64_t length) {
  if (!has_shape_of(x, memory)) {
    throw ShapeError(message("KeyValueCache: ", argument, " are ", x.shape(),
                             " and the cache holds ", filled(memory, length).shape(),
                             " (allowed: another length only)"));
  }
  if (x.dtype() != memory.dtype()) {
    throw DTypeError(message("KeyValueCache: ", argument, " are ", x.dtype(),
                             " and the cache holds ", memory.dtype(),
                             " (allowed: one dtype; clear() empties the cache)"));
  }
  if (x.device() != memory.device()) {
    throw DeviceError(message("KeyValueCache: ", argument, " are on ", x.device(),
                              " and the cache is on ", memory.device(),
                              " (allowed: one device; clear() empties the cache)"));
  }
}

Tensor allocated(const Tensor& x, std::int64_t context) {
  return empty({x.size(0), x.size(1), context, x.size(3)},
               {.dtype = x.dtype(), .device = x.device()});
}

}  // namespace

Tensor KeyValueCache::keys() const { return filled(keys_, length_); }
Tensor KeyValueCache::values() const { return filled(values_, length_); }

void KeyValueCache::append(const Tensor& keys, const Tensor& values) {
  if (extensor::detail::recording_enabled()) {
    throw ValueError(
        "KeyValueCache: gradients are recorded, and a later call would overwrite what they need "
        "(allowed: calls under NoGrad)");
  }
  check_new("keys", keys);
  check_new("values", values);
  for (const int axis : {0, 1, 2}) {
    if (keys.size(axis) == values.size(axis)) continue;
    throw ShapeError(message("KeyValueCache: keys are ", keys.shape(), " and values are ",
                             values.shape(), " (allowed: another width only)"));
  }
  const std::int64_t count = keys.size(2);
  if (count > context_ - length_) {
    throw ValueError(message("KeyValueCache: ", count, " more positions do not fit: ", length_,
                             " of ", context_, " are in use (clear() or truncate() makes room)"));
  }
  if (length_ > 0) {
    check_fits("keys", keys, keys_, length_);
    check_fits("values", values, values_, length_);
  } else if (!fits(keys, keys_) || !fits(values, values_)) {
    Tensor new_keys = allocated(keys, context_);
    values_ = allocated(values, context_);
    keys_ = std::move(new_keys);
  }
  keys_.slice(2, length_, length_ + count).copy_from(keys);
  values_.slice(2, length_, length_ + count).copy_from(values);
  length_ += count;
}

void KeyValueCache::truncate(std::int64_t length) {
  if (length < 0 || length > length_) {
    throw ValueError(message("KeyValueCache: truncate to ", length, " of ", length_,
                             " positions (allowed: 0 to ", length_, ")"));
  }
  length_ = length;
}

void KeyValueCache::claim(const char* owner, const detail::Walk& layer) {
  if (length_ > 0) {
    layer_.check(owner, "layer", layer);
  } else {
    layer_.record(layer);
  }
}

}  // namespace extensor::nn
