// Datasets and samplers written in Python, and the datasets of the C++ library.
#include "datasets.h"

#include <nanobind/nanobind.h>

#include "reflected.h"

namespace nb = nanobind;

namespace extensor::python {

// ---- Python objects as batches

Tensor envelope(PyObject* object) {
  struct Contents {
    PyObject* object;
  };
  auto contents = std::make_unique<Contents>(Contents{object});
  const auto release = [](void* context) {
    const std::unique_ptr<Contents> owned(static_cast<Contents*>(context));
    if (Py_IsInitialized() == 0) return;
    const WithGil gil;
    Py_DECREF(owned->object);
  };
  Tensor result = from_external(static_cast<const void*>(&contents->object), int64, {1}, {1},
                                release, contents.get());
  Py_INCREF(object);
  static_cast<void>(contents.release());
  return result;
}

PyObject* opened(const Tensor& envelope) {
  return *reinterpret_cast<PyObject* const*>(envelope.impl().data);
}

PyObject* to_python(const data::Batch& batch) {
  const auto part = [](const std::vector<Tensor>& all) {
    return Owned(checked(all.size() == 1 ? wrap(all[0]) : to_python(all)));
  };
  const Owned inputs = part(batch.all_inputs()), targets = part(batch.all_targets());
  return PyTuple_Pack(2, inputs.get(), targets.get());
}

namespace {

PyObject* list_of(std::span<const std::int64_t> numbers) {
  Owned list(checked(PyList_New(std::ssize(numbers))));
  for (std::size_t k = 0; k < numbers.size(); ++k) {
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(k), checked(python::to_python(numbers[k])));
  }
  return list.release();
}

// Calls load(indices) for each batch.
class PythonDataset final : public data::Dataset {
 public:
  PythonDataset(std::int64_t size, PyObject* load) : size_(size), load_(share(load)) {}
  std::int64_t size() const override { return size_; }
  data::Batch batch(const data::Request& request) const override {
    const WithGil gil;
    const Owned indices(checked(list_of(request.indices)));
    const Owned loaded(checked(PyObject_CallOneArg(load_.get(), indices.get())));
    data::Batch batch;
    batch.inputs = envelope(loaded.get());
    batch.indices.assign(request.indices.begin(), request.indices.end());
    return batch;
  }

 private:
  std::int64_t size_;
  std::shared_ptr<PyObject> load_;
};

// The tensors of one half of a batch.
std::vector<Tensor> tensors_in(PyObject* half, const char* name) {
  std::vector<Tensor> list;
  if (!PyTuple_Check(half) && !PyList_Check(half)) {
    list.push_back(as_tensor(half, name));
    return list;
  }
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(half); ++k) {
    list.push_back(as_tensor(PySequence_Fast_GET_ITEM(half, k), name));
  }
  if (list.empty())
    throw ValueError(std::string(name) + " are empty (allowed: one or more tensors)");
  return list;
}

// Inputs and targets from the Python objects that another dataset loads.
class TensorBatches final : public data::Dataset {
 public:
  explicit TensorBatches(std::shared_ptr<const data::Dataset> objects)
      : objects_(std::move(objects)) {}
  std::int64_t size() const override { return objects_->size(); }
  data::Batch batch(const data::Request& request) const override {
    data::Batch batch = objects_->batch(request);
    const WithGil gil;
    PyObject* pair = opened(batch.inputs);
    if ((!PyTuple_Check(pair) && !PyList_Check(pair)) || PySequence_Fast_GET_SIZE(pair) != 2) {
      throw ArgumentError(
          std::string("Trainer: a batch is ") + Py_TYPE(pair)->tp_name +
          " (accepted: a pair of inputs and targets, each a tensor or a tuple of tensors)");
    }
    const Owned held(Py_NewRef(pair));
    std::vector<Tensor> inputs =
        tensors_in(PySequence_Fast_GET_ITEM(pair, 0), "Trainer: the inputs of a batch");
    std::vector<Tensor> targets =
        tensors_in(PySequence_Fast_GET_ITEM(pair, 1), "Trainer: the targets of a batch");
    batch.inputs = inputs[0];
    batch.more_inputs.assign(inputs.begin() + 1, inputs.end());
    batch.targets = targets[0];
    batch.more_targets.assign(targets.begin() + 1, targets.end());
    return batch;
  }

