// Checks every op of the database on every sample, dtype and layout: values against independent
// references, gradients against finite differences, second gradients against differences of the
// first, and a DTypeError for each dtype that is not listed. Also compares the database with the
// list of public functions: none may be missing. op_check_test shows that these checks can fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "op_database/check.h"
#include "op_database/explanations.h"
#include "op_database/functions.h"
#include "op_database/page.h"
#include "op_database/variants.h"

namespace extensor::op_database {
namespace {

using layouts::Layout;

// A dtype that the op supports.
const DType* first_dtype(const Op& op) {
  return std::ranges::find_if(every_dtype, [&](DType dtype) { return contains(op.dtypes, dtype); });
}

class OpDatabase : public ::testing::TestWithParam<std::string> {};

TEST_P(OpDatabase, EveryCheckPasses) {
  const Op& op = *find_op(GetParam());
  int failures = 0;
  check_op(op, {}, [&](const Check& check, const CheckResult& result) {
    if (result.passed || ++failures > 5) return;
    ADD_FAILURE() << op.name << " " << check.sample << ", " << extensor::name(check.dtype) << ", "
                  << layouts::name(check.layout) << ", " << name(check.kind) << ": "
                  << result.message;
  });
  EXPECT_EQ(failures, 0);
}

TEST_P(OpDatabase, SaysWhatThePageNeeds) {
  const Op& op = *find_op(GetParam());
  EXPECT_FALSE(op.family.empty());
  EXPECT_FALSE(op.formula.empty());
  EXPECT_EQ(op.backward.empty(), op.gradient.empty()) << "a gradient has a rule, and a function";
  const Explanation* text = find_explanation(op.name);
  ASSERT_NE(text, nullptr) << "op_database/explanations/ has no entry for " << op.name;
  for (const std::string& part :
       {text->derivation, text->broadcasting, text->edges, text->numerics, text->complexity}) {
    EXPECT_FALSE(part.empty()) << op.name;
    EXPECT_TRUE(part.ends_with(".")) << part;
  }
  EXPECT_FALSE(!op.backward.empty() && text->derivation.starts_with("None")) << op.name;
}

// Every name in the formulas of an op is one of its parameters, a function or a defined word.
TEST_P(OpDatabase, DefinesTheWordsOfItsFormulas) {
  const Op& op = *find_op(GetParam());
  static const std::set<std::string> known = [] {
    std::set<std::string> words;
    for (const Definition& definition : definitions()) {
      std::string word;
      for (const char c : definition.words + " ") {
        if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
          word += c;
        } else {
          words.insert(std::exchange(word, ""));
        }
      }
    }
    for (const Function& function : functions()) words.emplace(function.name);
    return words;
  }();
  std::set<std::string> parameters;
  for (const Function& function : functions()) {
    const bool is_own = function.name == op.name || function.name == op.name + "_backward";
    for (const Parameter& parameter : function.parameters) {
      if (!is_own) break;
      parameters.emplace(parameter.name);
      const Record* options = find_record(parameter.type.named);
      if (options == nullptr) continue;
      for (const Parameter& field : options->fields) parameters.emplace(field.name);
    }
  }
  for (const std::string& word : words_of(op.formula + " " + op.gradient)) {
    EXPECT_TRUE(known.contains(word) || parameters.contains(word))
        << op.name << ": '" << word << "' is not in op_database/explanations/definitions.inc";
  }
}

// A differentiable op has a gradient check, and no other op has one.
TEST_P(OpDatabase, ChecksItsGradient) {
  const Op& op = *find_op(GetParam());
  EXPECT_EQ(!op.backward.empty(), std::ranges::any_of(op.samples(), [](const Sample& sample) {
    return static_cast<bool>(sample.backward);
  }));
}

// Every listed dtype runs on a sample that has elements, and every other dtype is rejected,
// whatever dtypes the samples leave out.
TEST_P(OpDatabase, ChecksEveryDtype) {
  const Op& op = *find_op(GetParam());
  std::set<DType> run, refused;
  for (const Sample& sample : op.samples()) {
    EXPECT_TRUE(static_cast<bool>(sample.reference)) << sample.label << " has no reference";
    for (std::size_t constant : sample.constants) {
      EXPECT_LT(constant, sample.inputs.size()) << sample.label;
    }
    if (op.dtypes == DTypes::int64_only) run.insert(int64);  // the dtype is fixed
    if (!has_dtypes(sample)) continue;
    const Tensors results = sample.forward(arranged(sample, *first_dtype(op), Layout::contiguous));
    const bool is_empty =
        std::ranges::all_of(results, [](const Tensor& y) { return y.numel() == 0; });
    for (DType dtype : every_dtype) {
      if (!contains(op.dtypes, dtype)) refused.insert(dtype);
      if (contains(op.dtypes, dtype) && !is_empty &&
          (is_floating_point(dtype) || !sample.floats_only)) {
        run.insert(dtype);
      }
    }
  }
  for (DType dtype : every_dtype) {
    if (contains(op.dtypes, dtype)) {
      EXPECT_TRUE(run.contains(dtype)) << extensor::name(dtype) << " is listed, but never run";
    } else if (op.dtypes != DTypes::int64_only) {
      EXPECT_TRUE(refused.contains(dtype)) << extensor::name(dtype) << " is never tried";
    }
  }
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const Op& op : ops()) names.push_back(op.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Ops, OpDatabase, ::testing::ValuesIn(op_names()),
                         [](const auto& info) { return info.param; });

TEST(OpDatabaseAsAWhole, ExplainsOnlyOps) {
  for (const std::string& name : explained_ops()) {
    EXPECT_NE(find_op(name), nullptr) << "op_database/explanations/ explains " << name;
  }
}

TEST(OpDatabaseAsAWhole, NamesEveryOpOnce) {
  std::set<std::string> seen;
  for (const Op& op : ops()) EXPECT_TRUE(seen.insert(op.name).second) << op.name << " twice";
}

// Functions in the headers that are not ops.
const std::set<std::string> not_ops = {
    // numbers, dtypes, shapes, memory
    "itemsize",
    "name",
    "promote_types",
    "promote_with_scalar",
    "real_dtype",
    "complex_dtype",
    "finfo",
    "iinfo",
    "isdtype",
    "can_cast",
    "result_type",
    "to_string",
    "from_bytes",
    "from_data",
    "tensor",
    "from_external",
    "tensor",
    "broadcast_shapes",
    "are_shapes_broadcastable",
    "compute_broadcast_strides",
    "allocate_storage",
    "wrap_storage",
    "calculate_fans",
    "calculate_gain",
    // the library as a whole
    "version",
    "devices",
    "cuda",
    "cuda_is_available",
    "cuda_unavailable_reason",
    "cuda_data",
    "cuda_stream",
    "synchronize",
    "default_device",
    "set_default_device",
    "memory_stats",
    "reset_peak_memory_stats",
    "empty_cache",
    "set_memory_limit",
    "memory_limit",
    "set_num_threads",
    "get_num_threads",
    "profile",
    "gradcheck",
    "numerical_gradient",
    "check_gradient",
    "vjp",
    "jacobian",
    "hessian",
    "hvp",
    "autocast_dtype",
    "is_tf32_allowed",
    "custom_function",
    "elementwise",
    "grad",
    "checkpoint",
    "jvp",
    "default_generator",
    "manual_seed",
    // complex numbers: the samples of the database are real; complex_test checks these
    "complex",
    "real",
    "imag",
    "conj",
    "angle",
    "view_as_real",
    "view_as_complex",
    // files
    "save_safetensors",
    "load_safetensors",
    "save_npy",
    "load_npy",
    "save_npz",
    "load_npz",
    "export_onnx",
    "load_onnx",
    // variants that also return what their backward needs; the database has the op itself
    "cross_entropy_with_statistics",
};

TEST(OpDatabaseAsAWhole, MissesNoPublicFunction) {
  std::set<std::string> known = not_ops;
  for (const Op& op : ops()) {
    known.insert(op.name);
    known.insert(op.aliases.begin(), op.aliases.end());
    known.insert(op.backward.begin(), op.backward.end());
  }
  for (const Function& function : functions()) {
    std::string name(function.name);
    const bool is_listed = function.space == "extensor" || function.space == "extensor::linalg";
    if (!is_listed || name.ends_with("_double_backward") || name.starts_with("is_")) {
      continue;
    }
    if (name.ends_with("_")) name.pop_back();  // in place
    EXPECT_TRUE(known.contains(name))
        << function.header << " declares '" << function.declaration()
        << "', which is neither in the op database nor listed as no op";
  }
}

// A public double backward is checked as the second gradient of its op.
TEST(OpDatabaseAsAWhole, ChecksEveryDoubleBackward) {
  constexpr std::string_view ending = "_double_backward";
  for (const Function& function : functions()) {
    if (!function.name.ends_with(ending)) continue;
    const Op* op =
        find_op(std::string(function.name.substr(0, function.name.size() - ending.size())));
    ASSERT_NE(op, nullptr) << function.name;
    EXPECT_TRUE(std::ranges::any_of(
        op->samples(),
        [](const Sample& sample) { return static_cast<bool>(sample.double_backward); }))
        << function.name << " is checked by no sample of " << op->name;
  }
}

// The second gradients are linear in the incoming gradients, and a missing one stands for 0: the
// results for one at a time add up to the result for all.
TEST(OpDatabaseAsAWhole, SecondGradientsTakeUndefinedGradients) {
  int checked = 0;
  for (const Op& op : ops()) {
    for (const Sample& sample : op.samples()) {
      // Public double backwards require all gradients; the recorded backward accepts any of them.
      if (!sample.backward || sample.double_backward || !has_dtypes(sample)) continue;
      SCOPED_TRACE(op.name + " " + sample.label);
      std::uint64_t seed = 1;
      const auto drawn = [&](const Tensor& x) {
        const bool moves = x.defined() && is_floating_point(x.dtype());
        return moves ? sample_uniform(x.shape(), -1, 1, ++seed) : Tensor();
      };
      const Tensors outputs = sample.forward(sample.inputs);
      Tensors grads, given, known = sample.inputs;
      for (const Tensor& y : outputs) grads.push_back(drawn(y));
      if (sample.saves_results) known.insert(known.end(), outputs.begin(), outputs.end());
      for (const Tensor& x : sample.backward(grads, known)) given.push_back(drawn(x));
      if (std::ranges::count_if(given, &Tensor::defined) < 2) continue;
      ++checked;
      const Tensors all = second_gradients(sample, given, grads, sample.inputs);
      Tensors sums(all.size());
      for (std::size_t k = 0; k < given.size(); ++k) {
        if (!given[k].defined()) continue;
        Tensors one(given.size());
        one[k] = given[k];
        const Tensors part = second_gradients(sample, one, grads, sample.inputs);
        for (std::size_t i = 0; i < part.size(); ++i) {
          if (part[i].defined()) sums[i] = sums[i].defined() ? sums[i] + part[i] : part[i];
        }
      }
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (!sums[i].defined() && !all[i].defined()) continue;
        const Tensor sum_of_parts = sums[i].defined() ? sums[i] : zeros_like(all[i]);
        const Tensor at_once = all[i].defined() ? all[i] : zeros_like(sums[i]);
        EXPECT_TRUE(allclose(sum_of_parts, at_once, 1e-10, 1e-12)) << i;
      }
    }
  }
  EXPECT_GT(checked, 100);
}

