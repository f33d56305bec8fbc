#include "function.h"

#include <structmember.h>

#include <cstring>
#include <string>
#include <vector>

#include "results.h"

namespace extensor::python {

namespace {

constexpr int max_parameters = 40;

// The names of an overload's parameters as interned strings, for keyword arguments.
struct FunctionObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  const FunctionRow* row;
  const char* module;
  std::vector<std::vector<PyObject*>>* names;
};

PyTypeObject* function_type = nullptr;

std::string type_name(PyObject* value) {
  if (value == Py_None) return "None";
  return Py_TYPE(value)->tp_name;
}

std::string signature(const FunctionRow& row, const Overload& overload) {
  std::string text = std::string(row.name) + "(";
  bool keywords = false;
  for (const Parameter& parameter : overload.parameters) {
    if (&parameter != overload.parameters.data()) text += ", ";
    if (parameter.keyword_only && !keywords) {
      text += "*, ";
      keywords = true;
    }
    text += std::string(parameter.name) + ": " + parameter.type->annotation;
    if (parameter.default_text != nullptr) text += std::string(" = ") + parameter.default_text;
  }
  return text + ") -> " + overload.result;
}

std::string quoted(PyObject* text) {
  const char* utf8 = PyUnicode_AsUTF8(text);
  PyErr_Clear();  // surrogates have no UTF-8
  return utf8 == nullptr ? "str" : "'" + std::string(utf8) + "'";
}

// The result of matching the arguments with one overload.
struct Match {
  bool matched = false;
  int exact = 0;            // the number of arguments that matched without conversion
  int progress = 0;         // the number of arguments that matched
  std::string problem;      // filled only on request
  bool wrong_name = false;  // the problem is a str that is none of the names of an enumeration
};

class Matcher {
 public:
  Matcher(const FunctionObject* function, PyObject* const* arguments, Py_ssize_t positional,
          PyObject* keyword_names)
      : function_(function),
        arguments_(arguments),
        positional_(positional),
        keyword_names_(keyword_names) {}

  Match match(std::size_t index, bool convert, bool explain, PyObject** values) {
    const Overload& overload = function_->row->overloads[index];
    const auto& parameters = overload.parameters;
    const auto count = static_cast<Py_ssize_t>(parameters.size());
    Match result;
    std::memset(values, 0, sizeof(PyObject*) * static_cast<std::size_t>(count));
    Py_ssize_t room = 0;
    while (room < count && !parameters[static_cast<std::size_t>(room)].keyword_only) ++room;
    if (positional_ > room) {
      // zeros(2, 3) and x.reshape(2, 3): the last positional parameter takes all integers.
      const Parameter* last = room > 0 ? &parameters[static_cast<std::size_t>(room) - 1] : nullptr;
      bool packs = convert && last != nullptr && last->type == &types::shape;
      for (Py_ssize_t k = room - 1; packs && k < positional_; ++k) {
        packs = PyLong_Check(arguments_[k]) && !PyBool_Check(arguments_[k]);
      }
      if (!packs) {
        if (explain) {
          result.problem = "takes at most " + std::to_string(room) + " positional argument" +
                           (room == 1 ? "" : "s") + ", got " + std::to_string(positional_);
        }
        return result;
      }
      packed_ = Owned(checked(PyTuple_New(positional_ - room + 1)));
      for (Py_ssize_t k = room - 1; k < positional_; ++k) {
        Py_INCREF(arguments_[k]);
        PyTuple_SET_ITEM(packed_.get(), k - room + 1, arguments_[k]);
      }
      for (Py_ssize_t k = 0; k < room - 1; ++k) values[k] = arguments_[k];
      values[room - 1] = packed_.get();
    } else {
      for (Py_ssize_t k = 0; k < positional_; ++k) values[k] = arguments_[k];
    }
    const Py_ssize_t keywords = keyword_names_ != nullptr ? PyTuple_GET_SIZE(keyword_names_) : 0;
    const auto& names = (*function_->names)[index];
    for (Py_ssize_t k = 0; k < keywords; ++k) {
      PyObject* name = PyTuple_GET_ITEM(keyword_names_, k);
      Py_ssize_t position = 0;
      while (position < count && names[static_cast<std::size_t>(position)] != name) ++position;
      if (position == count) {  // a name that is not interned
        position = 0;
        while (position < count &&
               PyUnicode_Compare(names[static_cast<std::size_t>(position)], name) != 0) {
          ++position;
        }
      }
      if (position == count) position = find_alias(parameters, name);
      if (position == count || values[position] != nullptr) {
        if (explain) {
          result.problem =
              (position == count ? "has no argument " : "got several values for the argument ") +
              std::string("'") + PyUnicode_AsUTF8(name) + "'";
          result.progress = -1;
        }
        return result;
      }
      values[position] = arguments_[positional_ + k];
    }
    for (Py_ssize_t k = 0; k < count; ++k) {
      const Parameter& parameter = parameters[static_cast<std::size_t>(k)];
      PyObject*& value = values[k];
      if (value == nullptr) {
        if (parameter.default_text != nullptr) continue;
        if (explain) result.problem = std::string("missing argument '") + parameter.name + "'";
        return result;
      }
      if (!parameter.type->matches(value, *parameter.type, convert)) {
        if (explain) explain_value(parameter, value, result);
        return result;
      }
      if (convert && parameter.type->matches(value, *parameter.type, false)) ++result.exact;
      if (value == Py_None && parameter.type != &types::object) value = nullptr;  // the default
      ++result.progress;
    }
    result.matched = true;
    return result;
  }

