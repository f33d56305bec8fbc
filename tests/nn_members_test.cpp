// Members of modules: each type that is walked, with its names, and members that are rejected when
// the module is walked. compile_fail/ has those that the compiler rejects.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <variant>

#include "extensor/extensor.h"

namespace extensor {
namespace {

using Names = std::vector<std::string>;

Names names(const nn::NamedTensors& list) {
  Names result;
  for (const auto& [name, tensor] : list) result.push_back(name);
  return result;
}

// A layer of one parameter, one buffer and one flag: each must be found.
struct Leaf : nn::Module<Leaf> {
  nn::Parameter w{ones({2})};
  nn::Buffer b{zeros({1})};
  nn::Training training;
  Tensor forward(const Tensor& x) const { return x * w.tensor(); }
};

// The modes of all flags inside, in order.
template <class Module>
std::vector<bool> modes(Module& module) {
  struct Reader : nn::Walker {
    void training(nn::Training& flag) override { list.push_back(flag); }
    std::vector<bool> list;
  } reader;
  nn::detail::walk(module, reader);
  return reader.list;
}

double value_of(const Tensor& tensor) { return mean(tensor).item<double>(); }

// Checks that parameters, buffers and flags are found under `expected`, that a step changes each
// parameter, and that a state can be loaded into another module.
template <class Module>
void expect_found(const Names& expected) {
  Module module;
  Names parameters, buffers;
  for (const std::string& name : expected) {
    parameters.push_back(name + ".w");
    buffers.push_back(name + ".b");
  }
  EXPECT_EQ(names(module.named_parameters()), parameters);
  EXPECT_EQ(names(module.named_buffers()), buffers);
  EXPECT_EQ(modes(module), std::vector<bool>(expected.size(), true));
  module.eval();
  EXPECT_EQ(modes(module), std::vector<bool>(expected.size(), false));
  {
    const NoGrad off;
    for (auto& [name, tensor] : module.named_parameters()) tensor.fill(7);
    for (auto& [name, tensor] : module.named_buffers()) tensor.fill(5);
  }
  Module other;
  other.load_state_dict(module.state_dict());
  for (const auto& [name, tensor] : other.state_dict()) {
    EXPECT_EQ(value_of(tensor), name.ends_with(".w") ? 7 : 5) << name;
  }
}

struct InOptional : nn::Module<InOptional> {
  std::optional<Leaf> with{Leaf()}, without;
};
TEST(NnMembers, InOptional) { expect_found<InOptional>({"with"}); }

struct InUnique : nn::Module<InUnique> {
  std::unique_ptr<Leaf> with = std::make_unique<Leaf>(), without;
};
TEST(NnMembers, InUniquePointer) { expect_found<InUnique>({"with"}); }

struct InShared : nn::Module<InShared> {
  std::shared_ptr<Leaf> with = std::make_shared<Leaf>(), without;
};
TEST(NnMembers, InSharedPointer) { expect_found<InShared>({"with"}); }

struct InPair : nn::Module<InPair> {
  std::pair<Leaf, int> half{Leaf(), 3};
  std::pair<Leaf, Leaf> both;
};
TEST(NnMembers, InPair) { expect_found<InPair>({"half.0", "both.0", "both.1"}); }

struct InTuple : nn::Module<InTuple> {
  std::tuple<Leaf, double, Leaf> parts;
};
TEST(NnMembers, InTuple) { expect_found<InTuple>({"parts.0", "parts.2"}); }

struct InMap : nn::Module<InMap> {
  std::map<std::string, Leaf> by_name{{"b", Leaf()}, {"a", Leaf()}};
  std::map<int, Leaf> by_number{{10, Leaf()}, {9, Leaf()}};
};
TEST(NnMembers, InMap) {
  expect_found<InMap>({"by_name.a", "by_name.b", "by_number.9", "by_number.10"});
}

enum class Part { query, key };
struct InHash : nn::Module<InHash> {
  std::unordered_map<std::string, Leaf> by_name{{"c", Leaf()}, {"a", Leaf()}, {"b", Leaf()}};
  std::unordered_map<Part, Leaf> by_part{{Part::key, Leaf()}, {Part::query, Leaf()}};
};
TEST(NnMembers, InUnorderedMapByKey) {
  expect_found<InHash>({"by_name.a", "by_name.b", "by_name.c", "by_part.0", "by_part.1"});
}

struct InLists : nn::Module<InLists> {
  std::vector<std::vector<Leaf>> nested{{Leaf(), Leaf()}, {}, {Leaf()}};
  std::array<Leaf, 2> array;
  std::deque<Leaf> deque{Leaf()};
  std::list<Leaf> list{Leaf()};
  std::vector<std::unique_ptr<Leaf>> pointers = [] {
    std::vector<std::unique_ptr<Leaf>> made(2);
    made[1] = std::make_unique<Leaf>();
    return made;
  }();
};
TEST(NnMembers, InListsOfLists) {
  expect_found<InLists>({"nested.0.0", "nested.0.1", "nested.2.0", "array.0", "array.1", "deque.0",
                         "list.0", "pointers.1"});
}

struct InArrays : nn::Module<InArrays> {
  double scale[3] = {1, 2, 3};
  Leaf row[2];
  Leaf grid[2][2];
  nn::Linear linear[1] = {nn::Linear(2, 2, {.bias = false})};
  Leaf last;
};
TEST(NnMembers, InCArrays) {
  const InArrays module;
  EXPECT_EQ(names(module.named_parameters()),
            (Names{"row.0.w", "row.1.w", "grid.0.0.w", "grid.0.1.w", "grid.1.0.w", "grid.1.1.w",
                   "linear.0.weight", "last.w"}));
}

struct InVariant : nn::Module<InVariant> {
  std::variant<std::monostate, Leaf> with{Leaf()}, without;
  std::variant<int, std::vector<Leaf>> list{std::vector<Leaf>(2)};
};
TEST(NnMembers, InVariant) { expect_found<InVariant>({"with", "list.0", "list.1"}); }

struct InAnyLayer : nn::Module<InAnyLayer> {
  nn::AnyLayer one{Leaf()};
  std::vector<nn::AnyLayer> many{Leaf(), nn::ReLU(), Leaf()};
  std::optional<nn::AnyLayer> perhaps{Leaf()};
};
TEST(NnMembers, InAnyLayer) { expect_found<InAnyLayer>({"one", "many.0", "many.2", "perhaps"}); }

struct Group {
  Leaf first;
  std::string label = "no module";
  std::optional<Leaf> second{Leaf()};
};
struct InStruct : nn::Module<InStruct> {
  Group group;
  std::vector<Group> groups{1};
  const int number = 3;
};
TEST(NnMembers, InPlainStructs) {
  expect_found<InStruct>({"group.first", "group.second", "groups.0.first", "groups.0.second"});
}

// A class that is not a module but lists its members.
class Hidden {
 public:
  void visit(nn::Walker& walk) { walk("leaf", leaf_); }

