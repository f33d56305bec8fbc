// The list of public functions, with the types of their parameters and results resolved to a few
// kinds. It is made from the headers by read_headers.py, which says what is listed, and is stored
// in functions.inc. The reference page and the tests read it, and language bindings can be
// generated from it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace extensor::op_database {

enum class Kind : std::uint8_t {
  nothing,      // void
  tensor,       // Tensor
  scalar,       // Scalar
  integer,      // StrictInt and the integer types
  number,       // StrictDouble, double, float
  boolean,      // StrictBool, bool
  string,       // strings and characters
  path,         // std::filesystem::path
  axes,         // Axes
  shape,        // Shape, Strides, Dims: a list of integers
  size,         // Size2d, Size3d: a length along each axis
  scale,        // Scale2d: a factor of the height and one of the width
  dtype,        // DType
  device,       // Device
  generator,    // Generator
  index,        // Index: one position of an index expression
  enumeration,  // listed in enumerations()
  record,       // a struct, listed in records()
  function,     // std::function
  other,        // functions_test.cpp names these types and gives the reason
};

// The number of values, and how the type holds them.
enum class Count : std::uint8_t {
  one,
  optional,  // std::optional; a tensor with a default value, which may be undefined
  list,      // std::vector, std::span, std::array
  pair,      // std::pair of equal types
  pairs,     // a list of pairs
  map,       // from strings: std::map, or a list of names and values
};

struct Type {
  Kind kind;
  Count count;
  std::string_view named;   // "extensor::Reduction" if the kind is enumeration or record
  std::string_view text;    // as in the header: "const Tensor&"
  bool is_written() const;  // a mutable reference or span: the function may change the argument
};

// A parameter of a function, or a field of a struct.
struct Parameter {
  Type type;
  std::string_view name;
  std::string_view default_value;  // as in the header: "default_eps"; empty: none
  std::string_view comment;        // of fields only
};

struct Function {
  std::string_view space;  // "extensor", "extensor::data"
  std::string_view name;
  Type result;
  std::string_view header;   // "reduction.h", relative to include/extensor
  std::string_view comment;  // lines separated by \n; empty for a row of the op tables
  std::string_view head;     // "template <class T>"; empty if it is not a template
  std::vector<Parameter> parameters = {};
  // "Tensor sum(const Tensor& x, const Axes& axes = {}, StrictBool keepdims = false)"
  std::string declaration() const;
};

// An aggregate that a listed function or struct uses.
struct Record {
  std::string_view name;  // "extensor::Conv2dOptions"
  std::string_view header;
  std::string_view comment;
  std::vector<Parameter> fields = {};
};

struct Enumeration {
  struct Value {
    std::string_view name;
    std::string_view comment;
  };
  std::string_view name;  // "extensor::Reduction"
  std::string_view header;
  std::string_view comment;
  std::vector<Value> values = {};
};

// In the order of the headers' names, and of the declarations in a header.
const std::vector<Function>& functions();
// In the order of their names.
const std::vector<Record>& records();
const std::vector<Enumeration>& enumerations();
// Null if there is none.
const Record* find_record(std::string_view name);
const Enumeration* find_enumeration(std::string_view name);

}  // namespace extensor::op_database
