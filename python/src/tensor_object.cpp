#include "tensor_object.h"

#include <structmember.h>

#include <new>

#include "arguments.h"
#include "errors.h"

namespace extensor::python {

PyTypeObject* tensor_type = nullptr;

PyObject* wrap(Tensor tensor) {
  if (!tensor.defined()) Py_RETURN_NONE;
  PyObject* object = tensor_type->tp_alloc(tensor_type, 0);
  if (object == nullptr) return nullptr;
  new (&tensor_of(object)) Tensor(std::move(tensor));
  return object;
}

namespace {

// Tensor(data): shares the memory of a tensor or an array.
PyObject* create(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  static const char* names[] = {"data", "dtype", "device", nullptr};
  PyObject *data = nullptr, *dtype = Py_None, *device = Py_None;
  if (PyArg_ParseTupleAndKeywords(arguments, keywords, "O|$OO:Tensor", const_cast<char**>(names),
                                  &data, &dtype, &device) == 0) {
    return nullptr;
  }
  try {
    TensorOptions options;
    if (dtype != Py_None) options.dtype = to_dtype(dtype);
    if (device != Py_None) options.device = to_device(device);
    Tensor tensor = make_tensor(data, options, false);
    PyObject* object = type->tp_alloc(type, 0);
    if (object == nullptr) return nullptr;
    new (&tensor_of(object)) Tensor(std::move(tensor));
    return object;
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

void deallocate(PyObject* self) {
  auto* object = reinterpret_cast<TensorObject*>(self);
  if (object->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  object->tensor.~Tensor();
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

Py_ssize_t length(PyObject* self) {
  const Tensor& x = tensor_of(self);
  if (x.ndim() == 0) {
    PyErr_SetString(PyExc_TypeError, "len: a tensor without dimensions has no length");
    return -1;
  }
  return x.shape()[0];
}

PyObject* item_at(PyObject* self, Py_ssize_t index) {
  try {
    return wrap(tensor_of(self)[index]);
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

PyObject* iterate(PyObject* self) {
  if (tensor_of(self).ndim() == 0) {
    PyErr_SetString(PyExc_TypeError, "iter: a tensor without dimensions has no rows");
    return nullptr;
  }
  return PySeqIter_New(self);
}

// ---- properties

template <class F>
PyObject* read(PyObject* self, F&& f) {
  try {
    return f(tensor_of(self));
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

#define EXTENSOR_GETTER(name, ...)                                                               \
  PyObject* get_##name(PyObject* self, void*) {                                                  \
    return read(self,                                                                            \
                []([[maybe_unused]] Tensor& x) -> PyObject* { return to_python(__VA_ARGS__); }); \
  }
EXTENSOR_GETTER(shape, x.shape())
EXTENSOR_GETTER(strides, x.strides())
EXTENSOR_GETTER(dtype, x.dtype())
EXTENSOR_GETTER(device, x.device())
EXTENSOR_GETTER(ndim, x.ndim())
EXTENSOR_GETTER(size, x.numel())
EXTENSOR_GETTER(itemsize, x.itemsize())
EXTENSOR_GETTER(nbytes, x.nbytes())
EXTENSOR_GETTER(transposed, x.transpose())
EXTENSOR_GETTER(matrix_transposed, matrix_transpose(x))
EXTENSOR_GETTER(requires_grad, x.requires_grad())
EXTENSOR_GETTER(is_leaf, x.is_leaf())
EXTENSOR_GETTER(grad, x.grad())
EXTENSOR_GETTER(read_only, x.impl().storage->read_only)
EXTENSOR_GETTER(priority, 1000)
EXTENSOR_GETTER(address, reinterpret_cast<std::uint64_t>(x.impl().data))
EXTENSOR_GETTER(identity, reinterpret_cast<std::uint64_t>(x.impl_or_null()))
#undef EXTENSOR_GETTER

int set_requires_grad(PyObject* self, PyObject* value, void*) {
  try {
    if (value == nullptr || !PyBool_Check(value)) {
      throw ArgumentError("requires_grad: the value is not a bool (accepted: True or False)");
    }
    tensor_of(self).requires_grad_(value == Py_True);
    return 0;
  } catch (...) {
    set_python_error();
    return -1;
  }
}

int set_grad(PyObject* self, PyObject* value, void*) {
  try {
    tensor_of(self).set_grad(value == nullptr || value == Py_None ? Tensor()
                                                                  : as_tensor(value, "grad"));
    return 0;
  } catch (...) {
    set_python_error();
    return -1;
  }
}

// The first line is the type annotation, which the stubs contain.
PyGetSetDef properties[] = {
    {"shape", get_shape, nullptr, "tuple[int, ...]\nThe length of each axis.", nullptr},
    {"strides", get_strides, nullptr,
     "tuple[int, ...]\nThe distance between neighbours along each axis, in elements.", nullptr},
    {"dtype", get_dtype, nullptr, "DType\nThe type of the elements.", nullptr},
    {"device", get_device, nullptr, "Device\nThe device that holds the memory.", nullptr},
    {"ndim", get_ndim, nullptr, "int\nThe number of axes.", nullptr},
    {"size", get_size, nullptr, "int\nThe number of elements.", nullptr},
    {"itemsize", get_itemsize, nullptr, "int\nThe bytes of one element.", nullptr},
    {"nbytes", get_nbytes, nullptr, "int\nThe bytes of all elements.", nullptr},
    {"T", get_transposed, nullptr, "Tensor\nA view with all axes reversed.", nullptr},
    {"mT", get_matrix_transposed, nullptr, "Tensor\nA view with the last two axes swapped.",
     nullptr},
    {"requires_grad", get_requires_grad, set_requires_grad,
     "bool\nWhether backward() computes a gradient for this tensor.", nullptr},
    {"is_leaf", get_is_leaf, nullptr,
     "bool\nWhether it was not computed from tensors that require a gradient.", nullptr},
    {"grad", get_grad, set_grad, "Tensor | None\nThe gradient that backward() added up.", nullptr},
    {"is_read_only", get_read_only, nullptr,
     "bool\nWhether the memory belongs to an object that must not be changed.", nullptr},
    {"_address", get_address, nullptr, "int\nThe address of the first element.", nullptr},
    {"_identity", get_identity, nullptr,
     "int\nEqual for two objects that hold the same tensor, not only the same memory.", nullptr},
    {"__array_priority__", get_priority, nullptr,
     "int\nMakes NumPy leave array + tensor to the tensor.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(TensorObject, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

}  // namespace

bool create_tensor_type() {
  const PyNumberMethods& n = number_methods;
  PyType_Slot slots[] = {
      {Py_tp_new, reinterpret_cast<void*>(create)},
      {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
      {Py_tp_richcompare, reinterpret_cast<void*>(compare)},
      {Py_tp_hash, reinterpret_cast<void*>(PyObject_HashNotImplemented)},
      {Py_tp_iter, reinterpret_cast<void*>(iterate)},
      {Py_tp_getset, properties},
      {Py_tp_members, members},
      {Py_tp_doc, const_cast<char*>("Numbers of one dtype in shared, strided memory.\n\n"
                                    "Tensor(data) shares the memory of a tensor or an array; "
                                    "extensor.tensor(data) copies it.")},
      {Py_sq_length, reinterpret_cast<void*>(length)},
      {Py_sq_item, reinterpret_cast<void*>(item_at)},
      {Py_mp_length, reinterpret_cast<void*>(length)},
      {Py_mp_subscript, reinterpret_cast<void*>(subscript)},
      {Py_mp_ass_subscript, reinterpret_cast<void*>(assign_subscript)},
      {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
      {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
#define EXTENSOR_SLOT(name) {Py_##name, reinterpret_cast<void*>(n.name)},
      EXTENSOR_SLOT(nb_add) EXTENSOR_SLOT(nb_subtract) EXTENSOR_SLOT(nb_multiply) EXTENSOR_SLOT(
          nb_true_divide) EXTENSOR_SLOT(nb_floor_divide) EXTENSOR_SLOT(nb_remainder)
          EXTENSOR_SLOT(nb_power) EXTENSOR_SLOT(nb_matrix_multiply) EXTENSOR_SLOT(nb_and)
              EXTENSOR_SLOT(nb_or) EXTENSOR_SLOT(nb_xor) EXTENSOR_SLOT(nb_lshift) EXTENSOR_SLOT(
                  nb_rshift) EXTENSOR_SLOT(nb_inplace_add) EXTENSOR_SLOT(nb_inplace_subtract)
                  EXTENSOR_SLOT(nb_inplace_multiply) EXTENSOR_SLOT(nb_inplace_true_divide)
                      EXTENSOR_SLOT(nb_inplace_floor_divide) EXTENSOR_SLOT(nb_inplace_remainder)
                          EXTENSOR_SLOT(nb_inplace_power) EXTENSOR_SLOT(nb_inplace_and)
                              EXTENSOR_SLOT(nb_inplace_or) EXTENSOR_SLOT(nb_inplace_xor)
                                  EXTENSOR_SLOT(nb_inplace_lshift) EXTENSOR_SLOT(nb_inplace_rshift)
                                      EXTENSOR_SLOT(nb_negative) EXTENSOR_SLOT(nb_positive)
                                          EXTENSOR_SLOT(nb_absolute) EXTENSOR_SLOT(nb_invert)
                                              EXTENSOR_SLOT(nb_bool) EXTENSOR_SLOT(nb_int)
                                                  EXTENSOR_SLOT(nb_float) EXTENSOR_SLOT(nb_index)
#undef EXTENSOR_SLOT
                                                      {0, nullptr},
  };
  PyType_Spec spec{"extensor.Tensor", sizeof(TensorObject), 0,
                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  tensor_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return tensor_type != nullptr;
}

}  // namespace extensor::python
