// The ExTensor side of `./ex bench ops`: a program that prepares and times the calls that ops.py
// sends. Requests and answers are JSON, one per line:
//
//   {"do": "ops"}                                   -> {"ops": [[name, aliases...], ...]}
//   {"do": "prepare", "tensors": {...}, "call": {...}, "backward": false}
//                                                   -> {"shapes": [[2, 3], ...]}
//   {"do": "measure", "seconds": 0.02}              -> {"wall": 1e-5, "cpu": 1e-5}  per call
//
// An error is answered with {"error": text}. torch_worker.py is the PyTorch side.
#include <chrono>
#include <cmath>
#include <ctime>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "extensor/extensor.h"
#include "op_database/op_database.h"
#include "support/call_expression.h"

namespace extensor::bench {
namespace {

using nlohmann::json;
using Tensors = std::map<std::string, Tensor>;
using Sizes = std::vector<std::int64_t>;

DType dtype_of(const std::string& text) {
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16,
                            DType::int8, DType::int32, DType::int64, DType::uint8, DType::bool_}) {
    if (text == name(dtype)) return dtype;
  }
  throw std::invalid_argument("unknown dtype '" + text + "'");
}

// Row-major values; ops.py explains the kinds.
Tensor values_of(const json& spec, const Sizes& sizes) {
  const std::string kind = spec.at("values");
  const DType dtype = dtype_of(spec.at("dtype"));
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  const Shape shape(sizes);
  if (kind == "normal") {
    return is_floating_point(dtype) ? randn(shape).to(dtype) : randint(-100, 101, shape).to(dtype);
  }
  if (kind == "uniform") {
    return uniform(shape, spec.at("low").get<double>(), spec.at("high").get<double>()).to(dtype);
  }
  if (kind == "integers") {
    return randint(spec.at("low").get<std::int64_t>(), spec.at("high").get<std::int64_t>(), shape)
        .to(dtype);
  }
  if (kind == "bool") return bernoulli(0.5, shape).to(bool_);
  if (kind == "sorted") return arange(count).to(dtype).reshape(shape);
  if (kind == "permutation") return randperm(count).to(dtype).reshape(shape);
  throw std::invalid_argument("unknown values '" + kind + "'");
}

// A tensor of the specified shape, values and memory layout.
Tensor make_tensor(const json& spec) {
  auto shape = spec.at("shape").get<Sizes>();
  const auto rank = static_cast<std::int64_t>(shape.size());
  Tensor tensor;
  if (spec.contains("order")) {  // the axes from the slowest to the fastest in memory
    const auto order = spec["order"].get<Sizes>();
    Sizes memory, back(shape.size());
    for (std::size_t k = 0; k < order.size(); ++k) {
      memory.push_back(shape.at(static_cast<std::size_t>(order[k])));
      back.at(static_cast<std::size_t>(order[k])) = static_cast<std::int64_t>(k);
    }
    tensor = permute_dims(values_of(spec, memory), back);
  } else if (spec.contains("stepped")) {  // every second element along an axis
    const auto axis = (spec["stepped"].get<std::int64_t>() + rank) % rank;
    shape.at(static_cast<std::size_t>(axis)) *= 2;
    tensor = values_of(spec, shape).slice(axis, {}, {}, 2);
  } else if (spec.contains("broadcast")) {  // along the first axis
    Sizes row = shape;
    row.at(0) = 1;
    tensor = values_of(spec, row).broadcast_to(shape);
  } else {
    tensor = values_of(spec, shape);
  }
  return spec.value("gradient", false) ? tensor.requires_grad_() : tensor;
}

std::vector<Tensor> results_of(const json& call, const Tensors& tensors) {
  std::vector<Tensor> results;
  test::flatten(test::evaluate(call, tensors), results);
  return results;
}

// The current call, and what it reads.
class Worker {
 public:
  json answer(const json& request) {
    const std::string word = request.at("do");
    if (word == "ops") return ops();
    if (word == "prepare") return prepare(request);
    if (word == "measure") return measure(request.at("seconds").get<double>());
    throw std::invalid_argument("unknown request '" + word + "'");
  }

 private:
  static json ops() {
    json all = json::array();
    for (const op_database::Op& op : op_database::ops()) {
      json names = op.aliases;
      names.insert(names.begin(), op.name);
      all.push_back(names);
    }
    return {{"ops", all}};
  }

  json prepare(const json& request) {
    run_ = nullptr;
    tensors_.clear();
    call_ = request.at("call");
    manual_seed(0);
    std::vector<Tensor> inputs;
    for (const auto& [name, spec] : request.at("tensors").items()) {
      tensors_[name] = make_tensor(spec);
      if (tensors_[name].requires_grad()) inputs.push_back(tensors_[name]);
    }
    const std::vector<Tensor> results = results_of(call_, tensors_);
    json shapes = json::array();
    for (const Tensor& result : results) {
      shapes.push_back(Sizes(result.shape().begin(), result.shape().end()));
    }
    if (!request.value("backward", false)) {
      run_ = [this] { results_of(call_, tensors_); };
    } else {
      std::vector<Tensor> outputs, factors;
      for (const Tensor& result : results) {
        if (!result.requires_grad()) continue;
        outputs.push_back(result);
        factors.push_back(randn(result.shape()).to(result.dtype()));
      }
      if (outputs.empty()) throw std::invalid_argument("no result requires a gradient");
      const GradOptions options{
          .retain_graph = true, .allow_unused = true, .grad_outputs = factors};
      run_ = [=] { grad(outputs, inputs, options); };
    }
    run_();
    calls_ = 1;
    return {{"shapes", shapes}};
  }

  json measure(double seconds) {
    if (!run_) throw std::invalid_argument("nothing is prepared");
    for (;;) {
      const auto start = std::chrono::steady_clock::now();
      const double cpu_start = processor_seconds();
      for (std::int64_t k = 0; k < calls_; ++k) run_();
      const double cpu = processor_seconds() - cpu_start;
      const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
      const auto calls = static_cast<double>(calls_);
      if (wall.count() >= seconds / 2)
        return {{"wall", wall.count() / calls}, {"cpu", cpu / calls}};
      const double wanted = seconds / std::max(wall.count() / calls, 1e-8);
      calls_ = std::min(10 * calls_, static_cast<std::int64_t>(std::ceil(wanted)));
    }
  }

  static double processor_seconds() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  }

  Tensors tensors_;
  json call_;
  std::function<void()> run_;
  std::int64_t calls_ = 1;
};

int main() {
  Worker worker;
  std::string line;
  while (std::getline(std::cin, line)) {
    json answer;
    try {
      answer = worker.answer(json::parse(line));
    } catch (const std::exception& error) {
      answer = {{"error", error.what()}};
    }
    std::cout << answer.dump() << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace extensor::bench

int main() { return extensor::bench::main(); }
