// The trainer, its callbacks, evaluation and metrics, for extensor/train.py.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <type_traits>

#include "datasets.h"
#include "in_use.h"
#include "optimizer_state.h"
#include "python_module.h"
#include "records.h"
#include "reflected.h"

namespace nb = nanobind;

namespace extensor::python {

// ---- models, loaders and losses as arguments

namespace {

// Whether the attribute of a Python object is a T of the bindings.
template <class T>
T* held(PyObject* object, const char* attribute) {
  const Owned value(PyObject_GetAttrString(object, attribute));
  if (!value) {
    PyErr_Clear();
    return nullptr;
  }
  return nb::isinstance<T>(value.get()) ? &nb::cast<T&>(nb::handle(value.get())) : nullptr;
}

struct Model {
  Model(PyObject* object, const char* function, PythonModule::Reference kind)
      : module(object, function, "model", kind), reference(module) {}
  PythonModule module;
  train::ModelReference reference;
};

PyObject* tensor_or_tuple(const std::vector<Tensor>& list) {
  return list.size() == 1 ? wrap(list[0]) : to_python(list);
}

}  // namespace

const ArgumentType types::model{"Any", "a Module", [](PyObject* value, const ArgumentType&, bool) {
                                  return PyObject_HasAttrString(value, "_members") == 1;
                                }};
const ArgumentType types::loader{"Any", "a DataLoader of extensor.data",
                                 [](PyObject* value, const ArgumentType&, bool) {
                                   return held<LoaderObject>(value, "_loader") != nullptr;
                                 }};
const ArgumentType types::loss{"Callable[..., Tensor] | None",
                               "a callable of outputs and targets, or None for cross-entropy",
                               types::function_or_none.matches};

const train::ModelReference& Call::model(int i) {
  set_large();
  auto model = std::make_shared<Model>(values[i], function, PythonModule::Reference::strong);
  kept_.push_back(model);
  return model->reference;
}

const data::DataLoader& Call::loader(int i) {
  set_large();
  const auto& loader = held<LoaderObject>(values[i], "_loader")->of_tensors();
  kept_.push_back(loader);
  return *loader;
}

train::Loss Call::loss(int i) {
  return {[f = share(values[i])](const std::vector<Tensor>& outputs,
                                 const std::vector<Tensor>& targets) {
    const WithGil gil;
    const Owned first(checked(tensor_or_tuple(outputs)));
    const Owned second(checked(tensor_or_tuple(targets)));
    const Owned result(
        checked(PyObject_CallFunctionObjArgs(f.get(), first.get(), second.get(), nullptr)));
    return as_tensor(result.get(), "the result of the loss");
  }};
}

// ---- fields of TrainerOptions and of the options of callbacks

template <>
struct Argument<train::Loss> {
  static constexpr const ArgumentType* type = &types::loss;
  static train::Loss read(Call& call, int i) { return call.loss(i); }
};
template <>
struct Argument<std::function<bool()>> {
  static constexpr const ArgumentType* type = &types::function_or_none;
  static std::function<bool()> read(Call& call, int i) {
    return [f = share(call.object(i))] {
      const WithGil gil;
      const Owned result(checked(PyObject_CallNoArgs(f.get())));
      const int is_true = PyObject_IsTrue(result.get());
      if (is_true < 0) throw PythonError();
      return is_true == 1;
    };
  }
};

namespace {

const ArgumentType schedule_type{"LRScheduler | None", "a schedule of extensor.optim or None",
                                 [](PyObject* value, const ArgumentType&, bool) {
                                   return value == Py_None ||
                                          held<ScheduleObject>(value, "_schedule") != nullptr;
                                 }};
const ArgumentType communicator_type{
    "None", "None: training on several processes is not available in Python",
    [](PyObject* value, const ArgumentType&, bool) { return value == Py_None; }};
constexpr const char* watched_names[] = {"loss", "accuracy", nullptr};
constexpr train::Watched watched_values[] = {train::Watched::loss, train::Watched::accuracy};
const ArgumentType watched_type{"Literal['loss', 'accuracy']", "a name", types::matches_name,
                                watched_names};

}  // namespace

template <>
struct Argument<optim::LRScheduler*> {
  static constexpr const ArgumentType* type = &schedule_type;
  static optim::LRScheduler* read(Call& call, int i) {
    const auto* object = held<ScheduleObject>(call.object(i), "_schedule");
    return object == nullptr ? nullptr : object->schedule.get();
  }
};
template <>
struct Argument<distributed::Communicator*> {
  static constexpr const ArgumentType* type = &communicator_type;
  static distributed::Communicator* read(Call&, int) { return nullptr; }
};
template <>
struct Names<train::Watched> {
  static constexpr const ArgumentType* type = &watched_type;
  static constexpr std::span<const train::Watched> values{watched_values};
};

// ---- callbacks

namespace {

// The facts of a RunRecord without its model.
struct RunFacts {
  std::int64_t epochs, batches, first_step, last_step;
};
struct FoundCheckpoint {
  std::filesystem::path path;
  std::int64_t step;
  std::vector<std::string> damaged;
};

struct CallbackObject {
  std::shared_ptr<train::Callback> callback;
};

// A callback of the C++ library that its Python object owns.
class SharedCallback final : public train::Callback {
 public:
  explicit SharedCallback(std::shared_ptr<train::Callback> callback)
      : callback_(std::move(callback)) {}
  void begin(const train::RunRecord& run) override { callback_->begin(run); }
  void step(const train::StepRecord& step) override { callback_->step(step); }
  void evaluation(const train::EvaluationRecord& record) override { callback_->evaluation(record); }
  void end(const train::Outcome& outcome) override { callback_->end(outcome); }
  bool wants_to_stop() const override { return callback_->wants_to_stop(); }
  void save(train::Checkpoint& checkpoint) const override { callback_->save(checkpoint); }
  void load(const train::Checkpoint& checkpoint) override { callback_->load(checkpoint); }