 private:
  std::shared_ptr<const data::Dataset> objects_;
};

// An object with __len__ and __iter__, whose elements are the examples of an epoch.
class PythonSampler final : public data::Sampler {
 public:
  explicit PythonSampler(PyObject* sampler) : sampler_(share(sampler)) {}
  std::int64_t size(std::int64_t) const override {
    const WithGil gil;
    const Py_ssize_t size = PyObject_Length(sampler_.get());
    if (size < 0) throw PythonError();
    return size;
  }
  std::vector<std::int64_t> order(std::int64_t, std::uint64_t, std::int64_t) const override {
    const WithGil gil;
    const Owned list(checked(PySequence_List(sampler_.get())));
    std::vector<std::int64_t> order;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(list.get()); ++k) {
      order.push_back(
          to_int64(PyList_GET_ITEM(list.get(), k), "DataLoader: an element of the sampler"));
    }
    return order;
  }

 private:
  std::shared_ptr<PyObject> sampler_;
};

const ArgumentType sampler_type{"Any", "a Sampler, an object with __len__ and __iter__, or None",
                                [](PyObject* value, const ArgumentType&, bool) {
                                  return value == Py_None || nb::isinstance<SamplerObject>(value) ||
                                         (PyObject_HasAttrString(value, "__len__") == 1 &&
                                          PyObject_HasAttrString(value, "__iter__") == 1);
                                }};

}  // namespace

PyObject* to_python(const data::SamplerPointer& sampler) {
  return nb::cast(SamplerObject{sampler}).release().ptr();
}

template <>
struct Argument<data::SamplerPointer> {
  static constexpr const ArgumentType* type = &sampler_type;
  static data::SamplerPointer read(Call& call, int i) {
    PyObject* value = call.object(i);
    if (value == nullptr || value == Py_None) return nullptr;
    if (nb::isinstance<SamplerObject>(value))
      return nb::cast<SamplerObject&>(nb::handle(value)).sampler;
    return std::make_shared<PythonSampler>(value);
  }
};

LoaderObject::LoaderObject(std::shared_ptr<const data::Dataset> dataset, bool is_python,
                           const data::DataLoaderOptions& options)
    : loader_(dataset, options),
      of_tensors_(std::make_shared<data::DataLoader>(
          is_python ? std::make_shared<TensorBatches>(dataset) : dataset, loader_.options())),
      is_python_(is_python) {}

// ---- functions of extensor/data.py

namespace {

// A pass over an epoch. Worker threads may need the GIL to end, so the destructor releases it. The
// GIL guards the members, but not the pass while next() runs without it.
class EpochObject {
 public:
  EpochObject(data::DataLoader::Epoch epoch, bool is_python)
      : epoch_(std::make_unique<data::DataLoader::Epoch>(std::move(epoch))),
        is_python_(is_python) {}
  EpochObject(EpochObject&&) = default;
  EpochObject& operator=(EpochObject&&) = default;
  ~EpochObject() { close(); }

  // A call of next() that has not returned closes the pass when it does.
  void close() {
    if (epoch_ == nullptr) return;
    if (process_ != getpid()) {  // a fork: the threads are not here
      static_cast<void>(epoch_.release());
      return;
    }
    is_closing_ = true;
    if (is_running_) return;
    std::unique_ptr<data::DataLoader::Epoch> ended = std::move(epoch_);
    const WithoutGil released;
    ended = nullptr;
  }

  // Raises StopIteration at the end. A part of a batch without examples is None.
  PyObject* next() {
    if (epoch_ == nullptr || is_closing_) stop();
    if (process_ != getpid()) {
      throw ValueError(
          "DataLoader: the iteration was begun in another process (allowed: iter(loader) after "
          "the fork)");
    }
    if (is_running_) {
      throw ValueError(
          "DataLoader: the iteration is waiting for a batch already (allowed: one next() at a "
          "time, "
          "or an iter(loader) for each thread)");
    }
    std::optional<data::Batch> batch;
    try {
      is_running_ = true;
      const WithoutGil released;
      batch = epoch_->next();
    } catch (...) {
      finish_call(true);
      throw;
    }
    finish_call(batch.has_value());
    if (!batch) stop();
    if (!batch->inputs.defined()) Py_RETURN_NONE;
    return is_python_ ? Py_NewRef(opened(batch->inputs)) : to_python(*batch);
  }

