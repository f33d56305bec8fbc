// Convolution. Images are computed as [batch, height, width, channels]. cuDNN computes large
// convolutions of halves. Otherwise patches are copied into rows, part by part, and multiplied with
// the filters. Groups of few channels are computed directly.
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>

#include "backend/cuda/context.h"
#include "backend/cuda/cudnn.h"
#include "backend/cuda/kernels.h"
#include "backend/cuda/product.h"

namespace extensor::backend::cuda {

namespace {

using Shape = ConvolutionShape;

constexpr const char* operation = "convolution";
constexpr int threads = 256;
constexpr std::int64_t most_patch_bytes = std::int64_t{256} << 20;

template <class Index>
__device__ __forceinline__ Index first_element() {
  return static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
}
template <class Index>
__device__ __forceinline__ Index element_step() {
  return static_cast<Index>(gridDim.x) * blockDim.x;
}

bool fits_32_bits(std::int64_t numel) {
  // A grid's step past the end must not wrap.
  return numel <= std::numeric_limits<std::int32_t>::max();
}

// ---- layouts

constexpr int square = 32;
constexpr int square_rows = 8;

// to[b, j, i] = from[b, i, j], rounded if the types differ.
template <class From, class To>
__global__ void transpose(const From* from, To* to, std::int64_t batch, std::int64_t rows,
                          std::int64_t columns) {
  __shared__ From kept[square][square + 1];
  const std::int64_t across = (columns + square - 1) / square, down = (rows + square - 1) / square;
  for (std::int64_t work = blockIdx.x; work < batch * across * down; work += gridDim.x) {
    const std::int64_t first_column = work % across * square;
    const std::int64_t first_row = work / across % down * square;
    const std::int64_t matrix = work / (across * down) * rows * columns;
    for (int i = threadIdx.y; i < square; i += square_rows) {
      const std::int64_t row = first_row + i, column = first_column + threadIdx.x;
      if (row < rows && column < columns) {
        kept[i][threadIdx.x] = from[matrix + row * columns + column];
      }
    }
    __syncthreads();
    for (int i = threadIdx.y; i < square; i += square_rows) {
      const std::int64_t column = first_column + i, row = first_row + threadIdx.x;
      if (row < rows && column < columns) {
        const From value = kept[threadIdx.x][i];
        if constexpr (std::is_same_v<From, To>) {
          to[matrix + column * rows + row] = value;
        } else {
          to[matrix + column * rows + row] = store_from_compute<To>(load_as_compute(value));
        }
      }
    }
    __syncthreads();
  }
}

template <class From, class To>
void run_transpose(const From* from, To* to, std::int64_t batch, std::int64_t rows,
                   std::int64_t columns) {
  if (batch * rows * columns == 0) return;
  const std::int64_t squares =
      batch * ((rows + square - 1) / square) * ((columns + square - 1) / square);
  transpose<<<blocks_for(squares * square * square_rows, square * square_rows),
              dim3(square, square_rows), 0, stream()>>>(from, to, batch, rows, columns);
  launched(operation);
}

// An operand in the layout that the kernels read; a copy if it is stored in the other one.
class LayoutCopy {
 public:
  LayoutCopy(std::byte* data, DType dtype) : data_(data), dtype_(dtype) {}

  std::byte* data() const { return data_; }
  // Makes room for [batch, columns, rows].
  void make_copy(std::int64_t batch, std::int64_t rows, std::int64_t columns) {
    original_ = data_;
    batch_ = batch;
    rows_ = rows;
    columns_ = columns;
    memory_.emplace(std::max<std::size_t>(1, static_cast<std::size_t>(batch * rows * columns)) *
                        itemsize(dtype_),
                    operation);
    data_ = memory_->as();
  }
  // The copy from the original, [batch, rows, columns], and back.
  void read() const { move(original_, data_, rows_, columns_); }
  void write() const {
    if (memory_) move(data_, original_, columns_, rows_);
  }

