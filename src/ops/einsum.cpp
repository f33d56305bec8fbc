#include "extensor/einsum.h"

#include <algorithm>
#include <map>
#include <string>

#include "core/check.h"
#include "ops/contract.h"

namespace extensor {

namespace {

using detail::message;
using ops::Label;
using ops::Labels;
using ops::Term;

// Letters are labelled by their character codes. Dimensions of the ellipsis are numbered from its
// last one, so that they align as in broadcasting.
constexpr Label ellipsis_label = 128;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// One group of subscripts: its letters, and the position of the ellipsis among them.
struct Group {
  std::string letters;
  std::size_t ellipsis = std::string::npos;

  bool has_ellipsis() const { return ellipsis != std::string::npos; }
};

struct Parsed {
  std::vector<Group> inputs;
  Group output;
  bool has_output = false;
};

class Parser {
 public:
  Parser(const char* operation, std::string_view subscripts)
      : operation_(operation), subscripts_(subscripts) {}

  Parsed parse() const {
    Parsed parsed;
    Group* group = &parsed.inputs.emplace_back();
    for (std::size_t at = 0; at < subscripts_.size(); ++at) {
      const char c = subscripts_[at];
      if (c == ' ') continue;
      if (is_letter(c)) {
        group->letters.push_back(c);
      } else if (c == ',') {
        if (parsed.has_output) refuse("the result cannot have a comma");
        group = &parsed.inputs.emplace_back();
      } else if (subscripts_.substr(at, 3) == "...") {
        if (group->has_ellipsis()) refuse("two ellipses in one group");
        group->ellipsis = group->letters.size();
        at += 2;
      } else if (subscripts_.substr(at, 2) == "->") {
        if (parsed.has_output) refuse("two arrows");
        parsed.has_output = true;
        group = &parsed.output;
        at += 1;
      } else {
        refuse(message("'", printable(c), "' at position ", at,
                       " is neither a letter nor one of , ... ->"));
      }
    }
    if (parsed.has_output) {
      check_output(parsed);
    } else {
      parsed.output = implicit_output(parsed);
    }
    return parsed;
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw ValueError(message(operation_, ": ", what, ", in \"", subscripts_, "\""));
  }
  [[noreturn]] void refuse_shape(const std::string& what) const {
    throw ShapeError(message(operation_, ": ", what, ", in \"", subscripts_, "\""));
  }

 private:
  static std::string printable(char c) {
    return c > ' ' && c < 127
               ? std::string(1, c)
               : message("character ", static_cast<int>(static_cast<unsigned char>(c)));
  }

  void check_output(const Parsed& parsed) const {
    for (std::size_t i = 0; i < parsed.output.letters.size(); ++i) {
      const char letter = parsed.output.letters[i];
      if (parsed.output.letters.find(letter) != i) {
        refuse(message("the result names '", letter, "' twice"));
      }
      const bool known = std::ranges::any_of(parsed.inputs, [&](const Group& group) {
        return group.letters.find(letter) != std::string::npos;
      });
      if (!known) refuse(message("the result names '", letter, "', which no operand has"));
    }
  }

  // The ellipsis, followed by the letters that occur exactly once.
  static Group implicit_output(const Parsed& parsed) {
    std::map<char, int> counts;
    for (const Group& group : parsed.inputs) {
      for (char letter : group.letters) ++counts[letter];
    }
    Group output;
    output.ellipsis = 0;
    for (const auto& [letter, count] : counts) {
      if (count == 1) output.letters.push_back(letter);
    }
    return output;
  }

