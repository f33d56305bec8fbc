// Memory shared with other libraries: the buffer protocol and DLPack, without copies.
#include <algorithm>
#include <cstring>

#include "arguments.h"
#include "errors.h"
#include "tensor_object.h"

namespace extensor::python {

namespace {

// ---- formats of the buffer protocol

// The native code of struct, for one element; null for bfloat16, which has none.
const char* format_of(DType dtype) {
  constexpr const char* formats[] = {"?", "b", "h",     "i", "q", "B",  "H", "I",
                                     "Q", "e", nullptr, "f", "d", "Zf", "Zd"};
  return formats[static_cast<int>(dtype)];
}

std::optional<DType> dtype_of_format(const char* format, Py_ssize_t itemsize) {
  if (format == nullptr) return DType::uint8;
  if (*format == '@' || *format == '=' || (*format == '<' && PY_BIG_ENDIAN == 0)) ++format;
  if (std::strcmp(format, "Zf") == 0) return DType::complex64;
  if (std::strcmp(format, "Zd") == 0) return DType::complex128;
  if (format[0] == '\0' || format[1] != '\0') return {};
  const auto sized = [&](DType one, DType two, DType four, DType eight) -> std::optional<DType> {
    switch (itemsize) {
      case 1:
        return one;
      case 2:
        return two;
      case 4:
        return four;
      case 8:
        return eight;
      default:
        return {};
    }
  };
  switch (*format) {
    case '?':
      return DType::bool_;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n':
      return sized(DType::int8, DType::int16, DType::int32, DType::int64);
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
    case 'N':
      return sized(DType::uint8, DType::uint16, DType::uint32, DType::uint64);
    case 'e':
      return DType::float16;
    case 'f':
      return DType::float32;
    case 'd':
      return DType::float64;
    default:
      return {};
  }
}

void release_view(void* context) {
  auto* view = static_cast<Py_buffer*>(context);
  if (Py_IsInitialized() == 0) return;  // the process ends
  {
    const WithGil gil;
    PyBuffer_Release(view);
  }
  delete view;
}

// Kernels add bools up as the bytes 0 and 1; the memory of another library may hold others.
void check_bools(const char* function, const void* data, const Shape& shape,
                 const Strides& strides) {
  const Tensor bytes = from_external(
      data, DType::uint8, shape, strides, [](void*) {}, nullptr);
  if (bytes.numel() == 0) return;
  const int largest = max_reduce(bytes).item<std::uint8_t>();
  if (largest <= 1) return;
  throw ValueError(std::string(function) + ": an array of bool has a byte " +
                   std::to_string(largest) + " (allowed: 0 and 1); convert it with x != 0");
}

}  // namespace

Tensor from_buffer(PyObject* object, bool& copied) {
  auto view = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(object, view.get(), PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
    throw PythonError();
  }
  const auto release = [&] { PyBuffer_Release(view.get()); };
  const std::optional<DType> dtype = dtype_of_format(view->format, view->itemsize);
  if (!dtype) {
    const std::string format = view->format;
    release();
    throw DTypeError("asarray: an array with elements of format '" + format +
                     "' has no dtype (allowed: bool, integers, floats and complex numbers in "
                     "native byte order)");
  }
  Shape shape;
  Strides strides;
  bool fits =
      reinterpret_cast<std::uintptr_t>(view->buf) % std::min<std::size_t>(8, itemsize(*dtype)) == 0;
  for (int k = 0; k < view->ndim; ++k) {
    shape.push_back(view->shape[k]);
    fits = fits && view->strides[k] % view->itemsize == 0;
    strides.push_back(view->strides[k] / view->itemsize);
  }
  try {
    copied = !fits;
    if (fits) {
      if (*dtype == DType::bool_) check_bools("asarray", view->buf, shape, strides);
      Py_buffer* context = view.get();
      Tensor result = view->readonly != 0
                          ? from_external(static_cast<const void*>(view->buf), *dtype, shape,
                                          strides, release_view, context)
                          : from_external(view->buf, *dtype, shape, strides, release_view, context);
      static_cast<void>(view.release());
      return result;
    }
    // Elements that are not aligned are copied.
    std::vector<char> bytes(static_cast<std::size_t>(view->len));
    if (PyBuffer_ToContiguous(bytes.data(), view.get(), view->len, 'C') != 0) throw PythonError();
    Tensor result = from_bytes(bytes.data(), bytes.size() / itemsize(*dtype), *dtype, shape);
    release();
    return result;
  } catch (...) {
    if (view != nullptr) release();
    throw;
  }
}

// ---- the buffer of a tensor

namespace {

// Lives as long as a buffer is exported: shape and strides in bytes, and the memory.
struct Exported {
  Tensor tensor;
  std::vector<Py_ssize_t> shape, strides;
};

}  // namespace

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  try {
    const Tensor tensor = tensor_of(self).detach();
    if (tensor.device().type != Device::Type::cpu) {
      throw DeviceError("buffer: the tensor is on " + to_string(tensor.device()) +
                        " (allowed: cpu); copy it with x.to('cpu')");
    }
    const char* format = format_of(tensor.dtype());
    if (format == nullptr) {
      throw DTypeError(
          "buffer: the buffer protocol has no format for bfloat16; convert it with "
          "x.to(extensor.float32)");
    }
    const bool read_only = tensor.impl().storage->read_only;
    if (read_only && (flags & PyBUF_WRITABLE) == PyBUF_WRITABLE) {
      PyErr_SetString(PyExc_BufferError, "buffer: the tensor is read-only");
      return -1;
    }
    const bool dense_only = (flags & PyBUF_STRIDES) != PyBUF_STRIDES ||
                            (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS;
    if (dense_only && !tensor.is_contiguous()) {
      PyErr_SetString(PyExc_BufferError,
                      "buffer: the tensor is not contiguous; pass x.contiguous()");
      return -1;
    }
    auto exported = std::make_unique<Exported>();
    const auto size = static_cast<Py_ssize_t>(tensor.itemsize());
    for (std::size_t k = 0; k < tensor.shape().size(); ++k) {
      exported->shape.push_back(tensor.shape()[k]);
      exported->strides.push_back(tensor.strides()[k] * size);
    }
    view->buf = tensor.impl().data;
    view->len = static_cast<Py_ssize_t>(tensor.nbytes());
    view->itemsize = size;
    view->readonly = read_only ? 1 : 0;
    view->ndim = static_cast<int>(tensor.ndim());
    view->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(format) : nullptr;
    view->shape = (flags & PyBUF_ND) != 0 ? exported->shape.data() : nullptr;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? exported->strides.data() : nullptr;
    view->suboffsets = nullptr;
    exported->tensor = tensor;
    view->internal = exported.release();
    view->obj = self;
    Py_INCREF(self);
    return 0;
  } catch (const Error& error) {
    PyErr_SetString(PyExc_BufferError, error.what());
  } catch (...) {
    set_python_error();
  }
  return -1;
}

void release_buffer(PyObject*, Py_buffer* view) { delete static_cast<Exported*>(view->internal); }

// ---- DLPack

namespace {

// The structures of DLPack's C interface, version 1.
struct DLDevice {
  std::int32_t type, id;
};
struct DLDataType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManagedTensor*);
};
struct DLManagedTensorVersioned {
  std::uint32_t major, minor;
  void* context;
  void (*deleter)(DLManagedTensorVersioned*);
  std::uint64_t flags;
  DLTensor tensor;
};
constexpr std::uint64_t read_only_flag = 1;
constexpr std::int32_t cpu_type = 1, cuda_type = 2, cuda_host_type = 3;
enum Code : std::uint8_t {
  int_code = 0,
  uint_code = 1,
  float_code = 2,
  bfloat_code = 4,
  complex_code = 5,
  bool_code = 6
};