 private:
  void move(const std::byte* from, std::byte* to, std::int64_t rows, std::int64_t columns) const {
    with_bits_type(dtype_, [&]<class T>() {
      run_transpose(reinterpret_cast<const T*>(from), reinterpret_cast<T*>(to), batch_, rows,
                    columns);
    });
  }

  std::byte* data_;
  std::byte* original_ = nullptr;
  DType dtype_;
  std::int64_t batch_ = 0, rows_ = 0, columns_ = 0;
  std::optional<Scratch> memory_;
};

// ---- patches

// patches[row, group, tap, channel] for the pixels first … first + rows of y; 0 outside x. `units`
// of V make up the channels of a group.
template <class V, class Index>
__global__ void __launch_bounds__(threads)
    copy_patches(const Shape s, const V* x, V* patches, std::int64_t first, std::int64_t rows,
                 std::int64_t units) {
  const auto groups = static_cast<Index>(s.groups), per_group = static_cast<Index>(units);
  const auto taps = static_cast<Index>(s.taps()), width = static_cast<Index>(s.kernel_width);
  const std::int64_t total = rows * s.groups * s.taps() * units;
  for (std::int64_t i = first_element<std::int64_t>(); i < total;
       i += element_step<std::int64_t>()) {
    Index rest = static_cast<Index>(i);
    const Index unit = rest % per_group;
    rest /= per_group;
    const Index tap = rest % taps;
    rest /= taps;
    const Index group = rest % groups;
    const std::int64_t pixel = first + static_cast<std::int64_t>(rest / groups);
    const std::int64_t line = pixel / s.out_width, column = pixel % s.out_width;
    const std::int64_t image = line / s.out_height, row = line % s.out_height;
    const std::int64_t from_row = row * s.stride_height +
                                  static_cast<std::int64_t>(tap / width) * s.dilation_height -
                                  s.padding_height;
    const std::int64_t from_column = column * s.stride_width +
                                     static_cast<std::int64_t>(tap % width) * s.dilation_width -
                                     s.padding_width;
    V value{};
    if (from_row >= 0 && from_row < s.in_height && from_column >= 0 && from_column < s.in_width) {
      value = x[((image * s.in_height + from_row) * s.in_width + from_column) * s.groups * units +
                static_cast<std::int64_t>(group) * units + unit];
    }
    patches[i] = value;
  }
}

template <class V>
void run_copy_patches(const Shape& s, const std::byte* x, std::byte* patches, std::int64_t first,
                      std::int64_t rows, std::int64_t units) {
  const std::int64_t total = rows * s.groups * s.taps() * units;
  if (total == 0) return;
  const auto launch = [&](auto kernel) {
    kernel<<<blocks_for(total, threads), threads, 0, stream()>>>(
        s, reinterpret_cast<const V*>(x), reinterpret_cast<V*>(patches), first, rows, units);
    launched(operation);
  };
  if (fits_32_bits(total)) return launch(copy_patches<V, std::uint32_t>);
  launch(copy_patches<V, std::int64_t>);
}

void copy_patches_of(const Shape& s, DType dtype, const std::byte* x, std::byte* patches,
                     std::int64_t first, std::int64_t rows) {
  const auto size = static_cast<std::int64_t>(itemsize(dtype));
  const std::int64_t bytes = s.in_channels * size;
  if (bytes % 16 == 0 && reinterpret_cast<std::uintptr_t>(x) % 16 == 0) {
    return run_copy_patches<uint4>(s, x, patches, first, rows, bytes / 16);
  }
  with_bits_type(dtype, [&]<class T>() {
    if constexpr (sizeof(T) > 1) run_copy_patches<T>(s, x, patches, first, rows, s.in_channels);
  });
}

// x[image, row, column, channel] = the sum of the gradients of its copies in the patches of images
// first … first + images, plus a bias per channel.
template <class T>
__global__ void __launch_bounds__(threads)
    add_patches(const Shape s, const Compute<T>* patches, const T* bias, T* x, std::int64_t first,
                std::int64_t images) {
  const std::int64_t channels = s.groups * s.in_channels, patch = s.taps() * s.in_channels;
  const std::int64_t total = images * s.in_pixels() * channels;
  for (std::int64_t i = first_element<std::int64_t>(); i < total;
       i += element_step<std::int64_t>()) {
    const std::int64_t channel = i % channels, pixel = i / channels;
    const std::int64_t column = pixel % s.in_width, line = pixel / s.in_width;
    const std::int64_t row = line % s.in_height, image = line / s.in_height;
    const std::int64_t group = channel / s.in_channels, own = channel % s.in_channels;
    Compute<T> sum = bias != nullptr ? load_as_compute(bias[channel]) : Compute<T>(0);
    for (std::int64_t r = 0; r < s.kernel_height; ++r) {
      const std::int64_t shifted_row = row + s.padding_height - r * s.dilation_height;
      if (shifted_row < 0 || shifted_row % s.stride_height != 0) continue;
      const std::int64_t out_row = shifted_row / s.stride_height;
      if (out_row >= s.out_height) continue;
      for (std::int64_t c = 0; c < s.kernel_width; ++c) {
        const std::int64_t shifted = column + s.padding_width - c * s.dilation_width;
        if (shifted < 0 || shifted % s.stride_width != 0) continue;
        const std::int64_t out_column = shifted / s.stride_width;
        if (out_column >= s.out_width) continue;
        const std::int64_t out_pixel = (image * s.out_height + out_row) * s.out_width + out_column;
        sum += patches[(out_pixel * s.groups + group) * patch +
                       (r * s.kernel_width + c) * s.in_channels + own];
      }
    }
    x[first * s.in_pixels() * channels + i] = store_from_compute<T>(sum);
  }
}

// to[row, j] = from[row, j], or 0 for j ≥ from_width.
template <class T>
__global__ void __launch_bounds__(threads)
    resize_rows(const T* from, std::int64_t from_width, T* to, std::int64_t to_width,
                std::int64_t rows) {
  for (std::int64_t i = first_element<std::int64_t>(); i < rows * to_width;
       i += element_step<std::int64_t>()) {
    const std::int64_t row = i / to_width, j = i % to_width;
    to[i] = j < from_width ? from[row * from_width + j] : T{};
  }
}

// ---- products

// One tap at stride 1 without padding: the image is the matrix of patches.
bool is_pointwise(const Shape& s) {
  return s.taps() == 1 && s.stride_height == 1 && s.stride_width == 1 && s.padding_height == 0 &&
         s.padding_width == 0 && s.in_height == s.out_height && s.in_width == s.out_width;
}

class Products {
 public:
  explicit Products(const ConvolutionCall& call)
      : call_(call),
        s_(call.shape),
        size_(static_cast<std::int64_t>(itemsize(call.dtype))),
        wide_(is_half(call.dtype) ? DType::float32 : call.dtype),
        patch_(s_.taps() * s_.in_channels),
        x_channels_(s_.groups * s_.in_channels),
        y_channels_(s_.groups * s_.out_channels),
        x_(call.x, call.dtype),
        weight_(call.weight, call.dtype),
        y_(call.y, call.dtype) {
    if (!call.channels_last) {
      if (s_.in_pixels() > 1) x_.make_copy(s_.batch, x_channels_, s_.in_pixels());
      if (s_.out_pixels() > 1) y_.make_copy(s_.batch, y_channels_, s_.out_pixels());
    }
    if (s_.taps() > 1 && call.op != ConvolutionOp::weight_gradient) {
      weight_.make_copy(y_channels_, s_.in_channels, s_.taps());
      weight_.read();
    }
    copied_x_ = x_.data() != call.x;
    copied_y_ = y_.data() != call.y;
    if (copied_x_ && call.op != ConvolutionOp::input_gradient) x_.read();
    if (copied_y_ && call.op != ConvolutionOp::forward) y_.read();
  }