 private:
  std::shared_ptr<train::Callback> callback_;
};

// A callback written in Python.
class PythonCallback final : public train::Callback {
 public:
  PythonCallback(PyObject* object, std::string name)
      : object_(share(object)), name_(std::move(name)) {}
  void begin(const train::RunRecord& run) override {
    call("begin", RunFacts{run.epochs, run.batches, run.first_step, run.last_step});
  }
  void step(const train::StepRecord& step) override { call("step", step); }
  void evaluation(const train::EvaluationRecord& value) override { call("evaluation", value); }
  void end(const train::Outcome& outcome) override { call("end", outcome); }
  bool wants_to_stop() const override {
    const WithGil gil;
    const Owned result(checked(PyObject_CallMethod(object_.get(), "wants_to_stop", nullptr)));
    const int is_true = PyObject_IsTrue(result.get());
    if (is_true < 0) throw PythonError();
    return is_true == 1;
  }
  // state_dict() of the object: numbers.
  void save(train::Checkpoint& checkpoint) const override {
    const WithGil gil;
    const Owned state(checked(PyObject_CallMethod(object_.get(), "state_dict", nullptr)));
    if (!PyDict_Check(state.get())) {
      throw ArgumentError(std::string("Trainer: state_dict() of a callback is ") +
                          Py_TYPE(state.get())->tp_name + " (accepted: a dict of numbers)");
    }
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(state.get(), &at, &key, &value) != 0;) {
      const char* text = PyUnicode_AsUTF8(key);
      if (text == nullptr) throw PythonError();
      const double number = PyFloat_AsDouble(value);
      if (number == -1 && PyErr_Occurred() != nullptr) throw PythonError();
      checkpoint.numbers[name_ + text] = number;
    }
  }
  void load(const train::Checkpoint& checkpoint) override {
    const WithGil gil;
    const Owned state(checked(PyDict_New()));
    for (const auto& [key, value] : checkpoint.numbers) {
      if (!key.starts_with(name_)) continue;
      const Owned number(checked(to_python(value)));
      if (PyDict_SetItemString(state.get(), key.c_str() + name_.size(), number.get()) != 0) {
        throw PythonError();
      }
    }
    call_with("load_state_dict", state.get());
  }