 private:
  [[noreturn]] static void stop() {
    PyErr_SetNone(PyExc_StopIteration);
    throw PythonError();
  }
  void finish_call(bool continues) {
    is_running_ = false;
    if (!continues || is_closing_) close();
  }

  std::unique_ptr<data::DataLoader::Epoch> epoch_;
  bool is_python_;
  bool is_running_ = false, is_closing_ = false;
  pid_t process_ = getpid();
};

const ArgumentType dataset_type{"Any", "a dataset of extensor.data",
                                [](PyObject* value, const ArgumentType&, bool) {
                                  return nb::isinstance<DatasetObject>(value);
                                }};
const ArgumentType transforms_type{
    "Sequence[Any]", "a list or tuple of transforms: those of extensor.data, or functions",
    [](PyObject* value, const ArgumentType&, bool) {
      if (!PyList_Check(value) && !PyTuple_Check(value)) return false;
      for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(value); ++k) {
        if (PyCallable_Check(PySequence_Fast_GET_ITEM(value, k)) == 0) return false;
      }
      return true;
    }};

PyObject* made(DatasetObject dataset) { return nb::cast(std::move(dataset)).release().ptr(); }

PyObject* make_loader(Call& call) {
  const bool is_python = call.boolean(1);
  const auto options = read_fields<data::DataLoaderOptions>(call, 2);
  const DatasetObject& given = nb::cast<DatasetObject&>(nb::handle(call.object(0)));
  return nb::cast(new LoaderObject(given.dataset, is_python, options),
                  nb::rv_policy::take_ownership)
      .release()
      .ptr();
}

Tensor tensor_of_image(const data::Image& image) {
  return from_data(image.pixels, {image.channels, image.height, image.width});
}

data::Image image_of(const Tensor& tensor) {
  Tensor x = tensor.ndim() == 2 ? tensor.unsqueeze(0) : tensor;
  if (x.ndim() != 3) {
    throw ShapeError("transform: the image has shape " + to_string(tensor.shape()) +
                     " (allowed: [height, width] or [channels, height, width])");
  }
  const bool bytes = x.dtype() == uint8;
  x = x.to(float32);
  if (bytes) x = x / 255;
  data::Image image{x.size(0), x.size(1), x.size(2), x.contiguous().to_vector<float>()};
  return image;
}

// A Python function of an image, float32 [channels, height, width], that returns another one.
data::Transform python_transform(PyObject* function) {
  return [f = share(function)](data::Image& image, data::Draws&) {
    const WithGil gil;
    const Owned argument(checked(wrap(tensor_of_image(image))));
    const Owned result(checked(PyObject_CallOneArg(f.get(), argument.get())));
    image = image_of(as_tensor(result.get(), "the result of a transform").detach());
  };
}

PyObject* make_images(Call& call) {
  data::LabelledImages images{call.tensor(0), call.tensor(1), call.strings(2)};
  std::vector<data::Transform> transforms;
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(call.object(3)); ++k) {
    PyObject* item = PySequence_Fast_GET_ITEM(call.object(3), k);
    transforms.push_back(nb::isinstance<TransformObject>(item)
                             ? nb::cast<TransformObject&>(nb::handle(item)).transform
                             : python_transform(item));
  }
  return made({std::make_shared<data::ImageDataset>(std::move(images), std::move(transforms))});
}

PyObject* make_text(Call& call) {
  return made({std::make_shared<data::TextDataset>(call.tensor(0), call.integer(1))});
}

// The positions of the parts that random_split() makes of a dataset of this size.
PyObject* split(Call& call) {
  class Numbers final : public data::Dataset {
   public:
    explicit Numbers(std::int64_t size) : size_(size) {}
    std::int64_t size() const override { return size_; }
    data::Batch batch(const data::Request& request) const override {
      data::Batch batch;
      batch.indices.assign(request.indices.begin(), request.indices.end());
      return batch;
    }

   private:
    std::int64_t size_;
  };
  std::vector<std::vector<std::int64_t>> parts;
  for (const auto& part : data::random_split(std::make_shared<Numbers>(call.integer(0)),
                                             call.numbers(1), call.unsigned_integer(2))) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(part->size()));
    for (std::size_t k = 0; k < all.size(); ++k) all[k] = static_cast<std::int64_t>(k);
    parts.push_back(part->batch({all}).indices);
  }
  Owned result(checked(PyList_New(std::ssize(parts))));
  for (std::size_t k = 0; k < parts.size(); ++k) {
    PyList_SET_ITEM(result.get(), static_cast<Py_ssize_t>(k), checked(list_of(parts[k])));
  }
  return result.release();
}