  void run() {
    if (run_cudnn()) return;
    switch (call_.op) {
      case ConvolutionOp::forward:
        forward();
        return y_.write();
      case ConvolutionOp::input_gradient:
        input_gradient();
        return x_.write();
      case ConvolutionOp::weight_gradient:
        return weight_gradient();
    }
  }

 private:
  std::int64_t rows() const { return s_.batch * s_.out_pixels(); }
  // Rows of patches that are computed at a time, of `size` bytes per element.
  std::int64_t rows_of_part(std::int64_t size) const {
    const std::int64_t row = std::max<std::int64_t>(1, s_.groups * patch_ * size);
    return std::clamp<std::int64_t>(most_patch_bytes / row, 1, std::max<std::int64_t>(1, rows()));
  }

  Product product(std::int64_t m, std::int64_t n, std::int64_t k) const {
    Product result{};
    result.dtype = result.result = call_.dtype;
    result.m = m;
    result.n = n;
    result.k = k;
    result.batch = s_.groups;
    return result;
  }
  // One product for all groups, or one each, since each has a bias of its own.
  void multiply_groups(const Product& all, const std::byte* bias) const {
    if (bias == nullptr || s_.groups == 1) {
      Product one = all;
      one.bias = bias;
      return multiply(one, operation);
    }
    for (std::int64_t g = 0; g < s_.groups; ++g) {
      Product one = all;
      one.batch = 1;
      one.a.data += all.a.offsets[g] * size_;
      one.b.data += all.b.offsets[g] * size_;
      one.c += all.c_offsets[g] * size_;
      one.a.offsets = one.b.offsets = one.c_offsets = BatchOffsets(0);
      one.bias = bias + g * all.n * size_;
      multiply(one, operation);
    }
  }