 private:
  // The position of the parameter with this alias, or the number of parameters.
  static Py_ssize_t find_alias(std::span<const Parameter> parameters, PyObject* name) {
    std::size_t position = 0;
    while (position < parameters.size() &&
           (parameters[position].alias == nullptr ||
            PyUnicode_CompareWithASCIIString(name, parameters[position].alias) != 0)) {
      ++position;
    }
    return static_cast<Py_ssize_t>(position);
  }

  static void explain_value(const Parameter& parameter, PyObject* value, Match& result) {
    const ArgumentType& type = *parameter.type;
    std::string accepted = type.accepted;
    std::string given = type_name(value);
    if (type.names != nullptr) {
      accepted.clear();
      for (const char* const* name = type.names; *name != nullptr; ++name) {
        accepted += std::string(accepted.empty() ? "" : ", ") + "'" + *name + "'";
      }
      result.wrong_name = PyUnicode_Check(value);
    }
    const bool is_dtype = &type == &types::dtype || &type == &types::dtype_or_none;
    if (PyUnicode_Check(value) && (result.wrong_name || is_dtype)) given = quoted(value);
    result.problem = std::string("argument '") + parameter.name + "' is " + given +
                     " (accepted: " + accepted + ")";
  }

  const FunctionObject* function_;
  PyObject* const* arguments_;
  Py_ssize_t positional_;
  PyObject* keyword_names_;
  Owned packed_;
};

// Describes the overload that matched the most arguments.
void raise_mismatch(const FunctionObject* function, Matcher& matcher) {
  const FunctionRow& row = *function->row;
  PyObject* values[max_parameters];
  Match best;
  best.progress = -2;
  for (std::size_t k = 0; k < row.overloads.size(); ++k) {
    Match match = matcher.match(k, true, true, values);
    if (match.progress > best.progress) best = std::move(match);
  }
  const bool is_value = best.wrong_name;
  std::string text = std::string(row.name) + ": " + best.problem;
  if (row.overloads.size() > 1 && !is_value) text += "\nSignatures:";
  for (const Overload& overload : row.overloads) {
    if (row.overloads.size() > 1 && !is_value) text += "\n  " + signature(row, overload);
  }
  if (is_value) {
    try {
      throw ValueError(text);
    } catch (...) {
      set_python_error();
    }
  } else {
    PyErr_SetString(PyExc_TypeError, text.c_str());
  }
}

PyObject* call(PyObject* self, PyObject* const* arguments, std::size_t flags, PyObject* names) {
  auto* function = reinterpret_cast<FunctionObject*>(self);
  const FunctionRow& row = *function->row;
  const Py_ssize_t positional = PyVectorcall_NARGS(flags);
  try {
    PyObject* values[max_parameters];
    Matcher matcher(function, arguments, positional, names);
    const auto call_overload = [&](std::size_t k) {
      const Overload& overload = row.overloads[k];
      Call call;
      call.function = row.name;
      call.parameters = overload.parameters.data();
      call.values = values;
      return overload.call(call);
    };
    for (std::size_t k = 0; k < row.overloads.size(); ++k) {
      if (matcher.match(k, false, false, values).matched) return call_overload(k);
    }
    // With arguments to convert, the overload that converts fewest: in add(array, 1) only the array,
    // since the number is weak.
    int most_exact = -1;
    std::size_t best = 0;
    for (std::size_t k = 0; k < row.overloads.size(); ++k) {
      const Match match = matcher.match(k, true, false, values);
      if (!match.matched || match.exact <= most_exact) continue;
      most_exact = match.exact;
      best = k;
    }
    if (most_exact < 0) {
      raise_mismatch(function, matcher);
    } else {
      if (best + 1 < row.overloads.size()) matcher.match(best, true, false, values);
      return call_overload(best);
    }
  } catch (...) {
    set_python_error();
  }
  return nullptr;
}

void deallocate(PyObject* self) {
  auto* function = reinterpret_cast<FunctionObject*>(self);
  for (const auto& list : *function->names) {
    for (PyObject* name : list) Py_DECREF(name);
  }
  delete function->names;
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* bind(PyObject* self, PyObject* instance, PyObject*) {
  if (instance == nullptr) {
    Py_INCREF(self);
    return self;
  }
  return PyMethod_New(self, instance);
}

const FunctionRow& row_of(PyObject* self) { return *reinterpret_cast<FunctionObject*>(self)->row; }

PyObject* represent(PyObject* self) {
  return PyUnicode_FromFormat("<function %s.%s>", reinterpret_cast<FunctionObject*>(self)->module,
                              row_of(self).name);
}
PyObject* get_name(PyObject* self, void*) { return PyUnicode_FromString(row_of(self).name); }
PyObject* get_module(PyObject* self, void*) {
  return PyUnicode_FromString(reinterpret_cast<FunctionObject*>(self)->module);
}
PyObject* get_signatures(PyObject* self, void*) {
  std::vector<std::string> list;
  for (const Overload& overload : row_of(self).overloads) {
    list.push_back(signature(row_of(self), overload));
  }
  try {
    return to_python(list);
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}
PyObject* get_own_documentation(PyObject* self, void*) {
  return PyUnicode_FromString(row_of(self).documentation);
}
PyObject* get_documentation(PyObject* self, void*) {
  std::string text;
  for (const Overload& overload : row_of(self).overloads) {
    text += signature(row_of(self), overload) + "\n";
  }
  return PyUnicode_FromString((text + "\n" + row_of(self).documentation).c_str());
}
// inspect.signature() reads it; defaults that are no literals are shown as None.
PyObject* get_text_signature(PyObject* self, void*) {
  const FunctionRow& row = row_of(self);
  if (row.overloads.size() != 1) Py_RETURN_NONE;
  std::string text = "(";
  bool keywords = false;
  for (const Parameter& parameter : row.overloads[0].parameters) {
    if (text.size() > 1) text += ", ";
    if (parameter.keyword_only && !keywords) {
      text += "*, ";
      keywords = true;
    }
    text += parameter.name;
    if (parameter.default_text != nullptr) {
      const bool literal = std::strcmp(parameter.default_text, "...") != 0;
      text += std::string("=") + (literal ? parameter.default_text : "None");
    }
  }
  return PyUnicode_FromString((text + ")").c_str());
}
PyObject* reduce(PyObject* self, PyObject*) { return get_name(self, nullptr); }

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(FunctionObject, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyGetSetDef properties[] = {{"__name__", get_name, nullptr, nullptr, nullptr},
                            {"__qualname__", get_name, nullptr, nullptr, nullptr},
                            {"__module__", get_module, nullptr, nullptr, nullptr},
                            {"__doc__", get_documentation, nullptr, nullptr, nullptr},
                            {"__text_signature__", get_text_signature, nullptr, nullptr, nullptr},
                            {"__signatures__", get_signatures, nullptr, nullptr, nullptr},
                            {"__documentation__", get_own_documentation, nullptr, nullptr, nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool create_function_type() {
  PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
      {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
      {Py_tp_descr_get, reinterpret_cast<void*>(bind)},
      {Py_tp_repr, reinterpret_cast<void*>(represent)},
      {Py_tp_members, members},
      {Py_tp_getset, properties},
      {Py_tp_methods, methods},
      {0, nullptr},
  };
  PyType_Spec spec{"extensor._core.Function", sizeof(FunctionObject), 0,
                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR |
                       Py_TPFLAGS_DISALLOW_INSTANTIATION,
                   slots};
  function_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return function_type != nullptr;
}

PyObject* make_function(const FunctionRow& row, const char* module) {
  auto* function = PyObject_New(FunctionObject, function_type);
  if (function == nullptr) throw PythonError();
  function->vectorcall = call;
  function->row = &row;
  function->module = module;
  function->names = new std::vector<std::vector<PyObject*>>;
  for (const Overload& overload : row.overloads) {
    if (overload.parameters.size() > max_parameters) {
      PyErr_Format(PyExc_SystemError, "%s has too many parameters", row.name);
      throw PythonError();
    }
    auto& names = function->names->emplace_back();
    for (const Parameter& parameter : overload.parameters) {
      names.push_back(checked(PyUnicode_InternFromString(parameter.name)));
    }
  }
  return reinterpret_cast<PyObject*>(function);
}

void add_functions(PyObject* target, std::span<const FunctionRow> rows, const char* module) {
  for (const FunctionRow& row : rows) {
    const Owned function(make_function(row, module));
    const std::string name = (row.wrapped ? "_" : "") + std::string(row.name);
    if (PyObject_SetAttrString(target, name.c_str(), function.get()) != 0) throw PythonError();
  }
}

}  // namespace extensor::python