 private:
  template <class Record>
  void call(const char* method, const Record& value) {
    const WithGil gil;
    const Owned argument(checked(record(value)));
    call_with(method, argument.get());
  }
  void call_with(const char* method, PyObject* argument) {
    const Owned name(checked(PyUnicode_FromString(method)));
    Py_DECREF(checked(PyObject_CallMethodOneArg(object_.get(), name.get(), argument)));
  }

  std::shared_ptr<PyObject> object_;
  std::string name_;  // of its numbers in a checkpoint
};

PyObject* made(std::shared_ptr<train::Callback> callback) {
  return nb::cast(CallbackObject{std::move(callback)}).release().ptr();
}
PyObject* make_early_stopping(Call& call) {
  return made(
      std::make_shared<train::EarlyStopping>(read_fields<train::EarlyStoppingOptions>(call, 0)));
}
PyObject* make_best_model(Call& call) {
  return made(std::make_shared<train::BestModel>(
      call.path(0),
      call.has(1) ? Argument<train::Watched>::read(call, 1) : train::Watched::accuracy));
}
PyObject* make_json_log(Call& call) { return made(std::make_shared<train::JsonLog>(call.path(0))); }
PyObject* make_event_log(Call& call) {
  return made(std::make_shared<train::EventLog>(call.path(0)));
}

// ---- the trainer

class TrainerObject {
 public:
  // `optimizer` is the object of one. The Trainer in Python keeps the schedule and the model alive.
  TrainerObject(PyObject* model, PyObject* optimizer, const train::TrainerOptions& options)
      : model_object_(model),
        owner_(share(optimizer)),
        optimizer_(&optimizer_in(optimizer)),
        schedule_(options.schedule),
        model_(model, "Trainer", PythonModule::Reference::weak),
        trainer_(model_.reference, *optimizer_, options) {}

  void add(nb::handle callback) {
    const InUse use(this, "Trainer.add");
    if (auto* own = held<CallbackObject>(callback.ptr(), "_callback")) {
      trainer_.add<SharedCallback>(own->callback);
    } else {
      const std::string name = "callback." + std::to_string(python_callbacks_++) + ".";
      trainer_.add<PythonCallback>(callback.ptr(), name);
    }
  }
  PyObject* fit(const LoaderObject& training, const LoaderObject* held_out) {
    const train::Outcome outcome = alone("Trainer.fit", [&] {
      return trainer_.fit(*training.of_tensors(),
                          held_out == nullptr ? nullptr : held_out->of_tensors().get());
    });
    return record(outcome);
  }
  PyObject* resume() {
    const auto found = alone("Trainer.resume", [&] { return trainer_.resume(); });
    if (!found) Py_RETURN_NONE;
    return record(FoundCheckpoint{found->path, found->step, found->damaged});
  }
  std::int64_t step() const { return trainer_.step(); }

 private:
  // Calls the function without the GIL. No other thread may use what it uses.
  template <class F>
  std::invoke_result_t<F> alone(const char* name, F&& function) {
    const InUse use(this, name), model(model_object_, name), optimizer(optimizer_, name);
    std::optional<InUse> schedule;
    if (schedule_ != nullptr) schedule.emplace(schedule_, name);
    const WithoutGil released;
    return function();
  }

