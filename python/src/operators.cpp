// The number slots and comparisons of Tensor. They call the ops without an argument parser, which
// keeps `a + b` of small tensors cheap.
#include "arguments.h"
#include "errors.h"
#include "tensor_object.h"

namespace extensor::python {

namespace {

// Releasing the GIL costs more than an op on so few elements.
constexpr std::int64_t large = 2048;

bool is_large(const Tensor& tensor) { return tensor.numel() >= large; }

// The other operand of an operator, as a tensor or a number.
class Operand {
 public:
  // False if an operator should return NotImplemented.
  bool read(PyObject* object) {
    if (is_tensor(object)) {
      tensor_ = &tensor_of(object);
      return true;
    }
    if (read_scalar(object, scalar_)) return true;
    if (PyList_Check(object) || PyTuple_Check(object) || !is_array_like(object)) return false;
    converted_ = as_tensor(object, "operand");
    tensor_ = &converted_;
    return true;
  }
  bool is_tensor_operand() const { return tensor_ != nullptr; }
  const Tensor& tensor() const { return *tensor_; }
  const Scalar& scalar() const { return scalar_; }

 private:
  const Tensor* tensor_ = nullptr;
  Tensor converted_;
  Scalar scalar_ = 0;
};

template <class F>
PyObject* binary(PyObject* a, PyObject* b, F&& f) {
  try {
    Operand first, second;
    if (!first.read(a) || !second.read(b)) Py_RETURN_NOTIMPLEMENTED;
    if (first.is_tensor_operand()) {
      const Tensor& x = first.tensor();
      if (second.is_tensor_operand()) {
        const Tensor& y = second.tensor();
        if (!is_large(x) && !is_large(y)) [[likely]]
          return wrap(f(x, y));
        Tensor result;
        {
          const WithoutGil released;
          result = f(x, y);
        }
        return wrap(std::move(result));
      }
      Tensor result;
      {
        const WithoutGil released(is_large(x));
        result = f(x, second.scalar());
      }
      return wrap(std::move(result));
    }
    Tensor result;
    {
      const WithoutGil released(is_large(second.tensor()));
      result = f(first.scalar(), second.tensor());
    }
    return wrap(std::move(result));
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

template <class F>
PyObject* in_place(PyObject* a, PyObject* b, F&& f) {
  try {
    Operand other;
    if (!is_tensor(a) || !other.read(b)) Py_RETURN_NOTIMPLEMENTED;
    Tensor& x = tensor_of(a);
    {
      const WithoutGil released(is_large(x));
      if (other.is_tensor_operand()) {
        f(x, other.tensor());
      } else {
        f(x, other.scalar());
      }
    }
    Py_INCREF(a);
    return a;
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

template <class F>
PyObject* unary(PyObject* a, F&& f) {
  try {
    Tensor result;
    {
      const Tensor& x = tensor_of(a);
      const WithoutGil released(is_large(x));
      result = f(x);
    }
    return wrap(std::move(result));
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

#define EXTENSOR_OPERATOR(slot, op)                                             \
  PyObject* slot(PyObject* a, PyObject* b) {                                    \
    return binary(a, b, [](const auto& x, const auto& y) { return op(x, y); }); \
  }
EXTENSOR_OPERATOR(add_slot, add)
EXTENSOR_OPERATOR(subtract_slot, subtract)
EXTENSOR_OPERATOR(multiply_slot, multiply)
EXTENSOR_OPERATOR(divide_slot, divide)
EXTENSOR_OPERATOR(floor_divide_slot, floor_divide)
EXTENSOR_OPERATOR(remainder_slot, modulo)
EXTENSOR_OPERATOR(and_slot, bitwise_and)
EXTENSOR_OPERATOR(or_slot, bitwise_or)
EXTENSOR_OPERATOR(xor_slot, bitwise_xor)
EXTENSOR_OPERATOR(equal_slot, equal)
EXTENSOR_OPERATOR(not_equal_slot, not_equal)
EXTENSOR_OPERATOR(less_slot, less)
EXTENSOR_OPERATOR(less_equal_slot, less_equal)
EXTENSOR_OPERATOR(greater_slot, greater)
EXTENSOR_OPERATOR(greater_equal_slot, greater_equal)
#undef EXTENSOR_OPERATOR

// Shifts by the width of the integers or more, which are a ValueError in C++, shift out all bits in
// Python, as in NumPy.
Tensor shift(bool left, const Tensor& a, const Tensor& b) {
  if (!is_integer(a.dtype()) || !is_integer(b.dtype())) {
    return left ? bitwise_left_shift(a, b) : bitwise_right_shift(a, b);  // throws DTypeError
  }
  const DType dtype =
      promote_types(a.dtype(), b.dtype(), left ? "bitwise_left_shift" : "bitwise_right_shift");
  const auto width = static_cast<std::int64_t>(8 * itemsize(dtype));
  const Tensor most = minimum(b, width - 1);
  if (!left) return bitwise_right_shift(a, most);
  return where(greater_equal(b, width), 0, bitwise_left_shift(a, most));
}
Tensor shift(bool left, const Tensor& a, const Scalar& b) {
  const std::int64_t width = static_cast<std::int64_t>(8 * itemsize(a.dtype()));
  if (!is_integer(a.dtype()) || b.is_floating() || b.as_double() < static_cast<double>(width)) {
    return left ? bitwise_left_shift(a, b) : bitwise_right_shift(a, b);
  }
  return left ? zeros_like(a) : bitwise_right_shift(a, width - 1);
}
Tensor shift(bool left, const Scalar& a, const Tensor& b) {
  return shift(left, scalar(a, {promote_with_scalar(b.dtype(), a), b.device()}), b);
}
template <class Other>
void shift_in_place(bool left, Tensor& x, const Other& other) {
  const Tensor shifted = shift(left, x, other);
  if (shifted.dtype() != x.dtype() || shifted.shape() != x.shape()) {
    (void)(left ? bitwise_left_shift_(x, other) : bitwise_right_shift_(x, other));  // throws
  }
  x.copy_from(shifted);
}

PyObject* left_shift_slot(PyObject* a, PyObject* b) {
  return binary(a, b, [](const auto& x, const auto& y) { return shift(true, x, y); });
}
PyObject* right_shift_slot(PyObject* a, PyObject* b) {
  return binary(a, b, [](const auto& x, const auto& y) { return shift(false, x, y); });
}

PyObject* power_slot(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  return binary(a, b, [](const auto& x, const auto& y) { return power(x, y); });
}

PyObject* matmul_slot(PyObject* a, PyObject* b) {
  try {
    if ((!is_tensor(a) && !is_array_like(a)) || (!is_tensor(b) && !is_array_like(b))) {
      Py_RETURN_NOTIMPLEMENTED;
    }
    const Tensor x = as_tensor(a, "operand"), y = as_tensor(b, "operand");
    Tensor result;
    {
      const WithoutGil released;
      result = matmul(x, y);
    }
    return wrap(std::move(result));
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

#define EXTENSOR_IN_PLACE(slot, op)                                    \
  PyObject* slot(PyObject* a, PyObject* b) {                           \
    return in_place(a, b, [](Tensor& x, const auto& y) { op(x, y); }); \
  }
EXTENSOR_IN_PLACE(add_in_place, add_)
EXTENSOR_IN_PLACE(subtract_in_place, subtract_)
EXTENSOR_IN_PLACE(multiply_in_place, multiply_)
EXTENSOR_IN_PLACE(divide_in_place, divide_)
EXTENSOR_IN_PLACE(floor_divide_in_place, floor_divide_)
EXTENSOR_IN_PLACE(remainder_in_place, modulo_)
EXTENSOR_IN_PLACE(and_in_place, bitwise_and_)
EXTENSOR_IN_PLACE(or_in_place, bitwise_or_)
EXTENSOR_IN_PLACE(xor_in_place, bitwise_xor_)
#undef EXTENSOR_IN_PLACE

PyObject* left_shift_in_place(PyObject* a, PyObject* b) {
  return in_place(a, b, [](Tensor& x, const auto& y) { shift_in_place(true, x, y); });
}
PyObject* right_shift_in_place(PyObject* a, PyObject* b) {
  return in_place(a, b, [](Tensor& x, const auto& y) { shift_in_place(false, x, y); });
}

PyObject* power_in_place(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  return in_place(a, b, [](Tensor& x, const auto& y) { power_(x, y); });
}

PyObject* negative_slot(PyObject* a) {
  return unary(a, [](const Tensor& x) { return negative(x); });
}
PyObject* positive_slot(PyObject* a) {
  return unary(a, [](const Tensor& x) { return positive(x); });
}
PyObject* absolute_slot(PyObject* a) {
  return unary(a, [](const Tensor& x) { return abs(x); });
}
PyObject* invert_slot(PyObject* a) {
  return unary(a, [](const Tensor& x) { return bitwise_invert(x); });
}

int truth(PyObject* a) {
  try {
    const Tensor& x = tensor_of(a);
    if (x.numel() != 1) {
      throw ValueError("bool: a tensor of shape " + to_string(x.shape()) +
                       " is neither true nor false (allowed: one element); use any() or all()");
    }
    return x.item<bool>() ? 1 : 0;
  } catch (...) {
    set_python_error();
    return -1;
  }
}

PyObject* to_int(PyObject* a) {
  try {
    const Owned number(checked(to_number(tensor_of(a))));
    return PyNumber_Long(number.get());
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

PyObject* to_float(PyObject* a) {
  try {
    const Owned number(checked(to_number(tensor_of(a))));
    return PyNumber_Float(number.get());
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

PyObject* to_position(PyObject* a) {
  try {
    const Tensor& x = tensor_of(a);
    if (!is_integer(x.dtype()) || x.ndim() != 0) {
      throw ArgumentError("index: a tensor of dtype " + std::string(name(x.dtype())) +
                          " and shape " + to_string(x.shape()) +
                          " is not an index (allowed: an integer tensor without dimensions)");
    }
    return to_number(x);
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

}  // namespace

PyNumberMethods number_methods = [] {
  PyNumberMethods slots{};
  slots.nb_add = add_slot;
  slots.nb_subtract = subtract_slot;
  slots.nb_multiply = multiply_slot;
  slots.nb_true_divide = divide_slot;
  slots.nb_floor_divide = floor_divide_slot;
  slots.nb_remainder = remainder_slot;
  slots.nb_power = power_slot;
  slots.nb_matrix_multiply = matmul_slot;
  slots.nb_and = and_slot;
  slots.nb_or = or_slot;
  slots.nb_xor = xor_slot;
  slots.nb_lshift = left_shift_slot;
  slots.nb_rshift = right_shift_slot;
  slots.nb_inplace_add = add_in_place;
  slots.nb_inplace_subtract = subtract_in_place;
  slots.nb_inplace_multiply = multiply_in_place;
  slots.nb_inplace_true_divide = divide_in_place;
  slots.nb_inplace_floor_divide = floor_divide_in_place;
  slots.nb_inplace_remainder = remainder_in_place;
  slots.nb_inplace_power = power_in_place;
  slots.nb_inplace_and = and_in_place;
  slots.nb_inplace_or = or_in_place;
  slots.nb_inplace_xor = xor_in_place;
  slots.nb_inplace_lshift = left_shift_in_place;
  slots.nb_inplace_rshift = right_shift_in_place;
  slots.nb_negative = negative_slot;
  slots.nb_positive = positive_slot;
  slots.nb_absolute = absolute_slot;
  slots.nb_invert = invert_slot;
  slots.nb_bool = truth;
  slots.nb_int = to_int;
  slots.nb_float = to_float;
  slots.nb_index = to_position;
  return slots;
}();

PyObject* compare(PyObject* a, PyObject* b, int operation) {
  switch (operation) {
    case Py_EQ:
      return equal_slot(a, b);
    case Py_NE:
      return not_equal_slot(a, b);
    case Py_LT:
      return less_slot(a, b);
    case Py_LE:
      return less_equal_slot(a, b);
    case Py_GT:
      return greater_slot(a, b);
    default:
      return greater_equal_slot(a, b);
  }
}

}  // namespace extensor::python