  // The patches of `count` pixels as a matrix; in `memory` unless they are x itself.
  Matrix patches(std::int64_t first, std::int64_t count, std::byte* memory) const {
    Matrix matrix;
    matrix.row_stride = s_.groups * patch_;
    matrix.column_stride = 1;
    matrix.offsets = BatchOffsets(patch_);
    if (is_pointwise(s_)) {
      matrix.data = x_.data() + first * x_channels_ * size_;
    } else {
      copy_patches_of(s_, call_.dtype, x_.data(), memory, first, count);
      matrix.data = memory;
    }
    return matrix;
  }
  std::unique_ptr<Scratch> patch_memory(std::int64_t count) const {
    if (is_pointwise(s_)) return nullptr;
    return std::make_unique<Scratch>(
        static_cast<std::size_t>(std::max<std::int64_t>(16, count * s_.groups * patch_ * size_)),
        operation);
  }

  // Building a graph of cuDNN pays for large convolutions. Of one tap it has nothing to gain.
  bool suits_cudnn() const {
    constexpr double much_work = 1 << 24;  // multiply-adds
    const double work = static_cast<double>(rows()) * static_cast<double>(y_channels_) *
                        static_cast<double>(patch_);
    return is_half(call_.dtype) && work >= much_work && !(is_pointwise(s_) && s_.groups == 1);
  }

