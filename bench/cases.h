// What is measured, and the figure each piece of work has to reach.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "extensor/tensor.h"
#include "floor.h"
#include "task.h"

namespace extensor::bench {

// What has to hold; 0 asks for nothing.
struct Goal {
  double torch = 0;      // at least this many times PyTorch
  double library = 0;    // at least this many times the best GEMM library
  double floor = 0;      // at least this part of the physical floor's speed
  double reference = 0;  // at least this part of the reference's speed
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
  // In place of a task: a figure that is measured once, in seconds or bytes.
  std::function<double()> figure = {};
  std::function<double()> torch_figure = {};  // the same of PyTorch, where there is one
  bool in_bytes = false;
};

// The work with a figure to reach, then every further row of the op tables.
std::vector<Case> all_cases();

// ExTensor's way to do a task.
Work extensor_work(const Task& task);

// Operand `index` of a task, filled and laid out as it says.
Tensor task_operand(const Task& task, std::size_t index);

// Families with a file of their own: their cases, and their way to do a task of theirs.
void add_convolution(std::vector<Case>& cases);
void add_layers(std::vector<Case>& cases);
void add_attention(std::vector<Case>& cases);
void add_training(std::vector<Case>& cases);
Work convolution_work(const Task& task);
Work layers_work(const Task& task);
Work attention_work(const Task& task);
Work training_work(const Task& task);

struct Row {
  std::string name;
  int operands;
  double lo, hi;
};
// The rows of the op tables that take floats, forward and backward.
const std::vector<Row>& table_rows();

// Figures of the library as a whole.
double include_seconds();  // an empty file with #include <extensor/extensor.h>, at -O0
double startup_seconds();  // a program that adds two tensors, from start to end
double library_bytes();    // the stripped library

}  // namespace extensor::bench
