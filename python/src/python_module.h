// A Module written in Python as a C++ module, for everything that takes any model: conversions,
// summaries, evaluation and the trainer.
#pragma once

#include <Python.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "errors.h"
#include "extensor/nn/module.h"

namespace extensor::python {

class PythonModule final : public nn::Module<PythonModule> {
 public:
  enum class Reference { strong, weak };
  // Throws ArgumentError, which names the function and the argument, unless it is a Module. A weak
  // reference is for objects that the module may own: the garbage collector does not see this one.
  PythonModule(PyObject* module, const char* function, const char* argument,
               Reference reference = Reference::strong);

  // Calls the Python object, with the GIL. Several results come as a tuple or a list.
  std::vector<Tensor> forward(const std::vector<Tensor>& inputs) const;
  void visit(nn::Walker& walker);
  nn::ModuleDescription description() const;

 private:
  Owned object() const;  // throws Error if the module is gone
  void walk_inside(PyObject* module, const std::string& path, nn::Walker& walker);

  std::shared_ptr<PyObject> module_;  // or a weak reference to it
  Reference reference_;
  // A walker keeps pointers to members beyond its walk: one object for each name. The flags are
  // copies, which Python sees only during the walk.
  std::map<std::string, nn::Training> flags_;
  std::map<std::string, std::unique_ptr<nn::Parameter>> parameters_;
  std::map<std::string, std::unique_ptr<nn::Buffer>> buffers_;
};

}  // namespace extensor::python
