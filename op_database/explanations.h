// The explanations of docs/ops.md: why an op's gradient is what it is, how its operands broadcast,
// its edge cases, its numerical rule and its cost; and the definitions of the words in formulas.
// The texts are the data of explanations/*.inc. Only the tool and the tests contain them.
#pragma once

#include <string>
#include <vector>

#include "op_database/op_database.h"

namespace extensor::op_database {

struct Explanation {
  // How the gradient follows from the formula. For an op without one: how the formula comes about,
  // or why there is none.
  std::string derivation;
  std::string broadcasting;  // of operands, and the shape of the result where it is not obvious
  std::string edges;         // special values, no elements, errors
  std::string numerics;      // how values are computed and rounded
  std::string complexity;    // time, and memory beyond the result
};

// Null if there is none.
const Explanation* find_explanation(const std::string& op);
// The names of the explained ops.
std::vector<std::string> explained_ops();

// The meaning of one or more words or symbols, which formulas use.
struct Definition {
  std::string words;  // separated by ", ": "exp(x)", "g, grad_output"
  std::string meaning;
};
const std::vector<Definition>& definitions();

// The words of a formula or a rule: names of functions and parameters, without plain English. A
// test looks them up in the definitions.
std::vector<std::string> words_of(const std::string& formula);

}  // namespace extensor::op_database