nb::object take(PyObject* object) { return nb::steal(checked(object)); }

data::Batch batch_at(const DatasetObject& self, const std::vector<std::int64_t>& indices,
                     std::uint64_t seed, std::int64_t epoch) {
  const WithoutGil released;
  return self.dataset->batch({indices, seed, epoch});
}

}  // namespace

PyObject* to_python(const data::Transform& transform) {
  return nb::cast(TransformObject{transform}).release().ptr();
}

void add_datasets(nb::module_& module) {
  nb::class_<DatasetObject>(module, "_Dataset")
      .def("__len__", [](const DatasetObject& self) { return self.dataset->size(); })
      .def("batch", [](const DatasetObject& self, const nb::list& indices, std::uint64_t seed,
                       std::int64_t epoch) {
        std::vector<std::int64_t> list;
        for (const nb::handle index : indices) list.push_back(to_int64(index.ptr(), "an index"));
        return take(to_python(batch_at(self, list, seed, epoch)));
      });
  nb::class_<SamplerObject>(module, "Sampler", "Chooses the examples of an epoch and their order.")
      .def(
          "order",
          [](const SamplerObject& self, std::int64_t examples, std::uint64_t seed,
             std::int64_t epoch) {
            return take(list_of(self.sampler->order(examples, seed, epoch)));
          },
          nb::arg("examples"), nb::arg("seed") = 0, nb::arg("epoch") = 0);
  nb::class_<TransformObject>(module, "Transform",
                              "One step of preparing an image, [channels, height, width].")
      .def(
          "__call__",
          [](const TransformObject& self, nb::handle given, std::uint64_t seed, std::int64_t epoch,
             std::int64_t index) {
            data::Image image = image_of(as_tensor(given.ptr(), "transform: the image"));
            data::Draws draws(seed, epoch, index);
            {
              const WithoutGil released;
              self.transform(image, draws);
            }
            return take(wrap(tensor_of_image(image)));
          },
          nb::arg("image"), nb::arg("seed") = 0, nb::arg("epoch") = 0, nb::arg("index") = 0);
  nb::class_<EpochObject>(module, "_Epoch")
      .def("next", [](EpochObject& self) { return take(self.next()); })
      .def("close", &EpochObject::close);
  nb::class_<LoaderObject>(module, "_Loader")
      .def("__len__", [](const LoaderObject& self) { return self.loader().batches(); })
      .def("order", [](const LoaderObject& self,
                       std::int64_t epoch) { return take(list_of(self.loader().order(epoch))); })
      .def("epoch", [](const LoaderObject& self, std::int64_t epoch, std::int64_t first) {
        return EpochObject(self.loader().epoch(epoch, first), self.is_python());
      });
  module.def("_python_dataset", [](std::int64_t size, nb::callable load) {
    return DatasetObject{std::make_shared<PythonDataset>(size, load.ptr())};
  });

  std::vector<Parameter> parameters{{"dataset", &dataset_type, nullptr},
                                    {"is_python", &types::boolean, nullptr}};
  append_fields<data::DataLoaderOptions>(parameters);
  nb::module_ loaders = module.def_submodule("_loaders");
  PyObject* m = loaders.ptr();
  add_function(m, "DataLoader", "", std::move(parameters), "Any", make_loader);
  add_function(m, "ImageDataset", "",
               {{"images", &types::tensor, nullptr},
                {"labels", &types::tensor, nullptr},
                {"classes", &types::strings, nullptr},
                {"transforms", &transforms_type, nullptr}},
               "Any", make_images);
  add_function(m, "TextDataset", "",
               {{"tokens", &types::tensor, nullptr}, {"block", &types::integer, nullptr}}, "Any",
               make_text);
  add_function(m, "random_split", "",
               {{"size", &types::integer, nullptr},
                {"parts", &types::numbers, nullptr},
                {"seed", &types::integer, nullptr}},
               "list[list[int]]", split);
}

}  // namespace extensor::python
