#include "core/make_tensor.h"

#include <new>
#include <utility>

#include "core/allocator.h"
#include "core/check.h"
#include "core/graph.h"
#include "core/memory_layout.h"
#include "core/sanitizer.h"
#include "core/thread_cache.h"
#include "extensor/interruption.h"

namespace extensor::detail {

// ---- where TensorImpl live

namespace {
constexpr std::uint32_t most_free_impls = 256;  // per thread, about 64 KiB
}

void* TensorImpl::operator new(std::size_t size) {
  // Under AddressSanitizer every impl is freshly allocated, so that use after free is detected.
  if (!address_sanitizer && size == sizeof(TensorImpl)) {
    ThreadCache* cache = current_thread_cache;
    if (cache != nullptr && cache->free_impls != nullptr) [[likely]] {
      FreeImpl* impl = cache->free_impls;
      cache->free_impls = impl->next;
      --cache->free_impl_count;
      return impl;
    }
  }
  return ::operator new(size);
}

void TensorImpl::operator delete(void* pointer, std::size_t size) noexcept {
  if (!address_sanitizer && size == sizeof(TensorImpl)) {
    ThreadCache* cache = current_thread_cache;
    if (cache != nullptr && cache->free_impl_count < most_free_impls) [[likely]] {
      cache->free_impls = new (pointer) FreeImpl{cache->free_impls};
      ++cache->free_impl_count;
      return;
    }
  }
  ::operator delete(pointer);
}

void retain(TensorImpl* impl) noexcept { impl->references.fetch_add(1, std::memory_order_relaxed); }
void release(TensorImpl* impl) noexcept { const Tensor last(impl); }

// ---- layouts

Strides contiguous_strides(const Shape& shape) {
  Strides strides(shape.size(), 1);
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    step *= shape[i] == 0 ? 1 : shape[i];
  }
  return strides;
}

bool is_contiguous(const Shape& shape, const Strides& strides) {
  std::int64_t step = 1;
  bool dense = true;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return true;
    if (shape[i] == 1) continue;
    dense &= strides[i] == step;
    step *= shape[i];
  }
  return dense;
}

// ---- tensors

Tensor make_empty(const char* operation, const Shape& shape, DType dtype, Device device) {
  check_interruption();
  auto* impl = new TensorImpl;
  Tensor result(impl);  // frees the impl when a check throws
  const std::size_t rank = shape.size();
  if (rank > static_cast<std::size_t>(max_rank)) [[unlikely]] {
    checked_numel(operation, shape);
  }
  impl->dtype = dtype;
  impl->shape.resize_for_overwrite(rank);
  impl->strides.resize_for_overwrite(rank);
  // One loop computes shape, strides and element count and detects overflow; checked_numel builds
  // the message.
  const std::int64_t* asked = shape.data();
  std::int64_t* sizes = impl->shape.data();
  std::int64_t* strides = impl->strides.data();
  std::int64_t step = 1;
  bool wrong = false;
  bool empty = false;
  for (std::size_t i = rank; i-- > 0;) {
    const std::int64_t size = asked[i];
    sizes[i] = size;
    strides[i] = step;
    wrong |= size < 0;
    empty |= size == 0;
    wrong |= __builtin_mul_overflow(step, size == 0 ? 1 : size, &step);
  }
  if (wrong) [[unlikely]] {
    checked_numel(operation, shape);
  }
  impl->numel = empty ? 0 : step;
  const std::size_t bytes = checked_bytes(operation, impl->numel, dtype);
  impl->storage = device == cpu_device ? allocate_host(bytes, operation)
                                       : allocate_storage(bytes, device, operation);
  impl->data = static_cast<std::byte*>(impl->storage->data);
  return result;
}

Tensor make_empty(const char* operation, const Shape& shape, const Strides& strides, DType dtype,
                  Device device) {
  Tensor result = make_empty(operation, shape, dtype, device);
  TensorImpl& impl = result.impl();
  if (impl.numel != 0) {
    impl.strides = strides;
    impl.contiguous = is_contiguous(shape, strides);
  }
  return result;
}