constexpr DLDataType dlpack_types[all_dtype_count] = {
    {bool_code, 8, 1},   {int_code, 8, 1},      {int_code, 16, 1},     {int_code, 32, 1},
    {int_code, 64, 1},   {uint_code, 8, 1},     {uint_code, 16, 1},    {uint_code, 32, 1},
    {uint_code, 64, 1},  {float_code, 16, 1},   {bfloat_code, 16, 1},  {float_code, 32, 1},
    {float_code, 64, 1}, {complex_code, 64, 1}, {complex_code, 128, 1}};

DType dtype_of_dlpack(const DLDataType& type) {
  for (int k = 0; k < all_dtype_count; ++k) {
    const DLDataType& each = dlpack_types[k];
    if (each.code == type.code && each.bits == type.bits && type.lanes == 1) {
      return static_cast<DType>(k);
    }
  }
  throw DTypeError("from_dlpack: elements of type code " + std::to_string(type.code) + ", " +
                   std::to_string(type.bits) + " bits and " + std::to_string(type.lanes) +
                   " lanes have no dtype");
}

template <class Managed>
struct Export {
  Managed managed;
  Tensor tensor;
  Dims shape, strides;
};

template <class Managed>
void delete_export(Managed* managed) {
  delete static_cast<Export<Managed>*>(managed->context);
}

