#include "op_database/loops.h"

namespace extensor::op_database {

namespace {

Tensor draw(const Shape& shape, std::uint64_t seed) { return sample_uniform(shape, -2, 2, seed); }

Tensors both(const std::pair<Tensor, Tensor>& gradients) {
  return {gradients.first, gradients.second};
}

// The names of dimensions in the samples, for the reference.
struct Named {
  Shape a, b;
  std::string a_names, b_names, output;
};

Function reference_of(const Named& named) {
  return [named](const Tensors& in) {
    return sum_of_products({named.a_names, named.b_names}, named.output, in);
  };
}

std::vector<Sample> bilinear_samples(const std::vector<Named>& list, const Function& forward,
                                     const Gradients& backward) {
  std::vector<Sample> samples;
  for (const Named& named : list) {
    const Tensors inputs{draw(named.a, 1), draw(named.b, 2)};
    samples.push_back(sample_of(shapes_of(inputs), inputs, forward, reference_of(named), backward));
  }
  return samples;
}

std::vector<Sample> matmul_samples() {
  return bilinear_samples(
      {
          {{5}, {5}, "k", "k", ""},
          {{3, 17}, {17}, "ik", "k", "i"},
          {{17}, {17, 3}, "k", "kj", "j"},
          {{3, 4}, {4, 5}, "ik", "kj", "ij"},
          {{9, 17}, {17, 9}, "ik", "kj", "ij"},
          {{2, 33}, {33, 5}, "ik", "kj", "ij"},
          {{2, 3, 4}, {2, 4, 5}, "bik", "bkj", "bij"},
          {{2, 3, 4}, {4, 5}, "bik", "kj", "bij"},
          {{3, 4}, {2, 4, 5}, "ik", "bkj", "bij"},
          {{2, 1, 3, 4}, {3, 4, 2}, "abik", "bkj", "abij"},
          {{2, 3, 4}, {4}, "bik", "k", "bi"},
          {{4}, {2, 4, 3}, "k", "bkj", "bj"},
          {{3, 0}, {0, 4}, "ik", "kj", "ij"},
          {{0, 3}, {3, 2}, "ik", "kj", "ij"},
      },
      [](const Tensors& in) { return matmul(in[0], in[1]); },
      [](const Tensor& g, const Tensors& in) { return both(matmul_backward(g, in[0], in[1])); });
}

std::vector<Sample> transpose_samples() {
  struct Case {
    Shape shape;
    Dims axes;
    std::string names, output;
  };
  std::vector<Sample> samples;
  for (const Case& c : std::vector<Case>{{{}, {}, "", ""},
                                         {{5}, {}, "i", "i"},
                                         {{3, 17}, {}, "ij", "ji"},
                                         {{2, 3, 4}, {}, "ijk", "kji"},
                                         {{2, 3, 4}, {1, 2, 0}, "ijk", "jki"},
                                         {{2, 3, 4}, {0, -1, 1}, "ijk", "ikj"},
                                         {{0, 3}, {1, 0}, "ij", "ji"}}) {
    std::string label = to_string(c.shape);
    if (!c.axes.empty()) label += ", axes " + to_string(c.axes);
    samples.push_back(sample_of(
        label, {draw(c.shape, 1)},
        [c](const Tensors& in) {
          return c.axes.empty() ? transpose(in[0]) : transpose(in[0], c.axes);
        },
        [c](const Tensors& in) { return sum_of_products({c.names}, c.output, in); },
        [c](const Tensor& g, const Tensors&) { return Tensors{transpose_backward(g, c.axes)}; }));
  }
  return samples;
}

std::vector<Sample> matrix_transpose_samples() {
  struct Case {
    Shape shape;
    Dims axes;  // the permutation in full
    std::string names, output;
  };
  std::vector<Sample> samples;
  for (const Case& c : std::vector<Case>{{{3, 17}, {1, 0}, "ij", "ji"},
                                         {{2, 3, 4}, {0, 2, 1}, "bij", "bji"},
                                         {{2, 0, 4}, {0, 2, 1}, "bij", "bji"}}) {
    samples.push_back(sample_of(
        to_string(c.shape), {draw(c.shape, 1)},
        [](const Tensors& in) { return matrix_transpose(in[0]); },
        [c](const Tensors& in) { return sum_of_products({c.names}, c.output, in); },
        [c](const Tensor& g, const Tensors&) { return Tensors{transpose_backward(g, c.axes)}; }));
  }
  return samples;
}

std::vector<Sample> tensordot_samples() {
  struct Case {
    Named named;
    std::int64_t count;  // −1: the lists are used
    Dims a_axes, b_axes;
  };
  const std::vector<Case> cases{
      {{{2, 3, 4}, {3, 4, 5}, "aij", "ijb", "ab"}, 2, {}, {}},
      {{{3, 17}, {17, 2}, "ai", "ib", "ab"}, 1, {}, {}},
      {{{3}, {2, 2}, "a", "bc", "abc"}, 0, {}, {}},
      {{{}, {4}, "", "b", "b"}, 0, {}, {}},
      {{{2, 3, 4}, {2, 3, 4}, "ijk", "ijk", ""}, 3, {}, {}},
      {{{4, 3, 2}, {5, 3, 4}, "iaj", "bxi", "ajbx"}, -1, {0}, {2}},
      {{{4, 3, 2}, {3, 4, 5}, "ija", "jib", "ab"}, -1, {0, 1}, {1, 0}},
      {{{4, 3, 2}, {2, 5, 4}, "iaj", "jbi", "ab"}, -1, {-3, -1}, {-1, 0}},
      {{{3, 0}, {0, 2}, "ai", "ib", "ab"}, 1, {}, {}},
  };
  std::vector<Sample> samples;
  for (const Case& c : cases) {
    const Tensors inputs{draw(c.named.a, 1), draw(c.named.b, 2)};
    const std::string axes = c.count >= 0
                                 ? ", axes " + std::to_string(c.count)
                                 : ", axes " + to_string(c.a_axes) + " and " + to_string(c.b_axes);
    samples.push_back(sample_of(
        shapes_of(inputs) + axes, inputs,
        [c](const Tensors& in) {
          return c.count >= 0 ? tensordot(in[0], in[1], c.count)
                              : tensordot(in[0], in[1], c.a_axes, c.b_axes);
        },
        reference_of(c.named),
        [c](const Tensor& g, const Tensors& in) {
          return both(c.count >= 0 ? tensordot_backward(g, in[0], in[1], c.count)
                                   : tensordot_backward(g, in[0], in[1], c.a_axes, c.b_axes));
        }));
  }
  return samples;
}

std::vector<Sample> vecdot_samples() {
  const std::vector<std::pair<Named, std::int64_t>> cases{
      {{{5}, {5}, "k", "k", ""}, -1},
      {{{3, 17}, {3, 17}, "ik", "ik", "i"}, -1},
      {{{3, 17}, {17}, "ik", "k", "i"}, -1},
      {{{4, 3}, {4, 3}, "ki", "ki", "i"}, 0},
      {{{2, 4, 3}, {4, 1}, "aki", "ki", "ai"}, -2},
      {{{2, 1, 5}, {3, 5}, "abk", "bk", "ab"}, -1},
      {{{3, 0}, {3, 0}, "ik", "ik", "i"}, -1},
      {{{0, 3}, {1, 3}, "ik", "ik", "i"}, -1},
  };
  std::vector<Sample> samples;
  for (const auto& [named, axis] : cases) {
    const Tensors inputs{draw(named.a, 1), draw(named.b, 2)};
    samples.push_back(sample_of(
        shapes_of(inputs) + ", axis " + std::to_string(axis), inputs,
        [axis = axis](const Tensors& in) { return vecdot(in[0], in[1], axis); },
        reference_of(named),
        [axis = axis](const Tensor& g, const Tensors& in) {
          return both(vecdot_backward(g, in[0], in[1], axis));
        }));
  }
  return samples;
}

std::vector<Sample> einsum_samples() {
  struct Case {
    std::string subscripts;
    std::vector<Shape> shapes;
    std::vector<std::string> names;  // without ellipses, for the reference
    std::string output;
  };
  const std::vector<Case> cases{
      {"ij,jk->ik", {{3, 17}, {17, 5}}, {"ij", "jk"}, "ik"},
      {"ij,jk", {{3, 4}, {4, 5}}, {"ij", "jk"}, "ik"},
      {"ba", {{2, 3}}, {"ba"}, "ab"},
      {"ij->ji", {{2, 3}}, {"ij"}, "ji"},
      {"ij->", {{5, 7}}, {"ij"}, ""},
      {"ij->j", {{5, 7}}, {"ij"}, "j"},
      {"ii->i", {{4, 4}}, {"ii"}, "i"},
      {"ii", {{4, 4}}, {"ii"}, ""},
      {"iij->ij", {{3, 3, 2}}, {"iij"}, "ij"},
      {"iii->i", {{3, 3, 3}}, {"iii"}, "i"},
      {"i,i->i", {{9}, {9}}, {"i", "i"}, "i"},
      {"i,j->ij", {{3}, {5}}, {"i", "j"}, "ij"},
      {"i,i->", {{33}, {33}}, {"i", "i"}, ""},
      {"bij,bjk->bik", {{2, 3, 4}, {2, 4, 5}}, {"bij", "bjk"}, "bik"},
      {"bqhd,bkhd->bhqk", {{2, 3, 2, 4}, {2, 5, 2, 4}}, {"bqhd", "bkhd"}, "bhqk"},
      {"ij,kj->k", {{3, 4}, {5, 4}}, {"ij", "kj"}, "k"},
      {"ii,ij->j", {{3, 3}, {3, 4}}, {"ii", "ij"}, "j"},
      {"...ij,...jk->...ik", {{2, 3, 4}, {4, 5}}, {"bij", "jk"}, "bik"},
      {"...i,...i", {{2, 1, 4}, {3, 4}}, {"abi", "bi"}, "ab"},
      {"i...,...->i...", {{2, 3, 4}, {1, 4}}, {"iab", "ab"}, "iab"},
      {"...ij->...", {{2, 3, 4}}, {"aij"}, "a"},
      {"i...->i", {{2, 3, 4}}, {"iab"}, "i"},
      {"i,ij,j->", {{3}, {3, 4}, {4}}, {"i", "ij", "j"}, ""},
      {"ij,jk,kl->il", {{2, 3}, {3, 4}, {4, 5}}, {"ij", "jk", "kl"}, "il"},
      {"ab,bc,cd,da->", {{2, 3}, {3, 4}, {4, 2}, {2, 2}}, {"ab", "bc", "cd", "da"}, ""},
      {"aA,Ab->b", {{2, 3}, {3, 4}}, {"aA", "Ab"}, "b"},
      {"ij,jk->ik", {{3, 1}, {4, 5}}, {"ij", "jk"}, "ik"},
      {"ij,j->i", {{3, 0}, {0}}, {"ij", "j"}, "i"},
      {",i->i", {{}, {4}}, {"", "i"}, "i"},
      {"->", {{}}, {""}, ""},
  };
  std::vector<Sample> samples;
  for (const Case& c : cases) {
    Tensors inputs;
    for (const Shape& shape : c.shapes) inputs.push_back(draw(shape, inputs.size() + 1));
    samples.push_back(sample_of(
        "\"" + c.subscripts + "\", " + shapes_of(inputs), inputs,
        [c](const Tensors& in) { return einsum(c.subscripts, in); },
        [c](const Tensors& in) { return sum_of_products(c.names, c.output, in); },
        [c](const Tensor& g, const Tensors& in) { return einsum_backward(g, c.subscripts, in); }));
  }
  return samples;
}

}  // namespace

void add_matrix(std::vector<Op>& ops) {
  const auto add_op = [&](std::string name, std::string formula, std::string gradient,
                          std::string backward, std::function<std::vector<Sample>()> samples) {
    ops.push_back({std::move(name),
                   "matrix",
                   std::move(formula),
                   std::move(gradient),
                   {std::move(backward)},
                   DTypes::all,
                   std::move(samples)});
  };
  add_op("matmul", "c = a·b, a vector being a row on the left and a column on the right",
         "grad_a = g·bᵀ, grad_b = aᵀ·g, summed over broadcast batches", "matmul_backward",
         matmul_samples);
  add_op("transpose", "y[i₁, i₂, …] = x[i_axes…], all axes reversed by default",
         "g with the axes put back", "transpose_backward", transpose_samples);
  add_op("matrix_transpose", "y[…, i, j] = x[…, j, i]", "gᵀ", "transpose_backward",
         matrix_transpose_samples);
  add_op("dot", "Σ aᵢ bᵢ", "grad_a = g b, grad_b = g a", "dot_backward", [] {
    return bilinear_samples(
        {{{5}, {5}, "k", "k", ""}, {{33}, {33}, "k", "k", ""}, {{0}, {0}, "k", "k", ""}},
        [](const Tensors& in) { return dot(in[0], in[1]); },
        [](const Tensor& g, const Tensors& in) { return both(dot_backward(g, in[0], in[1])); });
  });
  add_op("outer", "y[i, j] = aᵢ bⱼ", "grad_a = g·b, grad_b = a·g", "outer_backward", [] {
    return bilinear_samples(
        {{{3}, {5}, "i", "j", "ij"}, {{7}, {17}, "i", "j", "ij"}, {{0}, {3}, "i", "j", "ij"}},
        [](const Tensors& in) { return outer(in[0], in[1]); },
        [](const Tensor& g, const Tensors& in) { return both(outer_backward(g, in[0], in[1])); });
  });
  add_op("inner", "y[i…, j…] = Σₖ a[i…, k] b[j…, k]", "grad_a = Σⱼ g b, grad_b = Σᵢ g a",
         "inner_backward", [] {
           return bilinear_samples(
               {{{5}, {5}, "k", "k", ""},
                {{3, 17}, {2, 17}, "ik", "jk", "ij"},
                {{2, 3, 4}, {5, 4}, "aik", "jk", "aij"},
                {{}, {2, 3}, "", "ij", "ij"},
                {{3}, {}, "i", "", "i"},
                {{2, 0}, {3, 0}, "ik", "jk", "ij"}},
               [](const Tensors& in) { return inner(in[0], in[1]); },
               [](const Tensor& g, const Tensors& in) {
                 return both(inner_backward(g, in[0], in[1]));
               });
         });
  add_op("tensordot", "Σ over pairs of axes of a and b of their products",
         "grad_a = g over b's other axes, grad_b = g over a's", "tensordot_backward",
         tensordot_samples);
  add_op("vecdot", "y[…] = Σₖ a[…, k] b[…, k], the other axes broadcasting",
         "grad_a = g b, grad_b = g a, summed over broadcast axes", "vecdot_backward",
         vecdot_samples);
  add_op("einsum", "Σ over the indices that the result lacks of the product of the operands",
         "of each operand: the same sum over g and the other operands", "einsum_backward",
         einsum_samples);
}

}  // namespace extensor::op_database
