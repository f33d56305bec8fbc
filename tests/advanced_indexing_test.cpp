// Compares several hundred random index expressions with the loops of support/index_reference.h:
// reads and writes, for several dtypes and layouts, with gradients.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "extensor/extensor.h"
#include "support/index_reference.h"

namespace {

using namespace extensor;
using index_reference::Entry;
using index_reference::Expression;
using index_reference::Ints;
using index_reference::Named;
using index_reference::Random;
using Doubles = std::vector<double>;

Doubles doubles(const Tensor& x) { return x.to(float64).to_vector<double>(); }

// Integers of one of several dtypes, dense or every second element of a longer tensor.
Tensor index_tensor(Random& random, const Entry& entry) {
  if (entry.kind == Entry::Kind::mask) {
    return from_data(entry.values, Shape(entry.shape)).to(bool_);
  }
  const Tensor dense = from_data(entry.values, Shape(entry.shape));
  bool negative = false;
  for (std::int64_t value : entry.values) negative = negative || value < 0;
  const DType dtypes[] = {
      int64, int32, int16, int8, negative ? int8 : uint8, negative ? int64 : uint64};
  const DType dtype = dtypes[index_reference::draw(random, 0, 5)];
  if (entry.shape.empty() || index_reference::draw(random, 0, 1) == 0) return dense.to(dtype);
  Shape wide(entry.shape);
  wide.back() *= 2;
  Tensor spaced = full(wide, 99, dtype).slice(-1, {}, {}, 2);
  spaced.copy_from(dense);
  return spaced;
}

std::vector<Index> library_index(Random& random, const Expression& expression) {
  std::vector<Index> index;
  for (const Entry& entry : expression) {
    switch (entry.kind) {
      case Entry::Kind::integer:
        index.emplace_back(entry.integer);
        break;
      case Entry::Kind::slice:
        index.emplace_back(Slice{entry.start, entry.stop, entry.step});
        break;
      case Entry::Kind::ellipsis:
        index.emplace_back(ellipsis);
        break;
      case Entry::Kind::newaxis:
        index.emplace_back(newaxis);
        break;
      default:
        index.emplace_back(index_tensor(random, entry));
    }
  }
  return index;
}

// Numbers that every dtype represents; neighbors differ.
Tensor numbers(const Shape& shape, DType dtype, std::int64_t offset = 0) {
  std::int64_t count = 1;
  for (std::int64_t size : shape) count *= size;
  const Tensor all = modulo(add(multiply(arange(count), 7), offset), dtype == bool_ ? 2 : 101);
  return all.reshape(shape).to(dtype);
}

// The values of x in another layout: dense, transposed, every second element, or reversed. `memory`
// is the tensor that holds them.
Tensor laid_out(const Tensor& x, int layout, Tensor& memory) {
  const std::int64_t rank = x.ndim();
  if (layout == 0 || rank == 0) {
    memory = x.clone();
    return memory;
  }
  Shape shape = x.shape();
  Tensor view;
  if (layout == 1) {
    std::reverse(shape.begin(), shape.end());
    memory = zeros(shape, x.dtype());
    view = memory.transpose();
  } else if (layout == 2) {
    shape.back() *= 2;
    memory = zeros(shape, x.dtype());
    view = memory.slice(-1, {}, {}, 2);
  } else {
    memory = zeros(shape, x.dtype());
    view = memory.slice(0, {}, {}, -1);
  }
  view.copy_from(x);
  return view;
}

const DType dtypes[] = {bool_, int8, uint8, int32, int64, float16, bfloat16, float32, float64};

struct Case {
  Ints shape;
  Expression expression;
  Named named;
  std::vector<Index> index;
  std::string text;
};

Case draw_case(Random& random, bool with_tensors = true) {
  Case drawn;
  drawn.shape = index_reference::draw_shape(random, 4, 4);
  drawn.expression = index_reference::draw_expression(random, drawn.shape, with_tensors);
  drawn.named = index_reference::resolve(drawn.shape, drawn.expression);
  drawn.index = library_index(random, drawn.expression);
  drawn.text = to_string(Shape(drawn.shape)) + index_reference::to_text(drawn.expression);
  return drawn;
}

bool has_tensors(const Case& drawn) {
  for (const Index& entry : drawn.index) {
    if (entry.kind() == Index::Kind::tensor) return true;
  }
  return false;
}

TEST(AdvancedIndexing, ReadsWhatTheReferenceNames) {
  Random random(1);
  int with_tensors = 0;
  for (int i = 0; i < 1500; ++i) {
    const Case drawn = draw_case(random);
    const DType dtype = dtypes[i % std::size(dtypes)];
    Tensor memory;
    const Tensor values = numbers(Shape(drawn.shape), dtype);
    const Tensor x = laid_out(values, i % 4, memory);
    const Doubles all = doubles(values);
    Doubles expected;
    for (std::int64_t element : drawn.named.elements) {
      expected.push_back(all[static_cast<std::size_t>(element)]);
    }
    const Tensor y = x.index(drawn.index);
    EXPECT_EQ(y.shape(), Shape(drawn.named.shape)) << drawn.text;
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(doubles(y), expected) << drawn.text;
    with_tensors += has_tensors(drawn);
  }
  EXPECT_GT(with_tensors, 500);
}

TEST(AdvancedIndexing, WritesWhatTheReferenceNames) {
  Random random(2);
  for (int i = 0; i < 1500; ++i) {
    const Case drawn = draw_case(random);
    const DType dtype = dtypes[i % std::size(dtypes)];
    Tensor memory;
    const Tensor values = numbers(Shape(drawn.shape), dtype);
    const Tensor x = laid_out(values, i % 4, memory);
    const Tensor before = memory.clone();
    const Ints source_shape = index_reference::draw_broadcastable(random, drawn.named.shape);
    // Of the same dtype, or of one that converts to it without changing these values.
    const DType source_dtype = i % 3 == 0 ? bool_ : i % 3 == 1 && dtype == float64 ? int16 : dtype;
    const Tensor source = numbers(Shape(source_shape), source_dtype, 50);
    const Doubles new_values = doubles(source);
    Doubles expected = doubles(values);
    for (std::size_t e = 0; e < drawn.named.elements.size(); ++e) {
      const Ints at = index_reference::unravel(static_cast<std::int64_t>(e), drawn.named.shape);
      expected[static_cast<std::size_t>(drawn.named.elements[e])] =
          new_values[static_cast<std::size_t>(
              index_reference::broadcast_position(at, source_shape))];
    }
    const Tensor put = index_put(x, drawn.index, source);
    EXPECT_EQ(doubles(put), expected) << drawn.text;
    EXPECT_EQ(doubles(memory), doubles(before)) << "index_put changed its input: " << drawn.text;
    x.index(drawn.index) = source;
    EXPECT_EQ(doubles(x), expected) << drawn.text << " = " << to_string(source.shape());
    // The memory between the elements of x is unchanged.
    Tensor restored = x;
    restored.copy_from(values);
    EXPECT_EQ(doubles(memory), doubles(before)) << drawn.text;
  }
}

TEST(AdvancedIndexing, CompoundAssignmentGathersAddsAndWritesBack) {
  Random random(3);
  for (int i = 0; i < 500; ++i) {
    const Case drawn = draw_case(random);
    const Tensor values = numbers(Shape(drawn.shape), float64);
    Tensor memory;
    const Tensor x = laid_out(values, i % 4, memory);
    const Ints shape = index_reference::draw_broadcastable(random, drawn.named.shape);
    const Tensor added = numbers(Shape(shape), float64, 13);
    const Doubles before = doubles(values), terms = doubles(added);
    Doubles expected = before;
    for (std::size_t e = 0; e < drawn.named.elements.size(); ++e) {
      const auto element = static_cast<std::size_t>(drawn.named.elements[e]);
      const Ints at = index_reference::unravel(static_cast<std::int64_t>(e), drawn.named.shape);
      expected[element] =
          before[element] +
          terms[static_cast<std::size_t>(index_reference::broadcast_position(at, shape))];
    }
    x.index(drawn.index) += added;
    EXPECT_EQ(doubles(x), expected) << drawn.text;
  }
}

TEST(AdvancedIndexing, GradientOfReadingSums) {
  Random random(4);
  for (int i = 0; i < 400; ++i) {
    const Case drawn = draw_case(random);
    Tensor x = numbers(Shape(drawn.shape), float64).requires_grad_();
    const Tensor y = x.index(drawn.index);
    const Tensor g = numbers(y.shape(), float64, 3);
    Doubles expected(static_cast<std::size_t>(x.numel()), 0);
    const Doubles gradient = doubles(g);
    for (std::size_t e = 0; e < drawn.named.elements.size(); ++e) {
      expected[static_cast<std::size_t>(drawn.named.elements[e])] += gradient[e];
    }
    y.backward(g);
    EXPECT_EQ(doubles(x.grad()), expected) << drawn.text;
    EXPECT_EQ(doubles(slice_backward(g, x.shape(), drawn.index)), expected) << drawn.text;
  }
}

TEST(AdvancedIndexing, GradientOfWriting) {
  Random random(5);
  for (int i = 0; i < 400; ++i) {
    const Case drawn = draw_case(random);
    const Ints shape = index_reference::draw_broadcastable(random, drawn.named.shape);
    Tensor leaf = numbers(Shape(drawn.shape), float64).requires_grad_();
    Tensor values = numbers(Shape(shape), float64, 31).requires_grad_();
    Tensor x = leaf * 2.0;
    if (has_tensors(drawn)) {
      x.index(drawn.index) = values;
    } else {
      x = index_put(x, drawn.index, values);  // assignment through views has a separate test
    }
    const Tensor g = numbers(x.shape(), float64, 5);
    x.backward(g);
    const Doubles gradient = doubles(g);
    // The last write of every element.
    std::vector<std::int64_t> writer(static_cast<std::size_t>(x.numel()), -1);
    for (std::size_t e = 0; e < drawn.named.elements.size(); ++e) {
      writer[static_cast<std::size_t>(drawn.named.elements[e])] = static_cast<std::int64_t>(e);
    }
    Doubles of_leaf(writer.size()), of_values(static_cast<std::size_t>(values.numel()));
    for (std::size_t e = 0; e < writer.size(); ++e) {
      if (writer[e] < 0) {
        of_leaf[e] = 2 * gradient[e];
        continue;
      }
      const Ints at = index_reference::unravel(writer[e], drawn.named.shape);
      of_values[static_cast<std::size_t>(index_reference::broadcast_position(at, shape))] +=
          gradient[e];
    }
    EXPECT_EQ(doubles(leaf.grad()), of_leaf) << drawn.text;
    EXPECT_EQ(doubles(values.grad()), of_values) << drawn.text;
  }
}

// The backward reads the index tensors, and neither x nor the values.
TEST(AdvancedIndexing, BackwardReadsTheIndexTensorsAlone) {
  Tensor leaf = ones({3}, float64).requires_grad_();
  Tensor rows = tensor({2, 0});
  const auto selected = [&] {
    Tensor x = leaf * 2.0;
    Tensor values = leaf.slice(0, 0, 2) * 3.0;
    const Tensor y = sum(x.index({rows})) + sum(index_put(x, {rows}, values));
    x.fill(7);
    values.fill(7);
    return y;
  };
  selected().backward();
  EXPECT_EQ(doubles(leaf.grad()), (Doubles{5, 5, 2}));
  const Tensor y = selected();
  rows.fill(1);
  EXPECT_THROW(y.backward(), ValueError);
}

TEST(AdvancedIndexing, GradientsOfEveryOrderAgreeWithFiniteDifferences) {
  const Tensor rows = tensor({2, 0, 2, -1}), columns = tensor({1, 1, 1, 0});
  const std::vector<std::vector<Index>> expressions = {
      {rows},
      {rows, columns},
      {Slice{{}, {}, -1}, columns},
      {rows, newaxis, columns},
      {tensor({{true, false}, {false, true}, {true, true}})}};
  for (const std::vector<Index>& index : expressions) {
    const Tensor x = numbers({3, 2}, float64) * 0.01;
    const Tensor values = numbers(x.index(index).shape(), float64, 20) * 0.01;
    const GradcheckResult read =
        gradcheck([&](const std::vector<Tensor>& in) { return exp(in[0].index(index)); },
                  [&](const Tensor& g, const std::vector<Tensor>& in) {
                    return std::vector<Tensor>{
                        slice_backward(g * exp(in[0].index(index)), in[0].shape(), index)};
                  },
                  {x});
    EXPECT_TRUE(read.passed) << read.message;
    const GradcheckResult written =
        gradcheck([&](const std::vector<Tensor>& in) { return index_put(in[0], index, in[1]); },
                  [&](const Tensor& g, const std::vector<Tensor>& in) {
                    const auto [of_x, of_values] = index_put_backward(g, index, in[1].shape());
                    return std::vector<Tensor>{of_x, of_values};
                  },
                  {x, values});
    EXPECT_TRUE(written.passed) << written.message;

    // Second order: of Σ exp(x[index])² and of Σ put(x, values)³, by a second backward pass.
    Tensor leaf = x.clone().requires_grad_();
    const Tensor first = grad(sum(exp(leaf.index(index))), {leaf}, {.create_graph = true})[0];
    const Tensor second = grad(sum(first), {leaf})[0];
    EXPECT_LT(max(abs(second - first.detach())).item<double>(), 1e-14);
    Tensor other = values.clone().requires_grad_();
    const auto of_put =
        grad(sum(power(index_put(leaf, index, other), 3.0)), {leaf, other}, {.create_graph = true});
    const Tensor curvature = grad(sum(of_put[0]) + sum(of_put[1]), {leaf})[0];
    const Tensor untouched = index_put(ones(x.shape(), float64), index, zeros({}, float64));
    EXPECT_LT(max(abs(curvature - 6.0 * x * untouched)).item<double>(), 1e-12);
  }
}

}  // namespace