template <class Managed>
Export<Managed>* make_export(const Tensor& tensor) {
  auto* made = new Export<Managed>{};
  made->tensor = tensor;
  made->shape = tensor.shape();
  made->strides = tensor.strides();
  const Device device = tensor.device();
  DLTensor& target = made->managed.tensor;
  target.data = tensor.impl().data;
  target.device = {device.type == Device::Type::cuda ? cuda_type : cpu_type, device.index};
  target.ndim = static_cast<std::int32_t>(tensor.ndim());
  target.dtype = dlpack_types[static_cast<int>(tensor.dtype())];
  target.shape = made->shape.data();
  target.strides = made->strides.data();
  target.byte_offset = 0;
  made->managed.context = made;
  made->managed.deleter = delete_export<Managed>;
  return made;
}

template <class Managed>
void delete_unused(PyObject* capsule, const char* name) {
  if (PyCapsule_IsValid(capsule, name) == 0) return;  // a consumer took it and renamed the capsule
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (managed->deleter != nullptr) managed->deleter(managed);
}

constexpr const char *plain_name = "dltensor", *versioned_name = "dltensor_versioned";

template <class Managed>
Tensor adopt(PyObject* capsule, const char* name, const char* used_name, bool read_only) {
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (managed == nullptr) throw PythonError();
  const DLTensor& source = managed->tensor;
  if (source.device.type != cpu_type && source.device.type != cuda_host_type) {
    throw DeviceError("from_dlpack: the array is on device type " +
                      std::to_string(source.device.type) + " (allowed: 1, the CPU)");
  }
  const DType dtype = dtype_of_dlpack(source.dtype);
  Shape shape;
  Strides strides;
  for (std::int32_t k = 0; k < source.ndim; ++k) shape.push_back(source.shape[k]);
  strides.resize(shape.size());
  std::int64_t dense = 1;
  for (std::size_t k = shape.size(); k-- > 0;) {
    strides[k] = source.strides != nullptr ? source.strides[k] : dense;
    dense *= shape[k];
  }
  auto* data = static_cast<std::byte*>(source.data) + source.byte_offset;
  if (dtype == DType::bool_) check_bools("from_dlpack", data, shape, strides);
  const auto release = [](void* context) {
    auto* held = static_cast<Managed*>(context);
    if (held->deleter == nullptr || Py_IsInitialized() == 0) return;
    const WithGil gil;  // deleters of Python libraries need it
    held->deleter(held);
  };
  Tensor result = read_only ? from_external(static_cast<const void*>(data), dtype, shape, strides,
                                            release, managed)
                            : from_external(data, dtype, shape, strides, release, managed);
  PyCapsule_SetName(capsule, used_name);
  PyCapsule_SetDestructor(capsule, nullptr);
  return result;
}

}  // namespace

