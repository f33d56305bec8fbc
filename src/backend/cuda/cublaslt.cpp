// A plan per kind of product holds cuBLASLt's descriptors and the algorithm that its heuristic puts
// first. The choice depends on shapes, dtypes and alignments only, and algorithms that add up
// partial sums in an arbitrary order are excluded, so results are reproducible.
#include "backend/cuda/cublaslt.h"

#include <cublasLt.h>

#include <cstring>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_map>

#include "backend/cuda/context.h"
#include "backend/cuda/libraries.h"
#include "core/check.h"

namespace extensor::backend::cuda {

namespace {

using detail::message;

constexpr std::size_t most_workspace = std::size_t{32} << 20;
constexpr std::size_t most_plans = 8192;

// The functions of the library that are used here.
#define EXTENSOR_CUBLASLT(X)              \
  X(cublasLtCreate)                       \
  X(cublasLtGetStatusString)              \
  X(cublasLtMatmul)                       \
  X(cublasLtMatmulAlgoGetHeuristic)       \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)          \
  X(cublasLtMatrixLayoutSetAttribute)

struct CublasLt {
#define EXTENSOR_DECLARE(name) decltype(&::name) name = nullptr;
  EXTENSOR_CUBLASLT(EXTENSOR_DECLARE)
#undef EXTENSOR_DECLARE
};

const CublasLt& library() {
  static const CublasLt loaded = [] {
    const RequiredLibrary opened("cuda: products of CUDA tensors need cuBLASLt",
                                 "libcublasLt.so.13", "nvidia-cublas");
    CublasLt result;
#define EXTENSOR_FIND(name) opened.find(result.name, #name);
    EXTENSOR_CUBLASLT(EXTENSOR_FIND)
#undef EXTENSOR_FIND
    return result;
  }();
  return loaded;
}

void check_status(cublasStatus_t status, const char* operation, const char* action) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError(
      message(operation, ": ", action, " failed: ", library().cublasLtGetStatusString(status)));
}

// Everything that the choice of an algorithm depends on. Compared byte by byte, so it has no
// padding.
struct Key {
  std::int64_t m, n, k, batch;
  std::int64_t a_leading, b_leading, c_leading, a_step, b_step, c_step;
  std::int32_t a_alignment, b_alignment, c_alignment, device;
  std::uint8_t dtype, result, a_transposed, b_transposed, bias, accumulate, tf32, unused;
};
static_assert(std::has_unique_object_representations_v<Key>);

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::uint64_t words[sizeof(Key) / 8], hash = 0x9e3779b97f4a7c15u;
    static_assert(sizeof(words) == sizeof(Key));
    std::memcpy(words, &key, sizeof(Key));
    for (const std::uint64_t word : words) {
      hash = (hash ^ word) * 0xff51afd7ed558ccdu;
      hash ^= hash >> 32;
    }
    return hash;
  }
};
struct KeyEqual {
  bool operator()(const Key& a, const Key& b) const {
    return std::memcmp(&a, &b, sizeof(Key)) == 0;
  }
};

// Descriptors are freed by the library's own functions.
class Plan {
 public:
  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    const CublasLt& lt = library();
    if (operation != nullptr) lt.cublasLtMatmulDescDestroy(operation);
    for (cublasLtMatrixLayout_t layout : {a, b, c}) {
      if (layout != nullptr) lt.cublasLtMatrixLayoutDestroy(layout);
    }
  }

  bool supported = false;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace = 0;
};

struct State {
  std::mutex mutex;
  std::unordered_map<int, cublasLtHandle_t> handles;  // by device
  std::unordered_map<Key, Plan, KeyHash, KeyEqual> plans;
};
State& state() {
  static State* kept = new State;  // never freed: CUDA may be gone when static objects are
  return *kept;
}

cublasLtHandle_t handle_of(State& state, int device, const char* operation) {
  cublasLtHandle_t& handle = state.handles[device];
  if (handle == nullptr) {
    check_status(library().cublasLtCreate(&handle), operation, "cublasLtCreate");
  }
  return handle;
}

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return CUDA_R_16F;
    case DType::bfloat16:
      return CUDA_R_16BF;
    case DType::float32:
      return CUDA_R_32F;
    case DType::float64:
      return CUDA_R_64F;
    default:
      throw_unexpected_dtype(dtype);
  }
}

// The largest power of two up to 256 that divides the address and the distance between matrices.
std::int32_t alignment_of(const void* data, std::int64_t step, DType dtype) {
  const auto bytes = static_cast<std::uint64_t>(step) * itemsize(dtype);
  const std::uint64_t bits = reinterpret_cast<std::uintptr_t>(data) | bytes | 256;
  return static_cast<std::int32_t>(bits & (~bits + 1));
}

Key key_of(const DenseProduct& product, int device) {
  Key key{};
  key.m = product.m;
  key.n = product.n;
  key.k = product.k;
  key.batch = product.batch;
  key.a_leading = product.a.leading;
  key.b_leading = product.b.leading;
  key.c_leading = product.c_leading;
  key.a_step = product.a.step;
  key.b_step = product.b.step;
  key.c_step = product.c_step;
  key.a_alignment = alignment_of(product.a.data, product.a.step, product.dtype);
  key.b_alignment = alignment_of(product.b.data, product.b.step, product.dtype);
  key.c_alignment = alignment_of(product.c, product.c_step, product.result);
  key.device = device;
  key.dtype = static_cast<std::uint8_t>(product.dtype);
  key.result = static_cast<std::uint8_t>(product.result);
  key.a_transposed = product.a.transposed;
  key.b_transposed = product.b.transposed;
  key.bias = product.bias != nullptr;
  key.accumulate = product.accumulate;
  key.tf32 = product.dtype == DType::float32 && is_tf32_allowed();
  return key;
}

