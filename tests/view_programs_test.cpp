// Random programs of views, in-place writes and reads. Each runs twice: with tensors that share
// memory, and with immutable one-dimensional values, where a view is a list of positions, a read is
// take() and a write is where(). Losses and gradients must agree.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "extensor/extensor.h"

namespace extensor {
namespace {

using Sizes = std::vector<std::int64_t>;

std::int64_t product(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

Shape shape_of(const Sizes& sizes) {
  Shape shape;
  for (std::int64_t size : sizes) shape.push_back(size);
  return shape;
}

// ---- views as lists of positions

// The positions in a buffer that a view shows, in row-major order.
struct Map {
  Sizes shape;
  Sizes at;

  static Map whole(const Sizes& shape) {
    Map map{shape, Sizes(static_cast<std::size_t>(product(shape)))};
    std::iota(map.at.begin(), map.at.end(), 0);
    return map;
  }
  std::int64_t numel() const { return static_cast<std::int64_t>(at.size()); }
  std::int64_t rank() const { return static_cast<std::int64_t>(shape.size()); }

  std::int64_t operator()(const Sizes& index) const {
    std::int64_t flat = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) flat = flat * shape[d] + index[d];
    return at[static_cast<std::size_t>(flat)];
  }
};

// A map of another shape; `from` turns an index of it into one of the old map.
template <class From>
Map remap(const Map& old, const Sizes& shape, const From& from) {
  Map map{shape, {}};
  Sizes index(shape.size(), 0);
  for (std::int64_t k = 0; k < product(shape); ++k) {
    map.at.push_back(old(from(index)));
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
  return map;
}

Map sliced(const Map& old, std::size_t axis, const Sizes& kept) {
  Sizes shape = old.shape;
  shape[axis] = static_cast<std::int64_t>(kept.size());
  return remap(old, shape, [&](Sizes index) {
    index[axis] = kept[static_cast<std::size_t>(index[axis])];
    return index;
  });
}

Map permuted(const Map& old, const Sizes& order) {
  Sizes shape;
  for (std::int64_t axis : order) shape.push_back(old.shape[static_cast<std::size_t>(axis)]);
  return remap(old, shape, [&](const Sizes& index) {
    Sizes from(index.size());
    for (std::size_t d = 0; d < order.size(); ++d) {
      from[static_cast<std::size_t>(order[d])] = index[d];
    }
    return from;
  });
}

Map broadcast(const Map& old, const Sizes& shape) {
  return remap(old, shape, [&](const Sizes& index) {
    Sizes from(index.end() - static_cast<std::ptrdiff_t>(old.shape.size()), index.end());
    for (std::size_t d = 0; d < from.size(); ++d) {
      if (old.shape[d] == 1) from[d] = 0;
    }
    return from;
  });
}

// ---- one program

struct Program {
  // One memory buffer, and its immutable value in the other run.
  struct Buffer {
    Tensor value;  // one-dimensional
    bool leaf = false;
    bool sealed = false;  // a gradient needs the current values
  };
  // A tensor on a buffer; all handles live until the end.
  struct Handle {
    Tensor tensor;
    std::size_t buffer;
    Map map;
    bool writable = true;
  };

  explicit Program(unsigned seed) : random(seed) {
    for (int k = 0; k < 2; ++k) {
      const Sizes shape = random_shape();
      const Tensor start = random_values(product(shape));
      leaves.push_back(start.clone().reshape(shape_of(shape)).clone().requires_grad_());
      functional_leaves.push_back(start.clone().requires_grad_());
      buffers.push_back({functional_leaves.back(), true});
      handles.push_back({leaves.back(), buffers.size() - 1, Map::whole(shape), false});
    }
    for (int k = 0; k < 2; ++k) {
      const Sizes shape = random_shape();
      const Tensor start = random_values(product(shape));
      add_buffer(start.clone().reshape(shape_of(shape)), start.clone(), shape);
    }
    loss = functional_loss = zeros({}, float64);
  }

  void run(int statements) {
    for (int k = 0; k < statements; ++k) {
      const int kind = pick(10);
      if (kind < 4) {
        view();
      } else if (kind < 8) {
        write();
      } else if (kind < 9) {
        read(handle());
      } else {
        compute();
      }
    }
    for (std::size_t k = 0; k < handles.size(); ++k) read(k);
  }

  // ---- statements

  void view() {
    const std::size_t from = handle();
    Handle next = handles[from];
    const Map& old = handles[from].map;
    const Tensor& x = handles[from].tensor;
    const auto axis = old.rank() == 0 ? 0 : static_cast<std::size_t>(pick(old.rank()));
    const int kind = old.rank() == 0 ? 4 + pick(2) : pick(9);
    if (kind <= 1) {  // a slice, forwards or backwards
      const std::int64_t size = old.shape[axis];
      const std::int64_t step = 1 + pick(2), first = pick(size), last = first + pick(size - first);
      Sizes kept;
      if (kind == 0) {
        for (std::int64_t i = first; i <= last; i += step) kept.push_back(i);
        next.tensor = x.slice(static_cast<std::int64_t>(axis), first, last + 1, step);
      } else {
        for (std::int64_t i = last; i >= first; i -= step) kept.push_back(i);
        const auto stop = first == 0 ? std::nullopt : std::optional<std::int64_t>(first - 1);
        next.tensor = x.slice(static_cast<std::int64_t>(axis), last, stop, -step);
      }
      next.map = sliced(old, axis, kept);
      count(kind == 0 ? "slice" : "negative slice");
    } else if (kind == 2) {  // one position, by the first axis or by a list
      const std::int64_t at = pick(old.shape[axis]);
      next.map = sliced(old, axis, {at});
      next.map.shape.erase(next.map.shape.begin() + static_cast<std::ptrdiff_t>(axis));
      std::vector<Index> index(axis, Slice{});
      index.emplace_back(at - (pick(2) == 0 ? old.shape[axis] : 0));
      index.emplace_back(ellipsis);
      next.tensor = axis == 0 && pick(2) == 0 ? x[at] : x.index(index);
      count("index");
    } else if (kind == 3) {
      Sizes order(old.shape.size());
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      next.map = permuted(old, order);
      next.tensor = x.transpose(shape_of(order));
      count("transpose");
    } else if (kind == 4) {
      const std::int64_t at = pick(old.rank() + 1);
      next.map.shape.insert(next.map.shape.begin() + at, 1);
      next.tensor = pick(2) == 0 ? x.unsqueeze(at) : at == 0 ? x[{newaxis}] : x.unsqueeze(at);
      count("unsqueeze");
    } else if (kind == 5) {
      std::erase(next.map.shape, 1);
      next.tensor = x.squeeze();
      count("squeeze");
    } else if (kind == 6) {
      next.map.shape = random_factors(old.numel());
      next.tensor = x.reshape(shape_of(next.map.shape));
      count("reshape");
    } else if (kind == 7) {
      Sizes shape = old.shape;
      for (std::int64_t& size : shape) size = size == 1 ? 2 : size;
      if (product(shape) == old.numel()) shape.insert(shape.begin(), 2);
      next.map = broadcast(old, shape);
      next.tensor = x.broadcast_to(shape_of(shape));
      next.writable = false;
      count("broadcast_to");
    } else {
      const std::int64_t at = pick(old.shape[axis]);
      next.map = sliced(old, axis, {at});
      next.map.shape.erase(next.map.shape.begin() + static_cast<std::ptrdiff_t>(axis));
      next.tensor = unstack(x, static_cast<std::int64_t>(axis))[static_cast<std::size_t>(at)];
      count("unstack");
    }
    ASSERT_EQ(next.tensor.shape(), shape_of(next.map.shape));
    if (next.tensor.numel() > 64) return;
    if (next.tensor.impl().storage.get() != x.impl().storage.get()) {  // reshape had to copy
      add_buffer(next.tensor, value(handles[from]), next.map.shape);
    } else {
      handles.push_back(next);
    }
  }

  void write() {
    std::vector<std::size_t> targets;
    for (std::size_t k = 0; k < handles.size(); ++k) {
      const Buffer& buffer = buffers[handles[k].buffer];
      if (handles[k].writable && !buffer.leaf && !buffer.sealed) targets.push_back(k);
    }
    if (targets.empty()) return;
    const Handle& target =
        handles[targets[static_cast<std::size_t>(pick(static_cast<std::int64_t>(targets.size())))]];
    Tensor x = target.tensor;
    const Tensor old = value(target);
    const int kind = pick(14);
    const double number = std::uniform_real_distribution<double>(0.5, 1.5)(random);
    Tensor changed;  // the new elements of the view, one-dimensional
    if (kind == 0) {
      x.fill(number);
      changed = full({target.map.numel()}, number, float64);
      count("fill");
    } else if (kind == 1) {
      pick(2) == 0 ? x += number : x -= -number;
      changed = old + number;
      count("add a number");
    } else if (kind == 2) {
      pick(2) == 0 ? x *= number : x /= 1 / number;
      changed = old * number;
      count("multiply by a number");
    } else if (kind == 3) {
      sin_(x);
      changed = sin(old);
      count("sin_");
    } else if (kind == 4) {
      tanh_(x);  // its gradient needs the result, so this is the last write
      changed = tanh(old);
      buffers[target.buffer].sealed = true;
      count("tanh_");
    } else if (kind == 5) {
      x %= 3 * number;
      changed = modulo(old, 3 * number);
      count("modulo");
    } else {
      const auto [operand, other] = operand_for(target, kind);
      if (kind == 6) {
        x += operand;
        changed = old + other;
        count("add");
      } else if (kind == 7) {
        x -= operand;
        changed = old - other;
        count("subtract");
      } else if (kind == 8) {
        x *= operand;
        changed = old * other;
        count("multiply");
      } else if (kind == 9) {
        x /= 2.0 + square(operand);
        changed = old / (2.0 + square(other));
        count("divide");
      } else {
        x.copy_from(operand);
        changed = other;
        count("copy_from");
      }
    }
    store(target, changed);
    if (target.map.numel() < buffers[target.buffer].value.numel()) count("a part was written");
  }

  void read(std::size_t k) {
    const Handle& from = handles[k];
    const Tensor weights = random_values(from.map.numel());
    const Tensor shaped = weights.reshape(shape_of(from.map.shape));
    if (pick(2) == 0) {
      loss = loss + sum(from.tensor * shaped);
      functional_loss = functional_loss + sum(value(from) * weights);
    } else {
      loss = loss + sum(sin(from.tensor.clone()) * shaped);
      functional_loss = functional_loss + sum(sin(value(from)) * weights);
    }
  }

  // A new buffer, computed from a handle.
  void compute() {
    const std::size_t k = handle();
    const Handle& from = handles[k];
    if (pick(2) == 0) {
      add_buffer(cos(from.tensor.clone()), cos(value(from)), from.map.shape);
    } else {
      add_buffer(from.tensor * 1.5, value(from) * 1.5, from.map.shape);
    }
    count("compute");
  }

  // ---- both runs

  // A tensor that broadcasts to the target's shape, and the same elements, one-dimensional.
  std::pair<Tensor, Tensor> operand_for(const Handle& target, int kind) {
    for (int attempt = 0; attempt < 20; ++attempt) {
      const Handle& from = handles[handle()];
      Tensor x = from.tensor;
      Map map = from.map;
      if (map.numel() > target.map.numel()) {  // its first elements
        map = {target.map.shape, Sizes(map.at.begin(), map.at.begin() + target.map.numel())};
        x = x.flatten().slice(0, 0, target.map.numel()).reshape(shape_of(map.shape));
      }
      Sizes shape = target.map.shape;
      bool fits = map.shape.size() <= shape.size();
      for (std::size_t d = 0; fits && d < map.shape.size(); ++d) {
        const std::int64_t size = map.shape[map.shape.size() - 1 - d];
        fits = size == 1 || size == shape[shape.size() - 1 - d];
      }
      if (!fits) continue;
      const Map spread = broadcast(map, shape);
      const Tensor other = take(buffers[from.buffer].value, positions(spread.at));
      // Copies operands that a gradient keeps and a later write may change, and operands that
      // overlap the target at other positions. A product itself keeps copies of the memory that it
      // writes.
      const Buffer& source = buffers[from.buffer];
      const bool same_buffer = from.buffer == target.buffer;
      bool copies = !source.leaf && (kind == 9 || (kind == 8 && !same_buffer));
      if (same_buffer && spread.at != target.map.at) {
        const std::set<std::int64_t> mine(target.map.at.begin(), target.map.at.end());
        for (std::int64_t at : spread.at) copies = copies || mine.contains(at);
      }
      if (same_buffer && !copies) count("an operand of the same memory");
      return {copies ? x.clone() : x, other};
    }
    const std::size_t k = static_cast<std::size_t>(pick(2));
    return {sum(leaves[k]), sum(functional_leaves[k]).broadcast_to({target.map.numel()})};
  }

  Tensor value(const Handle& handle) const {
    return take(buffers[handle.buffer].value, positions(handle.map.at));
  }

  void store(const Handle& target, const Tensor& elements) {
    Tensor& whole = buffers[target.buffer].value;
    const auto count = static_cast<std::size_t>(whole.numel());
    Sizes from(count, 0);
    std::vector<bool> written(count, false);
    for (std::size_t k = 0; k < target.map.at.size(); ++k) {
      from[static_cast<std::size_t>(target.map.at[k])] = static_cast<std::int64_t>(k);
      written[static_cast<std::size_t>(target.map.at[k])] = true;
    }
    Sizes mask(written.begin(), written.end());
    whole = where(positions(mask).to(bool_), take(elements, positions(from)), whole);
  }

  void add_buffer(const Tensor& tensor, const Tensor& flat, const Sizes& shape) {
    buffers.push_back({flat});
    handles.push_back({tensor, buffers.size() - 1, Map::whole(shape)});
  }

  // ---- draws

  std::int64_t pick(std::int64_t count) {
    return std::uniform_int_distribution<std::int64_t>(0, count - 1)(random);
  }
  // Newer handles are more likely, so that chains of views get long.
  std::size_t handle() {
    const auto count = static_cast<std::int64_t>(handles.size());
    return static_cast<std::size_t>(std::max(pick(count), pick(count)));
  }
  Sizes random_shape() {
    Sizes shape;
    for (std::int64_t rank = 1 + pick(3); rank > 0; --rank) shape.push_back(1 + pick(4));
    return shape;
  }
  Sizes random_factors(std::int64_t numel) {
    Sizes shape;
    for (std::int64_t factor : {2, 3, 2, 3, 2}) {
      if (numel % factor != 0 || pick(3) == 0) continue;
      shape.push_back(factor);
      numel /= factor;
    }
    shape.insert(shape.begin() + pick(static_cast<std::int64_t>(shape.size()) + 1), numel);
    return shape;
  }
  Tensor random_values(std::int64_t numel) {
    std::vector<double> numbers(static_cast<std::size_t>(numel));
    for (double& x : numbers) x = std::uniform_real_distribution<double>(-1, 1)(random);
    return from_data(numbers, {numel});
  }
  static Tensor positions(const Sizes& at) {
    return from_data(at, {static_cast<std::int64_t>(at.size())});
  }

  static void count(const char* what) { ++counts[what]; }

  std::mt19937 random;
  std::vector<Tensor> leaves, functional_leaves;
  std::vector<Buffer> buffers;
  std::vector<Handle> handles;
  Tensor loss, functional_loss;
  static std::map<std::string, int> counts;
};

std::map<std::string, int> Program::counts;

// The largest difference, relative where elements are large.
double difference(const Tensor& a, const Tensor& b) {
  const auto x = a.flatten().to_vector<double>(), y = b.flatten().to_vector<double>();
  double worst = x.size() == y.size() ? 0 : INFINITY;
  for (std::size_t k = 0; k < x.size() && k < y.size(); ++k) {
    worst = std::max(worst, std::abs(x[k] - y[k]) / (1 + std::abs(y[k])));
  }
  return worst;
}

constexpr double tolerance = 1e-10;
constexpr GradOptions first_order{.allow_unused = true};

TEST(ViewPrograms, GradientsEqualThoseOfTheFunctionalProgram) {
  Program::counts.clear();
  int with_gradient = 0;
  double largest = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    Program program(seed);
    program.run(10 + static_cast<int>(seed % 30));
    ASSERT_LE(difference(program.loss, program.functional_loss), tolerance);
    ASSERT_EQ(program.loss.requires_grad(), program.functional_loss.requires_grad());
    const auto got = grad(program.loss, program.leaves, first_order);
    const auto expected = grad(program.functional_loss, program.functional_leaves, first_order);
    for (std::size_t k = 0; k < got.size(); ++k) {
      ASSERT_EQ(got[k].defined(), expected[k].defined());
      if (!got[k].defined()) continue;
      ++with_gradient;
      const double off = difference(got[k], expected[k]);
      ASSERT_LE(off, tolerance);
      largest = std::max(largest, off);
    }
  }
  EXPECT_GT(with_gradient, 5000);
  for (const char* what : {"slice",
                           "negative slice",
                           "index",
                           "transpose",
                           "reshape",
                           "unsqueeze",
                           "squeeze",
                           "broadcast_to",
                           "unstack",
                           "fill",
                           "add a number",
                           "multiply by a number",
                           "sin_",
                           "tanh_",
                           "modulo",
                           "add",
                           "subtract",
                           "multiply",
                           "divide",
                           "copy_from",
                           "compute",
                           "an operand of the same memory",
                           "a part was written"}) {
    EXPECT_GT(Program::counts[what], 150) << what;
  }
  RecordProperty("largest_difference", std::to_string(largest));
}

TEST(ViewPrograms, SecondDerivativesEqualThoseOfTheFunctionalProgram) {
  int with_gradient = 0;
  for (unsigned seed = 10000; seed < 10400; ++seed) {
    SCOPED_TRACE(seed);
    Program program(seed);
    program.run(5 + static_cast<int>(seed % 12));
    // Of the sum of the sines of all first derivatives.
    const auto second = [](const Tensor& loss, const std::vector<Tensor>& leaves) {
      Tensor total = zeros({}, float64);
      for (const Tensor& g : grad(loss, leaves, {.create_graph = true, .allow_unused = true})) {
        if (g.defined()) total = total + sum(sin(g));
      }
      return total.requires_grad() ? grad(total, leaves, first_order)
                                   : std::vector<Tensor>(leaves.size());
    };
    const auto got = second(program.loss, program.leaves);
    const auto expected = second(program.functional_loss, program.functional_leaves);
    for (std::size_t k = 0; k < got.size(); ++k) {
      const auto flat = [&](const Tensor& g) {
        return g.defined() ? g.flatten() : zeros({program.leaves[k].numel()}, float64);
      };
      with_gradient += got[k].defined();
      ASSERT_LE(difference(flat(got[k]), flat(expected[k])), tolerance);
    }
  }
  EXPECT_GT(with_gradient, 400);
}

}  // namespace
}  // namespace extensor
