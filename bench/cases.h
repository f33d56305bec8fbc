// The benchmark cases, and the goal of each.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "extensor/tensor.h"
#include "floor.h"
#include "task.h"

namespace extensor::bench {

// The goals of a case; 0 means no goal.
struct Goal {
  double torch = 0;      // at least this many times PyTorch
  double library = 0;    // at least this many times the best GEMM library
  double floor = 0;      // at least this fraction of the physical floor's speed
  double reference = 0;  // at least this fraction of the reference's speed
  double amount = 0;     // at most this many seconds, or bytes
};

struct Case {
  std::string name;
  Task task = {};
  Goal goal = {};
  std::function<Floor(int threads)> floor = {};  // may be empty
  std::optional<Task> reference = {};            // ExTensor itself on other work, e.g. in float32
  std::string reference_name = "float32";
  int rounds = 25;
  // Instead of a task: a figure that is measured once, in seconds or bytes.
  std::function<double()> figure = {};
  std::function<double()> torch_figure = {};  // the same figure of PyTorch, if any
  bool in_bytes = false;
};

// The cases with a goal, then all other rows of the op tables.
std::vector<Case> all_cases();

// ExTensor's implementation of a task.
Work extensor_work(const Task& task);

// Operand `index` of a task, filled and laid out as the task says.
Tensor task_operand(const Task& task, std::size_t index);

// Families in separate files: their cases, and their implementation of a task.
void add_convolution(std::vector<Case>& cases);
void add_layers(std::vector<Case>& cases);
void add_network_ops(std::vector<Case>& cases);
void add_linalg(std::vector<Case>& cases);
void add_attention(std::vector<Case>& cases);
void add_training(std::vector<Case>& cases);
void add_networks(std::vector<Case>& cases);
Work convolution_work(const Task& task);
Work layers_work(const Task& task);
Work network_ops_work(const Task& task);
Work linalg_work(const Task& task);
Work attention_work(const Task& task);
Work training_work(const Task& task);
Work networks_work(const Task& task);

struct Row {
  std::string name;
  int operands;
  double lo, hi;
};
// The rows of the op tables that support floats, forward and backward.
const std::vector<Row>& table_rows();

// Figures of the whole library.
double include_seconds();  // compiling an empty file with #include <extensor/extensor.h>, at -O0
double startup_seconds();  // running a program that adds two tensors
double library_bytes();    // size of the stripped library

}  // namespace extensor::bench