cublasLtMatrixLayout_t layout_of(const char* operation, cudaDataType_t type, std::int64_t rows,
                                 std::int64_t columns, std::int64_t leading, std::int64_t batch,
                                 std::int64_t step) {
  const CublasLt& lt = library();
  cublasLtMatrixLayout_t layout = nullptr;
  check_status(lt.cublasLtMatrixLayoutCreate(&layout, type, static_cast<std::uint64_t>(rows),
                                             static_cast<std::uint64_t>(columns), leading),
               operation, "cublasLtMatrixLayoutCreate");
  if (batch > 1) {
    const auto count = static_cast<std::int32_t>(batch);
    lt.cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                        sizeof(count));
    lt.cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step,
                                        sizeof(step));
  }
  return layout;
}

// cuBLASLt stores matrices by columns, so it computes cᵀ = bᵀ · aᵀ: its first operand is b.
void make_plan(Plan& plan, cublasLtHandle_t handle, const DenseProduct& product, const Key& key,
               const char* operation) {
  const CublasLt& lt = library();
  const cudaDataType_t type = type_of(product.dtype), result = type_of(product.result);
  const bool wide = product.dtype == DType::float64;
  const cublasComputeType_t compute = wide       ? CUBLAS_COMPUTE_64F
                                      : key.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                 : CUBLAS_COMPUTE_32F;
  check_status(
      lt.cublasLtMatmulDescCreate(&plan.operation, compute, wide ? CUDA_R_64F : CUDA_R_32F),
      operation, "cublasLtMatmulDescCreate");
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
    check_status(
        lt.cublasLtMatmulDescSetAttribute(plan.operation, attribute, &value, sizeof(value)),
        operation, "cublasLtMatmulDescSetAttribute");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, product.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, product.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (product.bias != nullptr) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias);
  }
  const auto operand = [&](const DenseMatrix& x, std::int64_t rows, std::int64_t columns) {
    // Stored by rows, the matrix is its transpose stored by columns.
    return layout_of(operation, type, x.transposed ? rows : columns, x.transposed ? columns : rows,
                     x.leading, product.batch, x.step);
  };
  plan.a = operand(product.b, product.k, product.n);
  plan.b = operand(product.a, product.m, product.k);
  plan.c = layout_of(operation, result, product.n, product.m, product.c_leading, product.batch,
                     product.c_step);

  cublasLtMatmulPreference_t preference = nullptr;
  check_status(lt.cublasLtMatmulPreferenceCreate(&preference), operation,
               "cublasLtMatmulPreferenceCreate");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    lt.cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{most_workspace});
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<std::uint32_t>(key.b_alignment));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<std::uint32_t>(key.a_alignment));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<std::uint32_t>(key.c_alignment));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<std::uint32_t>(key.c_alignment));
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status = lt.cublasLtMatmulAlgoGetHeuristic(
      handle, plan.operation, plan.a, plan.b, plan.c, plan.c, preference, 1, &found, &count);
  lt.cublasLtMatmulPreferenceDestroy(preference);
  plan.supported =
      status == CUBLAS_STATUS_SUCCESS && count > 0 && found.state == CUBLAS_STATUS_SUCCESS;
  if (!plan.supported) return;
  plan.algorithm = found.algo;
  plan.workspace = found.workspaceSize;
}

}  // namespace

bool multiply_dense(const DenseProduct& product, const char* operation) {
  if (product.batch > std::numeric_limits<std::int32_t>::max()) return false;
  const CublasLt& lt = library();
  State& kept = state();
  const int device = current_device();
  const Key key = key_of(product, device);
  // Held until the product is in the stream: a plan holds the address of the bias.
  const std::lock_guard lock(kept.mutex);
  const cublasLtHandle_t handle = handle_of(kept, device, operation);
  if (kept.plans.size() >= most_plans) kept.plans.clear();
  const auto [entry, is_new] = kept.plans.try_emplace(key);
  Plan& plan = entry->second;
  if (is_new) {
    try {
      make_plan(plan, handle, product, key, operation);
    } catch (...) {
      kept.plans.erase(entry);
      throw;
    }
  }
  if (!plan.supported) return false;
  if (product.bias != nullptr) {
    check_status(
        lt.cublasLtMatmulDescSetAttribute(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                          &product.bias, sizeof(product.bias)),
        operation, "cublasLtMatmulDescSetAttribute");
  }
  std::optional<Scratch> workspace;
  if (plan.workspace > 0) workspace.emplace(plan.workspace, operation);
  const double wide_scale = product.scale, wide_beta = product.accumulate ? 1 : 0;
  const float scale = static_cast<float>(wide_scale), beta = static_cast<float>(wide_beta);
  const bool wide = product.dtype == DType::float64;
  const void* const alpha_data = wide ? static_cast<const void*>(&wide_scale) : &scale;
  const void* const beta_data = wide ? static_cast<const void*>(&wide_beta) : &beta;
  const cublasStatus_t status =
      lt.cublasLtMatmul(handle, plan.operation, alpha_data, product.b.data, plan.a, product.a.data,
                        plan.b, beta_data, product.c, plan.c, product.c, plan.c, &plan.algorithm,
                        workspace ? workspace->as<void>() : nullptr, plan.workspace, stream());
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) {
    plan.supported = false;
    return false;
  }
  check_status(status, operation, "cublasLtMatmul");
  return true;
}

}  // namespace extensor::backend::cuda