Tensor make_empty(const char* operation, const Shape& shape, MemoryFormat format, DType dtype,
                  Device device) {
  check_format(operation, shape, format);
  if (format == MemoryFormat::contiguous) return make_empty(operation, shape, dtype, device);
  return make_empty(operation, shape, channels_last_strides(shape), dtype, device);
}

void throw_not_dense(const Tensor& x) {
  throw ValueError(message("kernel: an operand of shape ", x.shape(), " has strides ", x.strides(),
                           " (allowed: row-major without gaps)"));
}

Tensor make_on_storage(StoragePointer storage, std::byte* data, DType dtype, const Shape& shape,
                       const Strides& strides) {
  auto* impl = new TensorImpl;
  Tensor result(impl);
  impl->dtype = dtype;
  impl->data = data;
  impl->storage = std::move(storage);
  impl->shape = shape;
  impl->strides = strides;
  std::int64_t numel = 1;
  for (const std::int64_t size : shape) numel *= size;
  impl->numel = numel;
  impl->contiguous = is_contiguous(shape, strides);
  return result;
}

Tensor make_view(const Tensor& base, std::byte* data, const Shape& shape, const Strides& strides) {
  const TensorImpl& impl = base.impl();
  return make_on_storage(impl.storage, data, impl.dtype, shape, strides);
}

void replace_elements(Tensor& tensor, const Tensor& elements) {
  TensorImpl& to = tensor.impl();
  const TensorImpl& from = elements.impl();
  from.storage->version = to.storage->version + 1;
  to.dtype = from.dtype;
  to.data = from.data;
  to.storage = from.storage;
  to.strides = from.strides;
  to.contiguous = from.contiguous;
  forget_base(to);
  count_change(to);
}

Tensor strided_view(const char* operation, const Tensor& base, const Shape& shape,
                    const Strides& strides, std::int64_t offset) {
  const TensorImpl& impl = base.impl();
  if (shape.size() != strides.size()) {
    throw ShapeError(message(operation, ": ", strides.size(), " strides ", strides,
                             " were given for shape ", shape, " (allowed: one per dimension)"));
  }
  const std::int64_t numel = checked_numel(operation, shape);
  const auto item = static_cast<std::int64_t>(itemsize(impl.dtype));
  const auto* first_byte = static_cast<const std::byte*>(impl.storage->data);
  // Positions are counted in elements from the start of the storage; the base may begin between
  // two.
  const std::int64_t base_bytes = impl.data - first_byte;
  const auto storage_bytes = static_cast<std::int64_t>(impl.storage->bytes);
  std::int64_t lowest = offset;
  std::int64_t highest = offset;
  bool overflow = false;
  for (std::size_t i = 0; i < shape.size() && numel != 0; ++i) {
    std::int64_t reach = 0;
    overflow |= __builtin_mul_overflow(shape[i] - 1, strides[i], &reach);
    std::int64_t& end = reach < 0 ? lowest : highest;
    overflow |= __builtin_add_overflow(end, reach, &end);
  }
  std::int64_t low_byte = 0;
  std::int64_t high_byte = 0;
  overflow |= __builtin_mul_overflow(lowest, item, &low_byte);
  overflow |= __builtin_add_overflow(low_byte, base_bytes, &low_byte);
  overflow |= __builtin_mul_overflow(highest, item, &high_byte);
  overflow |= __builtin_add_overflow(high_byte, base_bytes, &high_byte);
  // An empty view reads nothing, but its pointer must still be inside the storage or one past its
  // end.
  const std::int64_t last = numel == 0 ? storage_bytes : storage_bytes - item;
  if (overflow || low_byte < 0 || high_byte > last) {
    throw ValueError(message(operation, ": a view of shape ", shape, ", strides ", strides,
                             " and offset ", offset, " reaches outside its storage of ",
                             storage_bytes / item, " elements of ", impl.dtype,
                             " (the tensor starts at element ", base_bytes / item, ")"));
  }
  // Strides of an empty view were not checked above; replace them with harmless ones.
  return make_view(base, impl.data + offset * item, shape,
                   numel == 0 ? contiguous_strides(shape) : strides);
}

}  // namespace extensor::detail
