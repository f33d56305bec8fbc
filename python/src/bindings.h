// Shared by the generated files and the module: where functions are added, and records as
// arguments.
#pragma once

#include <span>
#include <string_view>

#include "function.h"
#include "generated_types.h"
#include "results.h"

namespace extensor::python {

// The Python modules by C++ namespace.
struct Modules {
  PyObject* core;
  void add(std::string_view space, std::span<const FunctionRow> rows) const;
};

// The fields of a record that was passed as a sequence, for the readers of Call.
class Arguments {
 public:
  Arguments(PyObject* sequence, const char* record, Py_ssize_t fields);
  Call call() const;

 private:
  const char* record_;
  mutable std::vector<PyObject*> values_;
  std::vector<Parameter> parameters_;
};

RandomState read_random_state(PyObject* object);

// ---- written by hand, in methods.cpp

extern const FunctionRow module_rows[], tensor_rows[];
extern const std::size_t module_row_count, tensor_row_count;

// ---- generated

void add_records(PyObject* module);
void add_generated_functions(const Modules& modules);
extern const char* const member_names[];  // ends with null

}  // namespace extensor::python