 private:
  Leaf leaf_;
};
struct InClass : nn::Module<InClass> {
  Hidden hidden;
};
TEST(NnMembers, InClassesWithVisit) { expect_found<InClass>({"hidden.leaf"}); }

struct Parameters : nn::Module<Parameters> {
  std::vector<nn::Parameter> list{nn::Parameter(ones({1})), nn::Parameter(ones({1}))};
  std::map<std::string, nn::Buffer> buffers{{"mean", nn::Buffer(zeros({1}))}};
  std::optional<nn::Parameter> none;
};
TEST(NnMembers, ParametersInContainers) {
  EXPECT_EQ(names(Parameters().state_dict()), (Names{"list.0", "list.1", "buffers.mean"}));
}

// ---- classes derived from a module

struct Wider : nn::Module<Wider, Leaf> {
  nn::Linear more{2, 2, {.bias = false}};
  Tensor forward(const Tensor& x) const { return more(Leaf::forward(x)); }
  void visit(nn::Walker& walk) { walk("more", more); }
};
struct Widest : nn::Module<Widest, Wider> {
  Leaf end;
  Tensor forward(const Tensor& x) const { return end(Wider::forward(x)) * 0.0; }
  void visit(nn::Walker& walk) { walk("end", end); }
};
struct OtherForward : nn::Module<OtherForward, Leaf> {
  Tensor forward(const Tensor& x) const { return Leaf::forward(x) + 10.0; }
};
struct WithDerived : nn::Module<WithDerived> {
  Wider wider;
  nn::Sequential list{Widest()};
};

TEST(NnMembers, OfClassesDerivedFromModules) {
  EXPECT_EQ(names(Wider().named_parameters()), (Names{"w", "more.weight"}));
  EXPECT_EQ(names(Widest().named_parameters()), (Names{"w", "more.weight", "end.w"}));
  EXPECT_EQ(
      names(WithDerived().named_parameters()),
      (Names{"wider.w", "wider.more.weight", "list.0.w", "list.0.more.weight", "list.0.end.w"}));
  Widest widest;
  EXPECT_EQ(max_reduce(abs(widest(ones({2})))).item<float>(), 0);  // its own forward
  widest.eval();
  EXPECT_EQ(modes(widest), (std::vector<bool>{false, false}));
  EXPECT_EQ(OtherForward()(ones({2})).to_vector<float>(), (std::vector<float>{11, 11}));
  const Widest copy = widest;
  widest.w.tensor().detach().fill(3);
  EXPECT_EQ(copy.w.tensor()[0].item<float>(), 1);
}

// ---- plain tensors

struct WithTensor : nn::Module<WithTensor> {
  Leaf leaf;
  Tensor table;
  std::vector<Tensor> cache;
};
struct Around : nn::Module<Around> {
  WithTensor inner;
};

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const ValueError& error) {
    return error.what();
  }
  return "";
}

