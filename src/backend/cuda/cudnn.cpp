// cuDNN's graphs, built through its frontend. A graph is built once for every kind of call and
// kept. Engines that cuDNN marks as not deterministic, or that accumulate in halves, are excluded.
#include "backend/cuda/cudnn.h"

#if __has_include(<cudnn_frontend.h>) && __has_include(<cudnn.h>)

#define CUDNN_FRONTEND_SKIP_JSON_LIB
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/cuda/context.h"
#include "backend/cuda/libraries.h"
#include "extensor/error.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}

namespace extensor::backend::cuda {

namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;
using Key = std::vector<std::int64_t>;
using Pointers = std::unordered_map<std::int64_t, void*>;

constexpr std::int64_t most_workspace = std::int64_t{512} << 20;
constexpr std::size_t most_graphs = 4096;

struct BuiltGraph {
  std::shared_ptr<fe::graph::Graph> graph;  // null if cuDNN refused it
  std::int64_t workspace = 0;
};

struct CudnnDevice {
  cudnnHandle_t handle = nullptr;
  cudaStream_t stream = nullptr;
};

struct State {
  std::mutex mutex;
  bool tried = false, available = false;
  decltype(&cudnnSetStream) set_stream = nullptr;
  std::map<int, CudnnDevice> devices;
  std::map<Key, BuiltGraph> graphs;
};
State& state() {
  static State* kept = new State;  // never freed: CUDA may be gone when static objects are
  return *kept;
}

void open(State& kept) {
  kept.tried = true;
  // The frontend opens the runtime by this name, which finds the library that is already open.
  open_library("libcudart.so.13");
  void* library = open_library("libcudnn.so.9");
  if (library == nullptr) return;
  fe::cudnn_dlhandle = library;
  kept.set_stream = reinterpret_cast<decltype(&cudnnSetStream)>(dlsym(library, "cudnnSetStream"));
  // Earlier versions lack engines for Hopper, or their deterministic form.
  constexpr std::size_t oldest = 90500;
  kept.available = kept.set_stream != nullptr && fe::detail::get_backend_version() >= oldest;
}

// The handle for the current device and stream; null without cuDNN.
cudnnHandle_t handle_of(State& kept) {
  if (!kept.tried) open(kept);
  if (!kept.available) return nullptr;
  CudnnDevice& device = kept.devices[current_device()];
  if (device.handle == nullptr) {
    if (fe::detail::create_handle(&device.handle) != CUDNN_STATUS_SUCCESS) {
      kept.available = false;
      return nullptr;
    }
  }
  if (device.stream != stream()) {
    if (kept.set_stream(device.handle, stream()) != CUDNN_STATUS_SUCCESS) return nullptr;
    device.stream = stream();
  }
  return device.handle;
}

fe::DataType_t type_of(DType dtype) {
  return dtype == DType::float16 ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16;
}

std::shared_ptr<fe::graph::Graph> make_graph(DType dtype) {
  auto graph = std::make_shared<fe::graph::Graph>();
  graph->set_io_data_type(type_of(dtype))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  return graph;
}

// Chooses the first allowed engine of cuDNN's heuristic, which depends on the graph alone.
bool build(fe::graph::Graph& graph, cudnnHandle_t handle, bool is_attention) {
  if (graph.validate().is_bad() || graph.build_operation_graph(handle).is_bad() ||
      graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}).is_bad()) {
    return false;
  }
  // Attention is told to be deterministic; cuDNN marks its engines all the same.
  if (!is_attention) {
    graph.deselect_numeric_notes({fe::NumericalNote_t::NONDETERMINISTIC,
                                  fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION,
                                  fe::NumericalNote_t::WINOGRAD, fe::NumericalNote_t::FFT});
  }
  graph.deselect_workspace_greater_than(most_workspace);
  return graph.check_support().is_good() &&
         graph.build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE).is_good();
}