  bool run_cudnn() {
    if (!suits_cudnn()) return false;
    CudnnConvolution cudnn{call_.op,       call_.dtype, s_,        x_.data(),
                           weight_.data(), y_.data(),   call_.bias};
    LayoutCopy filters(call_.weight, call_.dtype);
    if (call_.op == ConvolutionOp::weight_gradient && s_.taps() > 1) {
      filters.make_copy(y_channels_, s_.in_channels, s_.taps());
      cudnn.weight = filters.data();
    }
    // Tensor cores read 8 channels at a time: complete the few of an image.
    constexpr std::int64_t together = 8;
    const std::int64_t padded = (s_.in_channels + together - 1) / together * together;
    const bool is_padded = s_.groups == 1 && padded != s_.in_channels;
    const std::int64_t x_rows = s_.batch * s_.in_pixels(), weight_rows = y_channels_ * s_.taps();
    std::byte *const x_result = cudnn.x, *const weight_result = cudnn.weight;
    std::optional<Scratch> x, weight;
    if (is_padded) {
      cudnn.shape.in_channels = padded;
      x.emplace(static_cast<std::size_t>(x_rows * padded * size_), operation);
      weight.emplace(static_cast<std::size_t>(weight_rows * padded * size_), operation);
      if (call_.op != ConvolutionOp::input_gradient) {
        resize(cudnn.x, s_.in_channels, x->as(), padded, x_rows);
      }
      if (call_.op != ConvolutionOp::weight_gradient) {
        resize(cudnn.weight, s_.in_channels, weight->as(), padded, weight_rows);
      }
      cudnn.x = x->as();
      cudnn.weight = weight->as();
    }
    if (!convolve_with_cudnn(cudnn)) return false;
    if (is_padded && call_.op == ConvolutionOp::input_gradient) {
      resize(cudnn.x, padded, x_result, s_.in_channels, x_rows);
    }
    if (is_padded && call_.op == ConvolutionOp::weight_gradient) {
      resize(cudnn.weight, padded, weight_result, s_.in_channels, weight_rows);
    }
    switch (call_.op) {
      case ConvolutionOp::forward:
        y_.write();
        break;
      case ConvolutionOp::input_gradient:
        x_.write();
        break;
      case ConvolutionOp::weight_gradient:
        filters.write();
        break;
    }
    return true;
  }

  void resize(const std::byte* from, std::int64_t from_width, std::byte* to, std::int64_t to_width,
              std::int64_t row_count) const {
    using T = std::uint16_t;  // of a half
    resize_rows<<<blocks_for(row_count * to_width, threads), threads, 0, stream()>>>(
        reinterpret_cast<const T*>(from), from_width, reinterpret_cast<T*>(to), to_width,
        row_count);
    launched(operation);
  }

  void forward() const {
    const std::int64_t step = is_pointwise(s_) ? rows() : rows_of_part(size_);
    const std::unique_ptr<Scratch> memory = patch_memory(step);
    for (std::int64_t first = 0; first < rows(); first += step) {
      const std::int64_t count = std::min(step, rows() - first);
      Product part = product(count, s_.out_channels, patch_);
      part.a = patches(first, count, memory ? memory->as() : nullptr);
      part.b = {weight_.data(), 1, patch_, BatchOffsets(s_.out_channels * patch_)};
      part.c = y_.data() + first * y_channels_ * size_;
      part.c_row_stride = y_channels_;
      part.c_offsets = BatchOffsets(s_.out_channels);
      multiply_groups(part, call_.bias);
    }
  }

  // The gradients of the patches of whole images, then of x.
  void input_gradient() const {
    const bool direct = is_pointwise(s_);
    const auto wide_size = static_cast<std::int64_t>(itemsize(wide_));
    const std::int64_t pixels = std::max<std::int64_t>(1, s_.out_pixels());
    const std::int64_t step =
        direct ? s_.batch : std::max<std::int64_t>(1, rows_of_part(wide_size) / pixels);
    std::optional<Scratch> memory;
    if (!direct) {
      memory.emplace(static_cast<std::size_t>(
                         std::max<std::int64_t>(
                             1, std::min(step, s_.batch) * s_.out_pixels() * s_.groups * patch_) *
                         wide_size),
                     operation);
    }
    for (std::int64_t first = 0; first < s_.batch; first += step) {
      const std::int64_t images = std::min(step, s_.batch - first);
      Product part = product(images * s_.out_pixels(), patch_, s_.out_channels);
      part.a = {y_.data() + first * s_.out_pixels() * y_channels_ * size_, y_channels_, 1,
                BatchOffsets(s_.out_channels)};
      part.b = {weight_.data(), patch_, 1, BatchOffsets(s_.out_channels * patch_)};
      part.c_row_stride = s_.groups * patch_;
      part.c_offsets = BatchOffsets(patch_);
      if (direct) {
        part.c = x_.data();
        multiply_groups(part, call_.bias);
        continue;
      }
      part.result = wide_;
      part.c = memory->as();
      multiply(part, operation);
      const std::int64_t numel = images * s_.in_pixels() * x_channels_;
      with_float_type(call_.dtype, [&]<class T>() {
        add_patches<T><<<blocks_for(numel, threads), threads, 0, stream()>>>(
            s_, memory->as<Compute<T>>(), reinterpret_cast<const T*>(call_.bias),
            reinterpret_cast<T*>(x_.data()), first, images);
        launched(operation);
      });
    }
  }