TEST(NnMembers, ATensorThatRequiresAGradientIsRefusedByName) {
  Around module;
  module.inner.table = ones({2});
  EXPECT_EQ(module.parameters().size(), 1U);  // a constant is not trained
  module.inner.cache = {module.inner.leaf(ones({2}))};
  EXPECT_EQ(module.parameters().size(), 1U);  // neither is a computed tensor
  module.inner.table.requires_grad_();
  for (const std::string& text :
       {refusal([&] { module.parameters(); }), refusal([&] { module.eval(); }),
        refusal([&] { module.state_dict(); }), refusal([&] { module.summary(); }),
        refusal([&] { module.apply([](const nn::ModuleView&) {}); })}) {
    EXPECT_NE(text.find("inner.table is a Tensor that requires a gradient"), std::string::npos)
        << text;
    EXPECT_NE(text.find("nn::Parameter"), std::string::npos) << text;
  }
  module.inner.table.requires_grad_(false);
  module.inner.cache = {ones({1}).requires_grad_()};
  EXPECT_NE(refusal([&] { module.parameters(); }).find("inner.cache.0"), std::string::npos);
}

// ---- names

struct SameNames : nn::Module<SameNames> {
  Leaf first, second;
  void visit(nn::Walker& walk) { walk("leaf", first)("leaf", second); }
};
TEST(NnMembers, TwoOfOneNameAreRefused) {
  EXPECT_NE(refusal([] { SameNames().parameters(); }).find("leaf.b"), std::string::npos);
}

// ---- many members

struct Many : nn::Module<Many> {
  nn::Parameter a0{ones({1})}, a1{ones({1})}, a2{ones({1})}, a3{ones({1})}, a4{ones({1})},
      a5{ones({1})}, a6{ones({1})}, a7{ones({1})}, a8{ones({1})}, a9{ones({1})};
  Leaf b0, b1, b2, b3, b4, b5, b6, b7, b8, b9;
  nn::Linear c0{1, 1}, c1{1, 1}, c2{1, 1}, c3{1, 1}, c4{1, 1}, c5{1, 1}, c6{1, 1}, c7{1, 1},
      c8{1, 1}, c9{1, 1};
};
TEST(NnMembers, Thirty) {
  const Names found = names(Many().named_parameters());
  EXPECT_EQ(found.size(), 40U);
  EXPECT_EQ(found.back(), "c9.bias");
}

}  // namespace
}  // namespace extensor