// Runs the graph of a key. `make` builds it on first use and returns null if the call does not
// suit.
template <class Make>
bool run(Key key, bool is_attention, Pointers pointers, const char* operation, const Make& make) {
  State& kept = state();
  const std::lock_guard lock(kept.mutex);
  try {
    const cudnnHandle_t handle = handle_of(kept);
    if (handle == nullptr) return false;
    key.push_back(current_device());
    if (kept.graphs.size() >= most_graphs) kept.graphs.clear();
    const auto [entry, is_new] = kept.graphs.try_emplace(std::move(key));
    BuiltGraph& built = entry->second;
    if (is_new) {
      std::shared_ptr<fe::graph::Graph> graph = make();
      if (build(*graph, handle, is_attention) &&
          graph->get_workspace_size(built.workspace).is_good()) {
        built.graph = std::move(graph);
      }
    }
    if (built.graph == nullptr) return false;
    std::optional<Scratch> workspace;
    if (built.workspace > 0) {
      workspace.emplace(static_cast<std::size_t>(built.workspace), operation);
    }
    if (built.graph->execute(handle, pointers, workspace ? workspace->as<void>() : nullptr)
            .is_good()) {
      return true;
    }
    built.graph = nullptr;
    cudaGetLastError();  // the call is computed by another kernel
    return false;
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {  // of the frontend: a library lacks a function, for example
    kept.available = false;
    return false;
  }
}

Tensor tensor(fe::graph::Graph& graph, std::int64_t uid, std::vector<std::int64_t> sizes,
              std::vector<std::int64_t> strides) {
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_name("t" + std::to_string(uid))
                          .set_uid(uid)
                          .set_dim(std::move(sizes))
                          .set_stride(std::move(strides)));
}
void set_output(const Tensor& out, std::int64_t uid, std::vector<std::int64_t> sizes,
                std::vector<std::int64_t> strides) {
  out->set_output(true).set_uid(uid).set_dim(std::move(sizes)).set_stride(std::move(strides));
}

// ---- convolution

// [batch, height, width, channels] in the order batch, channels, height, width.
struct ImageLayout {
  std::vector<std::int64_t> sizes, strides;
  ImageLayout(std::int64_t batch, std::int64_t channels, std::int64_t height, std::int64_t width)
      : sizes{batch, channels, height, width},
        strides{height * width * channels, 1, width * channels, channels} {}
};

// ---- attention

// The batch of a call as [batch, heads].
struct Heads {
  std::int64_t batch, heads;
};

// Adopts the heads of an operand with two levels. Returns false if they differ.
bool join(Heads& heads, std::int64_t total, const BatchOffsets& offsets) {
  if (offsets.levels <= 1) return true;
  if (offsets.levels > 2 || total % offsets.sizes[1] != 0) return false;
  if (heads.heads != 0 && heads.heads != offsets.sizes[1]) return false;
  heads.heads = offsets.sizes[1];
  return true;
}

// The layout of [batch, heads, rows, width]. Returns false if cuDNN cannot read it.
struct HeadLayout {
  std::vector<std::int64_t> sizes, strides;
};
bool find_layout(HeadLayout& layout, const Heads& heads, const void* data,
                 const BatchOffsets& offsets, std::int64_t row_stride, std::int64_t rows,
                 std::int64_t width) {
  std::int64_t batch_stride = 0, head_stride = 0;
  if (offsets.levels == 2) {
    batch_stride = offsets.strides[0];
    head_stride = offsets.strides[1];
  } else if (offsets.levels == 1) {
    batch_stride = offsets.strides[0] * heads.heads;
    head_stride = offsets.strides[0];
  } else if (heads.batch * heads.heads > 1) {
    return false;
  } else {
    batch_stride = head_stride = rows * row_stride;
  }
  constexpr std::int64_t unit = 8;  // halves in 16 bytes
  for (const std::int64_t stride : {batch_stride, head_stride, row_stride}) {
    if (stride <= 0 || stride % unit != 0) return false;
  }
  if (reinterpret_cast<std::uintptr_t>(data) % 16 != 0) return false;
  layout.sizes = {heads.batch, heads.heads, rows, width};
  layout.strides = {batch_stride, head_stride, row_stride, 1};
  return true;
}

bool suits_attention(const AttentionCall& call) {
  constexpr std::int64_t least_rows = 64, widest = 128;
  return is_half(call.dtype) && call.mask.data == nullptr && call.queries >= least_rows &&
         call.keys >= least_rows && call.width % 8 == 0 && call.width > 0 && call.width <= widest &&
         call.value_width % 8 == 0 && call.value_width > 0 && call.value_width <= widest &&
         call.batch <= (1 << 24) && (!call.causal || call.queries <= call.keys);
}

void append(Key& key, const std::vector<std::int64_t>& numbers) {
  key.insert(key.end(), numbers.begin(), numbers.end());
}
void append(Key& key, const HeadLayout& layout) {
  append(key, layout.sizes);
  append(key, layout.strides);
}
std::int64_t bits_of(double value) {
  std::int64_t bits;
  static_assert(sizeof(bits) == sizeof(value));
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}

void* address(const std::byte* data) { return const_cast<std::byte*>(data); }

// Of the saved logsumexp, dense [batch, heads, queries, 1] of float32.
Tensor statistics(fe::graph::Graph& graph, std::int64_t uid, const Heads& heads,
                  std::int64_t queries) {
  Tensor result = tensor(graph, uid, {heads.batch, heads.heads, queries, 1},
                         {heads.heads * queries, queries, 1, 1});
  result->set_data_type(fe::DataType_t::FLOAT);
  return result;
}

}  // namespace