  const char* operation_;
  std::string_view subscripts_;
};

Labels labels_of(const Group& group, std::int64_t ellipsis_rank) {
  Labels labels;
  for (std::size_t i = 0; i <= group.letters.size(); ++i) {
    if (i == group.ellipsis) {
      for (std::int64_t d = ellipsis_rank; d-- > 0;) {
        labels.push_back(ellipsis_label + static_cast<Label>(d));
      }
    }
    if (i < group.letters.size()) labels.push_back(group.letters[i]);
  }
  return labels;
}

std::string name_of(Label label) {
  return label < ellipsis_label ? message("'", static_cast<char>(label), "'")
                                : message("dimension ", ellipsis_label - 1 - label, " of '...'");
}

struct Contraction {
  std::vector<Term> terms;
  Labels output;
};

// Checks that all dimensions of a label have the same length; between operands, 1 broadcasts.
void check_sizes(const Parser& parser, const std::vector<Term>& terms) {
  struct Seen {
    std::int64_t size;
    std::size_t operand;
  };
  std::map<Label, Seen> seen;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    std::map<Label, std::int64_t> own;
    for (std::size_t d = 0; d < terms[i].labels.size(); ++d) {
      const Label label = terms[i].labels[d];
      const std::int64_t size = terms[i].tensor.shape()[d];
      const auto [first, is_new] = own.emplace(label, size);
      if (!is_new && first->second != size) {
        parser.refuse_shape(message("operand ", i, " is ", terms[i].tensor.shape(), ": ",
                                    name_of(label), " is both ", first->second, " and ", size));
      }
      const auto [known, is_first] = seen.emplace(label, Seen{size, i});
      if (is_first || size == 1 || size == known->second.size) continue;
      if (known->second.size != 1) {
        parser.refuse_shape(message(name_of(label), " is ", known->second.size, " in operand ",
                                    known->second.operand, ", ",
                                    terms[known->second.operand].tensor.shape(), ", and ", size,
                                    " in operand ", i, ", ", terms[i].tensor.shape()));
      }
      known->second = {size, i};
    }
  }
  const std::size_t allowed = terms.size() == 1 ? max_rank : ops::max_contracted_labels;
  if (seen.size() > allowed) {
    parser.refuse_shape(
        message(seen.size(), " different indices, at most ", allowed, " are allowed"));
  }
}

Contraction plan(const char* operation, std::string_view subscripts,
                 const std::vector<Tensor>& operands) {
  const Parser parser(operation, subscripts);
  if (operands.empty()) parser.refuse("no operands, needs one at least");
  const Parsed parsed = parser.parse();
  if (parsed.inputs.size() != operands.size()) {
    parser.refuse(
        message("groups of subscripts: ", parsed.inputs.size(), ", operands: ", operands.size()));
  }
  Contraction contraction;
  std::int64_t widest = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Group& group = parsed.inputs[i];
    const auto named = static_cast<std::int64_t>(group.letters.size());
    const std::int64_t rank = operands[i].ndim();
    if (group.has_ellipsis() ? named > rank : named != rank) {
      parser.refuse_shape(
          message("operand ", i, " is ", operands[i].shape(), ", its subscripts \"", group.letters,
                  "\" name ", named,
                  group.has_ellipsis() ? " dimensions beside the ellipsis" : " dimensions"));
    }
    const std::int64_t ellipsis_rank = group.has_ellipsis() ? rank - named : 0;
    widest = std::max(widest, ellipsis_rank);
    contraction.terms.push_back({operands[i], labels_of(group, ellipsis_rank)});
  }
  contraction.output = labels_of(parsed.output, widest);
  check_sizes(parser, contraction.terms);
  detail::checked_numel(operation, contracted_shape(contraction.terms, contraction.output));
  return contraction;
}

}  // namespace

Tensor einsum(std::string_view subscripts, const std::vector<Tensor>& operands) {
  const Contraction contraction = plan("einsum", subscripts, operands);
  return ops::contract("einsum", contraction.terms, contraction.output);
}

std::vector<Tensor> einsum_backward(const Tensor& grad_output, std::string_view subscripts,
                                    const std::vector<Tensor>& operands) {
  const Contraction contraction = plan("einsum_backward", subscripts, operands);
  return ops::contract_backward("einsum_backward", grad_output, contraction.terms,
                                contraction.output);
}

}  // namespace extensor
