// Reads and writes strided memory at offsets: the kernel of index expressions with tensors.
#include <algorithm>
#include <vector>

#include "backend/cpu/indexing/indexing.h"
#include "backend/cpu/width.h"
#include "core/parallel.h"

namespace extensor::cpu {

namespace {

using backend::SelectCall;

constexpr std::int64_t elements_per_thread = 16384;

struct Axis {
  std::int64_t size, stride;
};

// The axes to iterate over: without those of size 1, and with adjacent ones merged if one stride
// covers them.
std::vector<Axis> walked_axes(const Shape& shape, const Strides& strides) {
  std::vector<Axis> axes;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    if (!axes.empty() && axes.back().stride == shape[d] * strides[d]) {
      axes.back() = {axes.back().size * shape[d], strides[d]};
    } else {
      axes.push_back({shape[d], strides[d]});
    }
  }
  return axes;
}

std::int64_t size_of(const std::vector<Axis>& axes) {
  std::int64_t size = 1;
  for (const Axis& axis : axes) size *= axis.size;
  return size;
}

std::int64_t offset_at(const std::vector<Axis>& axes, std::int64_t position) {
  std::int64_t offset = 0;
  for (std::size_t d = axes.size(); d-- > 0;) {
    offset += position % axes[d].size * axes[d].stride;
    position /= axes[d].size;
  }
  return offset;
}

// `step` is 0 if one dense element is written everywhere, 1 otherwise.
template <bool writes, class T>
void move_row(T* strided, std::int64_t stride, T* dense, std::int64_t step, std::int64_t n) {
  if constexpr (writes) {
    if (stride == 1 && step == 1) {
      std::copy_n(dense, n, strided);
    } else {
      for (std::int64_t i = 0; i < n; ++i) strided[i * stride] = dense[i * step];
    }
  } else {
    if (stride == 1) {
      std::copy_n(strided, n, dense);
    } else {
      for (std::int64_t i = 0; i < n; ++i) dense[i] = strided[i * stride];
    }
  }
}

// Moves one block of the inner axes and returns the dense position after it.
template <bool writes, class T>
T* move_block(const Axis* axes, std::size_t rank, T* strided, T* dense, std::int64_t step) {
  if (rank == 1) {
    move_row<writes>(strided, axes->stride, dense, step, axes->size);
    return dense + axes->size * step;
  }
  for (std::int64_t i = 0; i < axes->size; ++i) {
    dense = move_block<writes>(axes + 1, rank - 1, strided + i * axes->stride, dense, step);
  }
  return dense;
}

template <bool writes, class T>
void run(const SelectCall& call) {
  const std::vector<Axis> outer = walked_axes(*call.outer_shape, *call.outer_strides);
  const std::vector<Axis> inner = walked_axes(*call.inner_shape, *call.inner_strides);
  const std::int64_t outer_size = size_of(outer), inner_size = size_of(inner);
  const std::int64_t step = call.single ? 0 : 1;
  // The points first … last − 1 of one outer position.
  const auto move_points = [&](std::int64_t o, std::int64_t first, std::int64_t last) {
    T* strided = reinterpret_cast<T*>(call.strided) + offset_at(outer, o);
    T* dense = reinterpret_cast<T*>(call.dense) + (o * call.count + first) * inner_size * step;
    if (inner.empty()) {
      for (std::int64_t j = first; j < last; ++j, dense += step) {
        if constexpr (writes) {
          strided[call.offsets[j]] = *dense;
        } else {
          *dense = strided[call.offsets[j]];
        }
      }
      return;
    }
    for (std::int64_t j = first; j < last; ++j) {
      dense =
          move_block<writes>(inner.data(), inner.size(), strided + call.offsets[j], dense, step);
    }
  };
  const auto grain = [](std::int64_t elements) {
    return std::max<std::int64_t>(1, elements_per_thread / std::max<std::int64_t>(1, elements));
  };
  if (writes && !call.distinct) {
    // One thread writes all points of an outer position, in order.
    detail::parallel_for(outer_size, grain(call.count * inner_size),
                         [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t o = begin; o < end; ++o) move_points(o, 0, call.count);
                         });
    return;
  }
  detail::parallel_for(outer_size * call.count, grain(inner_size),
                       [&](std::int64_t begin, std::int64_t end) {
                         while (begin < end) {
                           const std::int64_t o = begin / call.count, first = begin % call.count;
                           const std::int64_t last = std::min(call.count, first + end - begin);
                           move_points(o, first, last);
                           begin += last - first;
                         }
                       });
}

}  // namespace

void select(const SelectCall& call) {
  with_any_width(itemsize(call.dtype), [&](auto width) {
    using T = decltype(width);
    call.writes ? run<true, T>(call) : run<false, T>(call);
  });
}

}  // namespace extensor::cpu
