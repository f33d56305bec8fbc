// Checks the list of public functions in op_database/functions.inc against the library: the
// compiler confirms that every listed function, struct and enumeration exists as listed, and every
// type has a kind. The test functions_list compares the list with the text of the headers.
#include "op_database/functions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <type_traits>

#include "extensor/extensor.h"

// ---- the compiler checks the list

#define HEADER(...)
#define PARAMETER(...)
#define FIELD(...)
#define TEMPLATE(...)
#define RECORD(name, ...) static_assert(std::is_aggregate_v<name>);
#define ENUMERATION(name, ...) static_assert(std::is_enum_v<name>);
#define VALUE(of, name, ...) static_assert(std::is_same_v<decltype(of::name), of>);
// The overload of this type is selected; without it the cast does not compile.
#define FUNCTION(space, name, kind, count, named, text, header, comment, ...)                      \
  namespace space {                                                                                \
  static_assert(std::is_pointer_v<decltype(static_cast<std::add_pointer_t<__VA_ARGS__>>(&name))>); \
  }
#include "op_database/functions.inc"
#undef RECORD
#undef ENUMERATION
#undef VALUE
#undef FUNCTION

namespace extensor::op_database {
namespace {

// The fields that reflection finds, for every listed struct.
std::map<std::string_view, std::vector<std::string_view>> reflected() {
  std::map<std::string_view, std::vector<std::string_view>> all;
#define FUNCTION(...)
#define ENUMERATION(...)
#define VALUE(...)
#define RECORD(name, ...)                                         \
  {                                                               \
    constexpr std::size_t n = reflect::member_count<name, false>; \
    [&]<std::size_t... k>(std::index_sequence<k...>) {            \
      all[#name] = {reflect::member_name<name, n, k>()...};       \
    }                                                             \
    (std::make_index_sequence<n>());                              \
  }
#include "op_database/functions.inc"
#undef FUNCTION
#undef ENUMERATION
#undef VALUE
#undef RECORD
  return all;
}

std::vector<const Function*> overloads(std::string_view name) {
  std::vector<const Function*> found;
  for (const Function& function : functions()) {
    if (function.space == "extensor" && function.name == name) found.push_back(&function);
  }
  return found;
}

TEST(Functions, StructsHaveTheFieldsThatReflectionFinds) {
  const auto found = reflected();
  ASSERT_EQ(found.size(), records().size());
  for (const Record& record : records()) {
    std::vector<std::string_view> names;
    for (const Parameter& field : record.fields) names.push_back(field.name);
    EXPECT_EQ(names, found.at(record.name)) << record.name;
  }
}

// Types without a kind. A binding treats each by hand, or leaves the function out.
const std::map<std::string_view, const char*> without_kind = {
    {"void*", "memory that the caller owns: bindings exchange arrays by DLPack"},
    {"const void*", "memory that the caller owns: bindings exchange arrays by DLPack"},
    {"void (*)(void*)", "releases such memory"},
    {"StoragePointer", "memory without shape and dtype, below the level of tensors"},
    {"GradientNorm", "a number that is still on the device; it converts to a number or a tensor"},
    {"CustomFunction", "an op made from functions of the program; bindings have their own"},
    {"std::initializer_list<Literal>", "a literal of C++; bindings convert nested lists"},
    {"std::initializer_list<std::int64_t>", "a literal of C++ beside the overload for a list"},
    {"std::optional<std::pair<double, double>>", "a range or none; bindings take two numbers"},
    {"std::nullopt_t", "selects an overload that takes one bound"},
    {"Profile", "a class, to be bound as a class"},
    {"Communicator&", "a class, to be bound as a class"},
    {"std::unique_ptr<Tokenizer>", "a class with a base, to be bound as a class"},
    {"std::optional<ConfusionMatrix>", "a class, to be bound as a class"},
    {"const Gpt&", "a module, to be bound as a class"},
    {"OnnxModel", "a module, to be bound as a class"},
    {"const ModelReference&", "wraps any module, to be bound as a module"},
    {"const data::DataLoader&", "a class, to be bound as a class"},
    {"Loss", "a function of two tensors or of two lists of them"},
    {"SamplerPointer", "a class with a base, to be bound as a class"},
    {"std::shared_ptr<const Dataset>", "a class with a base, to be bound as a class"},
    {"std::vector<std::shared_ptr<const Subset>>", "a class with a base, to be bound as a class"},
};

// Every type falls into the closed set of kinds or is an exception with a reason. Templates are not
// for bindings: their parameters have no kind before they are instantiated.
TEST(Functions, EveryTypeHasAKindOrAReason) {
  std::set<std::string_view> used;
  const auto check = [&](const Type& type, std::string_view of) {
    if (type.kind == Kind::record) {
      EXPECT_NE(find_record(type.named), nullptr) << of << ": " << type.text;
    }
    if (type.kind == Kind::enumeration) {
      EXPECT_NE(find_enumeration(type.named), nullptr) << of << ": " << type.text;
    }
    EXPECT_EQ(type.named.empty(), type.kind != Kind::record && type.kind != Kind::enumeration)
        << of << ": " << type.text;
    if (type.kind != Kind::other) return;
    EXPECT_TRUE(without_kind.contains(type.text))
        << of << " has the type " << type.text << ", which has no kind: add it to KINDS in "
        << "op_database/read_headers.py, or to without_kind in this test with a reason";
    used.insert(type.text);
  };
  for (const Function& function : functions()) {
    if (!function.head.empty()) continue;
    check(function.result, function.name);
    for (const Parameter& parameter : function.parameters) {
      check(parameter.type, function.name);
      EXPECT_NE(parameter.type.kind, Kind::nothing) << function.name;
    }
  }
  for (const Record& record : records()) {
    for (const Parameter& field : record.fields) check(field.type, record.name);
  }
  for (const auto& [type, reason] : without_kind) {
    EXPECT_TRUE(used.contains(type)) << type << " is an exception, but no function uses it";
  }
}

// Bindings pass arguments by name; a nullopt only selects an overload.
TEST(Functions, ParametersHaveNames) {
  for (const Function& function : functions()) {
    std::set<std::string_view> names;
    for (const Parameter& parameter : function.parameters) {
      if (parameter.type.text == "std::nullopt_t") continue;
      EXPECT_FALSE(parameter.name.empty()) << function.declaration();
      EXPECT_TRUE(names.insert(parameter.name).second) << function.declaration();
    }
  }
}

TEST(Functions, ListsEveryOverloadOnce) {
  std::set<std::string> seen;
  for (const Function& function : functions()) {
    std::string types(function.space);
    ((types += function.head) += function.name) += '(';
    for (const Parameter& parameter : function.parameters) (types += parameter.type.text) += ", ";
    EXPECT_TRUE(seen.insert(types).second) << function.declaration() << " twice";
  }
  EXPECT_GT(functions().size(), 700u);
}

TEST(Functions, QuotesDeclarationsFromTheHeaders) {
  const auto sum = overloads("sum");
  ASSERT_FALSE(sum.empty());
  EXPECT_EQ(sum[0]->declaration(),
            "Tensor sum(const Tensor& x, const Axes& axes = {}, StrictBool keepdims = false)");
  EXPECT_EQ(sum[0]->header, "reduction.h");
  EXPECT_TRUE(sum[0]->comment.starts_with("Integers and bool sum to int64")) << sum[0]->comment;
  EXPECT_EQ(sum[0]->comment.find("//"), std::string_view::npos);
  EXPECT_EQ(sum[0]->result.kind, Kind::tensor);
  EXPECT_EQ(sum[0]->parameters[1].type.kind, Kind::axes);
  EXPECT_EQ(sum[0]->parameters[2].type.kind, Kind::boolean);

  const auto from_external = overloads("from_external");
  ASSERT_EQ(from_external.size(), 3u);
  EXPECT_EQ(from_external[0]->declaration(),
            "Tensor from_external(void* data, DType dtype, const Shape& shape, "
            "void (*release)(void*) = nullptr, void* context = nullptr)");

  const auto conv2d = overloads("conv2d");
  ASSERT_EQ(conv2d.size(), 1u);
  EXPECT_EQ(conv2d[0]->parameters[2].type.count, Count::optional);
  const Type& options = conv2d[0]->parameters[3].type;
  EXPECT_EQ(options.named, "extensor::Conv2dOptions");
  EXPECT_FALSE(options.is_written());
  EXPECT_EQ(find_record(options.named)->fields[0].default_value, "1");

  const auto adam = overloads("adam_step");
  ASSERT_EQ(adam.size(), 1u);
  EXPECT_TRUE(adam[0]->parameters[0].type.is_written());
  EXPECT_FALSE(adam[0]->parameters[1].type.is_written());
  EXPECT_TRUE(adam[0]->parameters[2].type.is_written());
  const Record& adam_options = *find_record("extensor::AdamOptions");
  EXPECT_EQ(adam_options.fields[1].type.count, Count::pair);
  EXPECT_EQ(adam_options.fields[1].default_value, "{0.9, 0.999}");
  EXPECT_EQ(adam_options.fields[3].comment, "added to the gradient");

  const auto loss = overloads("l1_loss");
  ASSERT_EQ(loss.size(), 1u);
  EXPECT_EQ(loss[0]->parameters.back().type.named, "extensor::Reduction");
  EXPECT_EQ(find_enumeration("extensor::Reduction")->values.front().name, "mean");
}

// A comment above several declarations belongs to all of them; an empty line ends its reach.
TEST(Functions, SharesTheCommentOfAParagraph) {
  EXPECT_TRUE(overloads("min_reduce_backward")[0]->comment.starts_with("NaN propagates"));
  EXPECT_EQ(overloads("norm_backward")[0]->comment.substr(0, 4), "Ties");
  EXPECT_EQ(overloads("all")[0]->comment, "");
  EXPECT_EQ(overloads("empty")[0]->comment, "contents undefined");
  EXPECT_EQ(overloads("zeros")[0]->comment, "");
}

// The rows of the tables are listed as the compiler expands them.
TEST(Functions, ExpandsTheRowsOfTheTables) {
  const auto one = [](std::string_view name) {
    const auto found = overloads(name);
    EXPECT_EQ(found.size(), 1u) << name;
    return found.empty() ? std::string() : found[0]->declaration();
  };
  EXPECT_EQ(one("leaky_relu"), "Tensor leaky_relu(const Tensor& x, StrictDouble alpha = 0.01)");
  EXPECT_EQ(one("leaky_relu_"), "Tensor& leaky_relu_(Tensor& x, StrictDouble alpha = 0.01)");
  EXPECT_EQ(one("hard_tanh"),
            "Tensor hard_tanh(const Tensor& x, StrictDouble lo = -1.0, StrictDouble hi = 1.0)");
  EXPECT_EQ(one("log_backward"),
            "Tensor log_backward(const Tensor& grad_output, const Tensor& x, "
            "StrictDouble eps = default_eps)");
  EXPECT_EQ(one("exp_backward"), "Tensor exp_backward(const Tensor& grad_output, const Tensor& y)");
  EXPECT_EQ(one("divide_double_backward"),
            "DoubleGradients divide_double_backward(const Tensor& grad_grad_a, "
            "const Tensor& grad_grad_b, const Tensor& grad_output, const Tensor& a, "
            "const Tensor& b, StrictDouble eps = default_eps)");
  const auto add = overloads("add");
  ASSERT_EQ(add.size(), 3u);
  EXPECT_EQ(add[1]->declaration(), "Tensor add(const Tensor& a, const Scalar& b)");
  EXPECT_EQ(add[1]->parameters[1].type.kind, Kind::scalar);
  EXPECT_EQ(add[0]->header, "elementwise.h");
}

}  // namespace
}  // namespace extensor::op_database
