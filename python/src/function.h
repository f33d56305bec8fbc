// Functions for Python with named parameters, defaults and overloads. An error of an argument names
// the argument and lists the accepted types.
#pragma once

#include <Python.h>

#include <span>

#include "arguments.h"

namespace extensor::python {

struct Overload {
  std::span<const Parameter> parameters;
  const char* result;  // as a type annotation
  PyObject* (*call)(Call&);
};

struct FunctionRow {
  const char* name;
  const char* documentation;
  std::span<const Overload> overloads;
  bool wrapped = false;  // bound as _name, for a function of that name written in Python
};

bool create_function_type();
// A new reference. The rows must live as long as the process. A function in a class is a method:
// its first parameter is self.
PyObject* make_function(const FunctionRow& row, const char* module);
// Adds functions to a module or a type.
void add_functions(PyObject* target, std::span<const FunctionRow> rows, const char* module);

}  // namespace extensor::python