  void weight_gradient() const {
    const std::int64_t numel = y_channels_ * patch_;
    // Filters are summed in the compute dtype and in the order of the patches.
    std::optional<Scratch> sums;
    const bool in_place = wide_ == call_.dtype && (s_.taps() == 1 || s_.in_channels == 1);
    if (!in_place) sums.emplace(static_cast<std::size_t>(numel) * itemsize(wide_), operation);
    std::byte* const to = in_place ? call_.weight : sums->as();
    const std::int64_t step =
        is_pointwise(s_) ? std::max<std::int64_t>(1, rows()) : rows_of_part(size_);
    const std::unique_ptr<Scratch> memory = patch_memory(step);
    std::int64_t first = 0;
    do {  // at least once: without a pixel, the gradient is 0
      const std::int64_t count = std::min(step, rows() - first);
      Product part = product(s_.out_channels, patch_, count);
      part.a = {y_.data() + first * y_channels_ * size_, 1, y_channels_,
                BatchOffsets(s_.out_channels)};
      part.b = patches(first, count, memory ? memory->as() : nullptr);
      part.result = wide_;
      part.c = to;
      part.c_row_stride = patch_;
      part.c_offsets = BatchOffsets(s_.out_channels * patch_);
      part.accumulate = first > 0;
      multiply(part, operation);
      first += step;
    } while (first < rows());
    if (in_place) return;
    with_float_type(call_.dtype, [&]<class T>() {
      run_transpose(sums->as<const Compute<T>>(), reinterpret_cast<T*>(call_.weight), y_channels_,
                    s_.taps(), s_.in_channels);
    });
  }

  const ConvolutionCall& call_;
  const Shape& s_;
  const std::int64_t size_;
  const DType wide_;  // in which sums are kept
  const std::int64_t patch_, x_channels_, y_channels_;
  LayoutCopy x_, weight_, y_;
  bool copied_x_ = false, copied_y_ = false;
};

// ---- groups of few channels

// Strides of an image [batch, channels, pixels] in elements.
struct ImageStrides {
  std::int64_t image, channel, pixel;
};
ImageStrides strides_of(bool channels_last, std::int64_t channels, std::int64_t pixels) {
  if (channels_last) return {channels * pixels, 1, channels};
  return {channels * pixels, pixels, 1};
}

// The element of [batch, channels, height, width] at offset i of the memory.
struct Element {
  std::int64_t image, channel, row, column;

