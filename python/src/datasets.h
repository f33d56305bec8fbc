// Datasets and loaders as Python objects.
#pragma once

#include <Python.h>

#include <memory>

#include "errors.h"
#include "extensor/data.h"
#include "extensor/train/evaluation.h"

namespace extensor::python {

struct DatasetObject {
  std::shared_ptr<const data::Dataset> dataset;
};
struct SamplerObject {
  data::SamplerPointer sampler;
};
struct TransformObject {
  data::Transform transform;
};

// The batches of a dataset that is written in Python are Python objects of any kind, which pass
// through the loader in an envelope: a tensor whose storage owns the object.
Tensor envelope(PyObject* object);
PyObject* opened(const Tensor& envelope);  // borrowed

class LoaderObject {
 public:
  LoaderObject(std::shared_ptr<const data::Dataset> dataset, bool is_python,
               const data::DataLoaderOptions& options);
  const data::DataLoader& loader() const { return loader_; }
  bool is_python() const { return is_python_; }
  // The same with batches of inputs and targets, for the trainer and evaluate().
  const std::shared_ptr<const data::DataLoader>& of_tensors() const { return of_tensors_; }

 private:
  data::DataLoader loader_;
  std::shared_ptr<const data::DataLoader> of_tensors_;
  bool is_python_;
};

// (inputs, targets), with a tuple where there are several.
PyObject* to_python(const data::Batch& batch);

}  // namespace extensor::python
