// Modules that do not compile, one for each number REFUSED, and the reason that the compiler has to
// give. run.cmake compiles each of them; without REFUSED the file is correct.
#include <functional>
#include <map>
#include <memory>
#include <span>

#include "extensor/nn.h"

using namespace extensor;

struct Leaf : nn::Module<Leaf> {
  nn::Parameter w{Tensor()};
  Tensor forward(const Tensor& x) const { return x; }
};
struct Node {
  int number;
};

#ifndef REFUSED
#define REFUSED 0
#endif

struct Net : nn::Module<Net> {
  Leaf leaf;
  int* numbers = nullptr;
  Node* node = nullptr;
  Tensor (*function)(const Tensor&) = nullptr;
  std::function<double(double)> rate;
#if REFUSED == 1  // points to.*hold it by value
  Leaf* member = nullptr;
#elif REFUSED == 2   // points to.*hold it by value
  std::weak_ptr<Leaf> member;
#elif REFUSED == 3   // points to.*hold it by value
  std::unique_ptr<Leaf[]> member;
#elif REFUSED == 4   // points to.*hold it by value
  std::vector<std::reference_wrapper<Leaf> > member;
#elif REFUSED == 5   // points to.*hold it by value
  std::span<nn::Parameter> member;
#elif REFUSED == 6   // takes a tensor, but is no module.*nn::AnyLayer
  std::function<Tensor(const Tensor&)> member;
#elif REFUSED == 7   // takes a tensor, but is no module.*nn::AnyLayer
  struct Layer {
    virtual ~Layer() = default;
    virtual Tensor forward(const Tensor& x) = 0;
  };
  std::unique_ptr<Layer> member;
#elif REFUSED == 8   // is const.*without const
  const Leaf member;
#elif REFUSED == 9   // is const.*without const
  std::shared_ptr<const Leaf> member;
#elif REFUSED == 10  // keys of this map make no names
  std::map<double, Leaf> member;
#elif REFUSED == 11  // cannot be found.*void visit
  Leaf& member;
#elif REFUSED == 12  // struct B : nn::Module<B, A>, not struct B : A
  struct Derived : Leaf {
    nn::Parameter own;
  } member;
#elif REFUSED == 13  // names the members it adds.*void visit
  struct Derived : nn::Module<Derived, Leaf> {
    nn::Parameter own;
  } member;
#elif REFUSED == 14  // a module with constructors names its members.*void visit
  struct Made : nn::Module<Made> {
    Made() {}
    nn::Parameter own;
  } member;
#elif REFUSED == 15  // more than 64 members.*void visit
  nn::Parameter a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, b0, b1, b2, b3, b4, b5, b6, b7, b8, b9;
  nn::Parameter c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, d0, d1, d2, d3, d4, d5, d6, d7, d8, d9;
  nn::Parameter e0, e1, e2, e3, e4, e5, e6, e7, e8, e9, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9;
#endif
};

std::vector<Tensor> parameters(const Net& net) { return net.parameters(); }

#if REFUSED == 16  // cannot derive from|is marked 'final'
struct Scaled : nn::Linear {
  nn::Parameter scale;
};
#elif REFUSED == 17  // owns something.*struct F : nn::Module<F>
nn::AnyLayer owning(const Leaf& leaf) {
  return [leaf](const Tensor& x) { return leaf(x); };
}
#elif REFUSED == 18  // struct B : nn::Module<B, A>, not struct B : A
struct Derived : Leaf {
  nn::Parameter own;
};
nn::AnyLayer derived(const Derived& layer) { return layer; }
#endif