namespace {

// __dlpack__() returned something else than a capsule of DLPack, or one whose memory was taken.
[[noreturn]] void refuse_capsule(PyObject* object) {
  if (!PyCapsule_CheckExact(object)) {
    throw ArgumentError(std::string("from_dlpack: __dlpack__() returned ") +
                        Py_TYPE(object)->tp_name + " (accepted: a capsule)");
  }
  const char* name = PyCapsule_GetName(object);
  const std::string text = name == nullptr ? "" : name;
  if (text.starts_with("used_dltensor")) {
    throw ValueError("from_dlpack: the memory of the capsule was taken before (allowed: once)");
  }
  throw ValueError("from_dlpack: the capsule is called '" + text + "' (allowed: '" + plain_name +
                   "', '" + versioned_name + "')");
}

}  // namespace

Tensor from_dlpack(PyObject* object) {
  Owned capsule;
  if (PyCapsule_CheckExact(object)) {
    Py_INCREF(object);
    capsule = Owned(object);
  } else {
    const Owned method(PyObject_GetAttrString(object, "__dlpack__"));
    if (!method) {
      PyErr_Clear();
      throw ArgumentError(std::string("from_dlpack: argument 'x' is ") + Py_TYPE(object)->tp_name +
                          " (accepted: an array with the method __dlpack__)");
    }
    static PyObject* const names = Py_BuildValue("(s)", "max_version");
    static PyObject* const version = Py_BuildValue("(ii)", 1, 0);
    PyObject* const arguments[] = {version};
    capsule = Owned(PyObject_Vectorcall(method.get(), arguments, 0, names));
    if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError) != 0) {  // before DLPack 1.0
      PyErr_Clear();
      capsule = Owned(PyObject_CallNoArgs(method.get()));
    }
    if (!capsule) throw PythonError();
  }
  if (PyCapsule_IsValid(capsule.get(), versioned_name) != 0) {
    auto* managed =
        static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule.get(), versioned_name));
    if (managed->major != 1) {
      throw ValueError("from_dlpack: the array has DLPack version " +
                       std::to_string(managed->major) + " (allowed: 1)");
    }
    return adopt<DLManagedTensorVersioned>(capsule.get(), versioned_name, "used_dltensor_versioned",
                                           (managed->flags & read_only_flag) != 0);
  }
  if (PyCapsule_IsValid(capsule.get(), plain_name) == 0) refuse_capsule(capsule.get());
  return adopt<DLManagedTensor>(capsule.get(), plain_name, "used_dltensor", false);
}

PyObject* to_dlpack_capsule(const Tensor& given, bool versioned) {
  const Tensor tensor = given.detach();
  const bool read_only = tensor.impl().storage->read_only;
  if (read_only && !versioned) {
    PyErr_SetString(PyExc_BufferError,
                    "__dlpack__: the tensor is read-only, which needs max_version=(1, 0) or later");
    throw PythonError();
  }
  if (versioned) {
    auto* made = make_export<DLManagedTensorVersioned>(tensor);
    made->managed.major = 1;
    made->managed.minor = 0;
    made->managed.flags = read_only ? read_only_flag : 0;
    return PyCapsule_New(&made->managed, versioned_name, [](PyObject* capsule) {
      delete_unused<DLManagedTensorVersioned>(capsule, versioned_name);
    });
  }
  auto* made = make_export<DLManagedTensor>(tensor);
  return PyCapsule_New(&made->managed, plain_name, [](PyObject* capsule) {
    delete_unused<DLManagedTensor>(capsule, plain_name);
  });
}

}  // namespace extensor::python