bool convolve_with_cudnn(const CudnnConvolution& call) {
  const ConvolutionShape& s = call.shape;
  if (!is_half(call.dtype) || s.padding_height < 0 || s.padding_width < 0 || s.batch == 0 ||
      s.patch() == 0 || s.out_channels == 0 || s.out_pixels() == 0 || s.in_pixels() == 0 ||
      (call.bias != nullptr && call.op != ConvolutionOp::forward)) {
    return false;
  }
  for (const std::byte* data : {call.x, call.weight, call.y}) {
    if (reinterpret_cast<std::uintptr_t>(data) % 16 != 0) return false;
  }
  const Key key{static_cast<std::int64_t>(call.op),
                static_cast<std::int64_t>(call.dtype),
                call.bias != nullptr,
                s.batch,
                s.groups,
                s.in_channels,
                s.out_channels,
                s.in_height,
                s.in_width,
                s.out_height,
                s.out_width,
                s.kernel_height,
                s.kernel_width,
                s.stride_height,
                s.stride_width,
                s.padding_height,
                s.padding_width,
                s.dilation_height,
                s.dilation_width};
  const auto make = [&] {
    auto graph = make_graph(call.dtype);
    const ImageLayout x(s.batch, s.groups * s.in_channels, s.in_height, s.in_width);
    const ImageLayout w(s.groups * s.out_channels, s.in_channels, s.kernel_height, s.kernel_width);
    const ImageLayout y(s.batch, s.groups * s.out_channels, s.out_height, s.out_width);
    const auto with_window = [&](auto options) {
      options.set_padding({s.padding_height, s.padding_width})
          .set_stride({s.stride_height, s.stride_width})
          .set_dilation({s.dilation_height, s.dilation_width});
      return options;
    };
    switch (call.op) {
      case ConvolutionOp::forward: {
        Tensor sums = graph->conv_fprop(tensor(*graph, 1, x.sizes, x.strides),
                                        tensor(*graph, 2, w.sizes, w.strides),
                                        with_window(fe::graph::Conv_fprop_attributes()));
        if (call.bias != nullptr) {  // added before the result is rounded
          const std::int64_t channels = s.groups * s.out_channels;
          sums->set_dim(y.sizes).set_stride(y.strides);
          sums = graph->pointwise(
              sums, tensor(*graph, 4, {1, channels, 1, 1}, {channels, 1, channels, channels}),
              fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
        }
        set_output(sums, 3, y.sizes, y.strides);
        break;
      }
      case ConvolutionOp::input_gradient:
        set_output(graph->conv_dgrad(tensor(*graph, 3, y.sizes, y.strides),
                                     tensor(*graph, 2, w.sizes, w.strides),
                                     with_window(fe::graph::Conv_dgrad_attributes())),
                   1, x.sizes, x.strides);
        break;
      case ConvolutionOp::weight_gradient:
        set_output(graph->conv_wgrad(tensor(*graph, 3, y.sizes, y.strides),
                                     tensor(*graph, 1, x.sizes, x.strides),
                                     with_window(fe::graph::Conv_wgrad_attributes())),
                   2, w.sizes, w.strides);
        break;
    }
    return graph;
  };
  Pointers pointers{{1, call.x}, {2, call.weight}, {3, call.y}};
  if (call.bias != nullptr) pointers.emplace(4, address(call.bias));
  return run(key, false, std::move(pointers), "convolution", make);
}

bool attend_with_cudnn(const AttentionCall& call) {
  if (!suits_attention(call)) return false;
  Heads heads{1, 0};
  if (!join(heads, call.batch, call.q.offsets) || !join(heads, call.batch, call.k.offsets) ||
      !join(heads, call.batch, call.v.offsets) || !join(heads, call.batch, call.out.offsets)) {
    return false;
  }
  if (heads.heads == 0) heads.heads = 1;
  heads.batch = call.batch / heads.heads;
  HeadLayout q, k, v, out;
  if (!find_layout(q, heads, call.q.data, call.q.offsets, call.q.row_stride, call.queries,
                   call.width) ||
      !find_layout(k, heads, call.k.data, call.k.offsets, call.k.row_stride, call.keys,
                   call.width) ||
      !find_layout(v, heads, call.v.data, call.v.offsets, call.v.row_stride, call.keys,
                   call.value_width) ||
      !find_layout(out, heads, call.out.data, call.out.offsets, call.out.row_stride, call.queries,
                   call.value_width)) {
    return false;
  }
  Key key{100, static_cast<std::int64_t>(call.dtype), call.causal, call.logsumexp != nullptr,
          bits_of(call.scale)};
  for (const HeadLayout* layout : {&q, &k, &v, &out}) append(key, *layout);
  const auto make = [&] {
    auto graph = make_graph(call.dtype);
    auto options = fe::graph::SDPA_attributes()
                       .set_name("attention")
                       .set_generate_stats(call.logsumexp != nullptr)
                       .set_attn_scale(static_cast<float>(call.scale));
    if (call.causal) options.set_causal_mask(true);
    const auto [o, stats] =
        graph->sdpa(tensor(*graph, 1, q.sizes, q.strides), tensor(*graph, 2, k.sizes, k.strides),
                    tensor(*graph, 3, v.sizes, v.strides), options);
    set_output(o, 4, out.sizes, out.strides);
    if (call.logsumexp != nullptr) {
      set_output(stats, 5, {heads.batch, heads.heads, call.queries, 1},
                 {heads.heads * call.queries, call.queries, 1, 1});
      stats->set_data_type(fe::DataType_t::FLOAT);
    }
    return graph;
  };
  Pointers pointers{{1, address(call.q.data)},
                    {2, address(call.k.data)},
                    {3, address(call.v.data)},
                    {4, call.out.data}};
  if (call.logsumexp != nullptr) pointers.emplace(5, call.logsumexp);
  return run(std::move(key), true, std::move(pointers), "scaled_dot_product_attention", make);
}

bool attend_backward_with_cudnn(const AttentionBackwardCall& call) {
  const AttentionCall& forward = call.forward;
  if (!suits_attention(forward) || call.grad_mask != nullptr || forward.logsumexp == nullptr) {
    return false;
  }
  Heads heads{1, 0};
  for (const BatchOffsets* offsets :
       {&forward.q.offsets, &forward.k.offsets, &forward.v.offsets, &forward.out.offsets,
        &call.grad_output.offsets, &call.grad_q.offsets, &call.grad_k.offsets,
        &call.grad_v.offsets}) {
    if (!join(heads, forward.batch, *offsets)) return false;
  }
  if (heads.heads == 0) heads.heads = 1;
  heads.batch = forward.batch / heads.heads;
  HeadLayout q, k, v, out, g, grad_q, grad_k, grad_v;
  const auto find = [&](HeadLayout& layout, const auto& x, std::int64_t rows, std::int64_t width) {
    return find_layout(layout, heads, x.data, x.offsets, x.row_stride, rows, width);
  };
  if (!find(q, forward.q, forward.queries, forward.width) ||
      !find(k, forward.k, forward.keys, forward.width) ||
      !find(v, forward.v, forward.keys, forward.value_width) ||
      !find(out, forward.out, forward.queries, forward.value_width) ||
      !find(g, call.grad_output, forward.queries, forward.value_width) ||
      !find(grad_q, call.grad_q, forward.queries, forward.width) ||
      !find(grad_k, call.grad_k, forward.keys, forward.width) ||
      !find(grad_v, call.grad_v, forward.keys, forward.value_width)) {
    return false;
  }
  Key key{101, static_cast<std::int64_t>(forward.dtype), forward.causal, bits_of(forward.scale)};
  for (const HeadLayout* layout : {&q, &k, &v, &out, &g, &grad_q, &grad_k, &grad_v}) {
    append(key, *layout);
  }
  const auto make = [&] {
    auto graph = make_graph(forward.dtype);
    auto options = fe::graph::SDPA_backward_attributes()
                       .set_name("attention_backward")
                       .set_attn_scale(static_cast<float>(forward.scale))
                       .set_deterministic_algorithm(true);
    if (forward.causal) options.set_causal_mask(true);
    const auto [dq, dk, dv] = graph->sdpa_backward(
        tensor(*graph, 1, q.sizes, q.strides), tensor(*graph, 2, k.sizes, k.strides),
        tensor(*graph, 3, v.sizes, v.strides), tensor(*graph, 4, out.sizes, out.strides),
        tensor(*graph, 6, g.sizes, g.strides), statistics(*graph, 5, heads, forward.queries),
        options);
    set_output(dq, 7, grad_q.sizes, grad_q.strides);
    set_output(dk, 8, grad_k.sizes, grad_k.strides);
    set_output(dv, 9, grad_v.sizes, grad_v.strides);
    return graph;
  };
  return run(std::move(key), true,
             {{1, address(forward.q.data)},
              {2, address(forward.k.data)},
              {3, address(forward.v.data)},
              {4, forward.out.data},
              {5, forward.logsumexp},
              {6, address(call.grad_output.data)},
              {7, call.grad_q.data},
              {8, call.grad_k.data},
              {9, call.grad_v.data}},
             "scaled_dot_product_attention_backward", make);
}

}  // namespace extensor::backend::cuda

#else  // built without the headers of cuDNN's frontend

namespace extensor::backend::cuda {

bool convolve_with_cudnn(const CudnnConvolution&) { return false; }
bool attend_with_cudnn(const AttentionCall&) { return false; }
bool attend_backward_with_cudnn(const AttentionBackwardCall&) { return false; }

}  // namespace extensor::backend::cuda

#endif