// A node saves only the tensors that the requested gradients read. So every gradient is requested
// alone, of the recorded forward and of the recorded backward, and must equal the one among all.
TEST(OpDatabaseAsAWhole, EveryGradientCanBeAskedForAlone) {
  const auto asked = [](const Tensors& leaves, const std::vector<bool>& moves,
                        const auto& function) {
    Tensors all = leaves, inputs;
    for (std::size_t k = 0; k < all.size(); ++k) {
      if (!moves[k]) continue;
      all[k] = all[k].detach().requires_grad_();
      inputs.push_back(all[k]);
    }
    Tensors outputs, starts, found(leaves.size());
    std::uint64_t seed = 3;
    for (const Tensor& y : function(all)) {
      ++seed;  // a result has the same incoming gradient whatever else is recorded
      if (!y.defined() || !is_floating_point(y.dtype()) || !y.requires_grad()) continue;
      outputs.push_back(y);
      starts.push_back(sample_uniform(y.shape(), 0.5, 1.5, seed).to(y.dtype()));
    }
    if (outputs.empty()) return found;
    const Tensors gradients = grad(outputs, inputs, {.allow_unused = true, .grad_outputs = starts});
    for (std::size_t k = 0, next = 0; k < leaves.size(); ++k) {
      if (moves[k]) found[k] = gradients[next++];
    }
    return found;
  };
  const auto check = [&](const Tensors& leaves, const std::vector<bool>& moves,
                         const auto& function) {
    Tensors expected;
    for (std::size_t k = leaves.size() + 1; k-- > 0;) {  // all of them, then each alone
      std::vector<bool> only(leaves.size(), false);
      if (k < leaves.size()) only[k] = true;
      if (k < leaves.size() && !moves[k]) continue;
      try {
        const Tensors found = asked(leaves, k < leaves.size() ? only : moves, function);
        if (k == leaves.size()) {
          expected = found;
          continue;
        }
        if (!found[k].defined() && !expected[k].defined()) continue;  // both stand for 0
        const Tensor alone = found[k].defined() ? found[k] : zeros_like(expected[k]);
        const Tensor among_all = expected[k].defined() ? expected[k] : zeros_like(found[k]);
        EXPECT_TRUE(allclose(alone, among_all, 1e-9, 1e-11)) << "input " << k;
      } catch (const std::exception& error) {
        ADD_FAILURE() << "input " << k << " of " << leaves.size() << " threw: " << error.what();
        return;
      }
    }
  };
  for (const Op& op : ops()) {
    for (const Sample& sample : op.samples()) {
      if (!sample.backward || !has_dtypes(sample)) continue;
      SCOPED_TRACE(op.name + " " + sample.label);
      std::vector<bool> moves;
      for (std::size_t k = 0; k < sample.inputs.size(); ++k) {
        moves.push_back(is_differentiable(sample, k));
      }
      check(sample.inputs, moves, sample.forward);
      const Tensors outputs = sample.forward(sample.inputs);
      Tensors leaves;
      std::vector<bool> all_move;
      for (const Tensor& y : outputs) {
        const bool floats = is_floating_point(y.dtype());
        leaves.push_back(floats ? sample_uniform(y.shape(), -1, 1, 5) : Tensor());
        all_move.push_back(floats);
      }
      const std::size_t count = leaves.size();
      leaves.insert(leaves.end(), sample.inputs.begin(), sample.inputs.end());
      all_move.insert(all_move.end(), moves.begin(), moves.end());
      for (std::size_t result = 0; result < sample.inputs.size(); ++result) {
        if (!moves[result]) continue;
        check(leaves, all_move, [&](const Tensors& all) {
          const auto middle = all.begin() + static_cast<std::ptrdiff_t>(count);
          Tensors inputs(middle, all.end());
          if (sample.saves_results) {
            const NoGrad off;  // the saved results are separate inputs here
            for (const Tensor& y : outputs) inputs.push_back(y);
          }
          return Tensors{sample.backward(Tensors(all.begin(), middle), inputs)[result]};
        });
      }
    }
  }
}

TEST(OpDatabaseAsAWhole, IsWhatTheReferencePageSays) {
  std::ifstream file(EXTENSOR_DOCS_DIR "/ops.md");
  ASSERT_TRUE(file) << "docs/ops.md is missing";
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(text.str() == reference_page())
      << "docs/ops.md is out of date: ./ex docs writes it anew";
}

}  // namespace
}  // namespace extensor::op_database
