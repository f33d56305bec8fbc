#include "nn/calls.h"

#include <cctype>

#include "core/check.h"
#include "nn/naming_walker.h"

namespace extensor::nn::detail {

using extensor::detail::message;

// ---- observers

constinit std::atomic<int> observing_threads{0};

namespace {

thread_local ModuleObserver* observer = nullptr;

}  // namespace

ObserverScope::ObserverScope(ModuleObserver& sees) : before_(std::exchange(observer, &sees)) {
  observing_threads.fetch_add(1, std::memory_order_relaxed);
}
ObserverScope::~ObserverScope() {
  observing_threads.fetch_sub(1, std::memory_order_relaxed);
  observer = before_;
}

ObservedCall::ObservedCall(const ModuleDescription& module) : observer_(observer) {
  if (observer_ != nullptr) observer_->enter(module);
}
ObservedCall::~ObservedCall() {
  if (observer_ != nullptr) observer_->leave();
}
void ObservedCall::result(const Tensor& output) const {
  if (observer_ != nullptr) observer_->result(output);
}

// ---- the places of errors

// Converts "ModuleList<net::Block>" to "ModuleList<Block>".
std::string unqualified(std::string_view type) {
  std::string name;
  for (std::size_t at = 0; at < type.size(); ++at) {
    if (!type.substr(at).starts_with("::")) {
      name += type[at];
      continue;
    }
    while (!name.empty() &&
           (std::isalnum(static_cast<unsigned char>(name.back())) != 0 || name.back() == '_')) {
      name.pop_back();
    }
    ++at;
  }
  return name;
}

namespace {

// The path of a module inside another one.
class Finder final : public NamingWalker {
 public:
  Finder(const void* address, std::string_view type) : address_(address), type_(type) {}
  void enter(std::string_view name, const ModuleDescription& module) override {
    NamingWalker::enter(name, module);
    // A module and its first member have the same address, but not the same type.
    if (found.empty() && module.address == address_ && module.type == type_) {
      found = std::string(path());
    }
  }
  void tensor(std::string_view, const Tensor&) override {}  // state_dict() judges it

  std::string found;

 private:
  const void* address_;
  std::string_view type_;
};

// The error that is on its way through the calls of modules.
struct Place {
  const Error* error = nullptr;
  std::string text;               // of the error, with the place
  std::string message, trace;     // of the error before it had a place
  const void* address = nullptr;  // of the module that was called last, and its type
  std::string_view type = {};
  std::string path;  // of that module, from the outermost module that the error has passed
  std::string inputs;
};
thread_local Place place;

constexpr std::string_view trace_begins = "\nStack trace";

std::string described(std::span<const Tensor* const> inputs) {
  std::string text;
  for (const Tensor* input : inputs) {
    if (input == nullptr || !input->defined()) continue;
    text += message(text.empty() ? "" : ", ", input->dtype(), " ", input->shape());
  }
  return text;
}

}  // namespace

void add_place(Error& error, const Walk& walk, const ModuleDescription& module,
               std::span<const Tensor* const> inputs) {
  const std::string what = error.what();
  if (place.error != &error || place.text != what) {
    const std::size_t trace = std::min(what.find(trace_begins), what.size());
    place = {&error,         what,        what.substr(0, trace),    what.substr(trace),
             module.address, module.type, unqualified(module.type), described(inputs)};
  } else {
    Finder finder(place.address, place.type);
    walk(finder);
    const std::string type = unqualified(module.type);
    // The path so far begins with the type of a module inside this one. A module that is not a
    // member, such as one made within forward(), keeps its type.
    place.path = finder.found.empty() ? type + " > " + place.path : type + "." + finder.found;
  }
  place.text = message(place.message, "\n  in ", place.path,
                       place.inputs.empty() ? "" : ", called with ", place.inputs, place.trace);
  static_cast<std::runtime_error&>(error) = std::runtime_error(place.text);
}

}  // namespace extensor::nn::detail