  const void* model_object_;
  std::shared_ptr<PyObject> owner_;  // of the optimizer
  optim::Optimizer* optimizer_;
  optim::LRScheduler* schedule_;
  Model model_;
  train::Trainer trainer_;
  int python_callbacks_ = 0;
};

const ArgumentType optimizer_type{"Optimizer", "an optimizer of extensor.optim",
                                  [](PyObject* value, const ArgumentType&, bool) {
                                    return held<optim::Optimizer>(value, "_optimizer") != nullptr;
                                  }};

PyObject* make_trainer(Call& call) {
  const Owned optimizer(checked(PyObject_GetAttrString(call.object(1), "_optimizer")));
  return nb::cast(new TrainerObject(call.object(0), optimizer.get(),
                                    read_fields<train::TrainerOptions>(call, 2)),
                  nb::rv_policy::take_ownership)
      .release()
      .ptr();
}

nb::object take(PyObject* object) { return nb::steal(checked(object)); }

void add_metrics(nb::module_& module) {
  using train::ConfusionMatrix;
  nb::class_<ConfusionMatrix>(module, "ConfusionMatrix",
                              "Counts of predictions: rows are targets, columns predictions.")
      .def(nb::init<std::int64_t>(), nb::arg("classes"))
      .def(
          "add",
          [](ConfusionMatrix& self, nb::handle predictions, nb::handle targets) {
            self.add(as_tensor(predictions.ptr(), "add: argument 'predictions'"),
                     as_tensor(targets.ptr(), "add: argument 'targets'"));
          },
          nb::arg("predictions"), nb::arg("targets"))
      .def("matrix", [](const ConfusionMatrix& self) { return take(wrap(self.matrix())); })
      .def("classes", &ConfusionMatrix::classes)
      .def("count", &ConfusionMatrix::count)
      .def("at", &ConfusionMatrix::at, nb::arg("target"), nb::arg("prediction"))
      .def("accuracy", &ConfusionMatrix::accuracy)
      .def("precision", &ConfusionMatrix::precision, nb::arg("k"))
      .def("recall", &ConfusionMatrix::recall, nb::arg("k"))
      .def("f1", &ConfusionMatrix::f1, nb::arg("k"))
      .def("macro_f1", &ConfusionMatrix::macro_f1);
}

}  // namespace

PyObject* to_python(const train::ConfusionMatrix& matrix) {
  return nb::cast(matrix).release().ptr();
}

void add_training(nb::module_& module) {
  PyObject* m = module.ptr();
  add_metrics(module);
  add_record<RunFacts>(m, "RunRecord", "Facts known before the first step.");
  add_record<train::StepRecord>(m, "StepRecord", "One step of the optimizer.");
  add_record<train::EvaluationRecord>(m, "EvaluationRecord", "One evaluation.");
  add_record<train::Outcome>(m, "Outcome", "How a run ended.");
  add_record<FoundCheckpoint>(m, "FoundCheckpoint", "The checkpoint from which a run resumes.");

  nb::class_<CallbackObject>(module, "_Callback")
      .def("wants_to_stop",
           [](const CallbackObject& self) { return self.callback->wants_to_stop(); })
      .def("best", [](const CallbackObject& self) {
        const auto* best = dynamic_cast<const train::BestModel*>(self.callback.get());
        return best == nullptr ? std::numeric_limits<double>::quiet_NaN() : best->best();
      });
  nb::class_<TrainerObject>(module, "_Trainer")
      .def("add", &TrainerObject::add)
      .def(
          "fit",
          [](TrainerObject& self, const LoaderObject& training, nb::handle held_out) {
            return take(self.fit(
                training, held_out.is_none() ? nullptr : &nb::cast<LoaderObject&>(held_out)));
          },
          nb::arg("training"), nb::arg("held_out").none())
      .def("resume", [](TrainerObject& self) { return take(self.resume()); })
      .def("step", &TrainerObject::step);

  nb::module_ classes = module.def_submodule("_trainers");
  PyObject* c = classes.ptr();
  std::vector<Parameter> parameters{{"model", &types::model, nullptr},
                                    {"optimizer", &optimizer_type, nullptr}};
  append_fields<train::TrainerOptions>(parameters);
  add_function(c, "Trainer", "", std::move(parameters), "Any", make_trainer);
  nb::module_ callbacks = module.def_submodule("_callbacks");
  c = callbacks.ptr();
  std::vector<Parameter> stopping;
  append_fields<train::EarlyStoppingOptions>(stopping);
  add_function(c, "EarlyStopping", "Ends a run when evaluations no longer improve.",
               std::move(stopping), "Any", make_early_stopping);
  add_function(c, "BestModel", "Saves the weights of the best evaluation to a safetensors file.",
               {{"path", &types::path, nullptr}, {"watched", &watched_type, "'accuracy'"}}, "Any",
               make_best_model);
  add_function(c, "JsonLog", "Writes a line of JSON for every step and evaluation.",
               {{"path", &types::path, nullptr}}, "Any", make_json_log);
  add_function(c, "EventLog", "Writes curves for TensorBoard to a directory.",
               {{"directory", &types::path, nullptr}}, "Any", make_event_log);
}

}  // namespace extensor::python