  __device__ Element(std::int64_t i, bool channels_last, std::int64_t channels, std::int64_t height,
                     std::int64_t width) {
    if (channels_last) {
      channel = i % channels;
      i /= channels;
    }
    column = i % width;
    i /= width;
    row = i % height;
    i /= height;
    if (!channels_last) {
      channel = i % channels;
      i /= channels;
    }
    image = i;
  }
};

template <class T>
__global__ void __launch_bounds__(threads)
    direct_forward(const Shape s, bool channels_last, ImageStrides x_strides, const T* x,
                   const T* weight, const T* bias, T* y) {
  const std::int64_t channels = s.groups * s.out_channels;
  const std::int64_t total = s.batch * channels * s.out_pixels();
  for (std::int64_t i = first_element<std::int64_t>(); i < total;
       i += element_step<std::int64_t>()) {
    const Element at(i, channels_last, channels, s.out_height, s.out_width);
    const std::int64_t group = at.channel / s.out_channels;
    const T* from = x + at.image * x_strides.image + group * s.in_channels * x_strides.channel;
    const T* filter = weight + at.channel * s.patch();
    Compute<T> sum = bias != nullptr ? load_as_compute(bias[at.channel]) : Compute<T>(0);
    for (std::int64_t c = 0; c < s.in_channels; ++c) {
      for (std::int64_t r = 0; r < s.kernel_height; ++r) {
        const std::int64_t row =
            at.row * s.stride_height + r * s.dilation_height - s.padding_height;
        if (row < 0 || row >= s.in_height) continue;
        for (std::int64_t k = 0; k < s.kernel_width; ++k) {
          const std::int64_t column =
              at.column * s.stride_width + k * s.dilation_width - s.padding_width;
          if (column < 0 || column >= s.in_width) continue;
          sum += load_as_compute(filter[(c * s.kernel_height + r) * s.kernel_width + k]) *
                 load_as_compute(
                     from[c * x_strides.channel + (row * s.in_width + column) * x_strides.pixel]);
        }
      }
    }
    y[i] = store_from_compute<T>(sum);
  }
}

template <class T>
__global__ void __launch_bounds__(threads)
    direct_input_gradient(const Shape s, bool channels_last, ImageStrides y_strides, const T* y,
                          const T* weight, const T* bias, T* x) {
  const std::int64_t channels = s.groups * s.in_channels;
  const std::int64_t total = s.batch * channels * s.in_pixels();
  for (std::int64_t i = first_element<std::int64_t>(); i < total;
       i += element_step<std::int64_t>()) {
    const Element at(i, channels_last, channels, s.in_height, s.in_width);
    const std::int64_t group = at.channel / s.in_channels, own = at.channel % s.in_channels;
    const T* from = y + at.image * y_strides.image + group * s.out_channels * y_strides.channel;
    Compute<T> sum = bias != nullptr ? load_as_compute(bias[at.channel]) : Compute<T>(0);
    for (std::int64_t r = 0; r < s.kernel_height; ++r) {
      const std::int64_t shifted_row = at.row + s.padding_height - r * s.dilation_height;
      if (shifted_row < 0 || shifted_row % s.stride_height != 0) continue;
      const std::int64_t row = shifted_row / s.stride_height;
      if (row >= s.out_height) continue;
      for (std::int64_t k = 0; k < s.kernel_width; ++k) {
        const std::int64_t shifted = at.column + s.padding_width - k * s.dilation_width;
        if (shifted < 0 || shifted % s.stride_width != 0) continue;
        const std::int64_t column = shifted / s.stride_width;
        if (column >= s.out_width) continue;
        const std::int64_t pixel = (row * s.out_width + column) * y_strides.pixel;
        for (std::int64_t o = 0; o < s.out_channels; ++o) {
          const std::int64_t filter = (group * s.out_channels + o) * s.in_channels + own;
          sum += load_as_compute(weight[filter * s.taps() + r * s.kernel_width + k]) *
                 load_as_compute(from[o * y_strides.channel + pixel]);
        }
      }
    }
    x[i] = store_from_compute<T>(sum);
  }
}

// One block per element of the filters, of planes.
template <class T>
__global__ void __launch_bounds__(threads)
    direct_weight_gradient(const Shape s, const T* x, const T* y, T* weight) {
  __shared__ Compute<T> shared[threads];
  const std::int64_t total = s.groups * s.out_channels * s.patch();
  const std::int64_t pixels = s.out_pixels();
  for (std::int64_t i = blockIdx.x; i < total; i += gridDim.x) {
    const std::int64_t k = i % s.kernel_width, r = i / s.kernel_width % s.kernel_height;
    const std::int64_t own = i / s.taps() % s.in_channels, channel = i / s.patch();
    const std::int64_t group = channel / s.out_channels;
    const std::int64_t y_image = s.groups * s.out_channels * pixels;
    const std::int64_t x_image = s.groups * s.in_channels * s.in_pixels();
    const T* g = y + channel * pixels;
    const T* from = x + (group * s.in_channels + own) * s.in_pixels();
    Compute<T> sum = 0;
    for (std::int64_t at = threadIdx.x; at < s.batch * pixels; at += threads) {
      const std::int64_t image = at / pixels, pixel = at % pixels;
      const std::int64_t row =
          pixel / s.out_width * s.stride_height + r * s.dilation_height - s.padding_height;
      const std::int64_t column =
          pixel % s.out_width * s.stride_width + k * s.dilation_width - s.padding_width;
      if (row < 0 || row >= s.in_height || column < 0 || column >= s.in_width) continue;
      sum += load_as_compute(g[image * y_image + pixel]) *
             load_as_compute(from[image * x_image + row * s.in_width + column]);
    }
    shared[threadIdx.x] = sum;
    __syncthreads();
    for (int half = threads / 2; half > 0; half /= 2) {
      if (static_cast<int>(threadIdx.x) < half) shared[threadIdx.x] += shared[threadIdx.x + half];
      __syncthreads();
    }
    if (threadIdx.x == 0) weight[i] = store_from_compute<T>(shared[0]);
    __syncthreads();
  }
}

bool is_direct(const Shape& s) {
  constexpr std::int64_t few = 16;  // products of channels per group
  return s.groups > 1 && s.in_channels <= few && s.in_channels * s.out_channels <= few;
}

template <class T>
void run_direct(const ConvolutionCall& call) {
  const Shape& s = call.shape;
  const std::int64_t x_channels = s.groups * s.in_channels, y_channels = s.groups * s.out_channels;
  const T* bias = reinterpret_cast<const T*>(call.bias);
  const T* weight = reinterpret_cast<const T*>(call.weight);
  switch (call.op) {
    case ConvolutionOp::forward: {
      const std::int64_t numel = s.batch * y_channels * s.out_pixels();
      direct_forward<T><<<blocks_for(numel, threads), threads, 0, stream()>>>(
          s, call.channels_last, strides_of(call.channels_last, x_channels, s.in_pixels()),
          reinterpret_cast<const T*>(call.x), weight, bias, reinterpret_cast<T*>(call.y));
      return launched(operation);
    }
    case ConvolutionOp::input_gradient: {
      const std::int64_t numel = s.batch * x_channels * s.in_pixels();
      direct_input_gradient<T><<<blocks_for(numel, threads), threads, 0, stream()>>>(
          s, call.channels_last, strides_of(call.channels_last, y_channels, s.out_pixels()),
          reinterpret_cast<const T*>(call.y), weight, bias, reinterpret_cast<T*>(call.x));
      return launched(operation);
    }
    case ConvolutionOp::weight_gradient: {
      LayoutCopy x(call.x, call.dtype), y(call.y, call.dtype);
      if (call.channels_last) {
        x.make_copy(s.batch, s.in_pixels(), x_channels);
        x.read();
        y.make_copy(s.batch, s.out_pixels(), y_channels);
        y.read();
      }
      const std::int64_t numel = y_channels * s.patch();
      direct_weight_gradient<T><<<blocks_for(numel * threads, threads), threads, 0, stream()>>>(
          s, reinterpret_cast<const T*>(x.data()), reinterpret_cast<const T*>(y.data()),
          reinterpret_cast<T*>(call.weight));
      return launched(operation);
    }
  }
}

}  // namespace

void convolution(const ConvolutionCall& call) {
  const Shape& s = call.shape;
  const std::int64_t numel =
      call.op == ConvolutionOp::forward          ? s.batch * s.out_channels * s.out_pixels()
      : call.op == ConvolutionOp::input_gradient ? s.batch * s.in_channels * s.in_pixels()
                                                 : s.out_channels * s.patch();
  if (numel * s.groups == 0) return;
  if (is_direct(s)) {
    return with_float_type(call.dtype, [&]<class T>() { run_direct<T>(call); });
  }
  Products(call).run();
}

}  // namespace extensor::backend::cuda
