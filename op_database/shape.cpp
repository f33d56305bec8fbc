// Changes of shape. References compute, for each position of the result, the position of its
// element in the input.
#include <algorithm>

#include "op_database/op_database.h"
#include "op_database/plain_array.h"

namespace extensor::op_database {

namespace {

using Forward = std::function<Tensors(const Tensors&)>;
using Backward = std::function<Tensors(const Tensors&, const Tensors&)>;

// All ops of this family are linear.
Sample linear_sample(std::string label, Tensors inputs, Forward forward, Forward reference,
                     Backward backward) {
  return {std::move(label),     std::move(inputs),   std::move(forward),
          std::move(reference), std::move(backward), {}};
}

// An op of one tensor whose result of `shape` has the element at source(position) at each position.
Sample moving_sample(std::string label, const Tensor& x, const Shape& shape,
                     std::function<Tensor(const Tensor&)> forward,
                     std::function<Dims(const Dims&)> source,
                     std::function<Tensor(const Tensor&, const Tensor&)> backward) {
  return linear_sample(
      std::move(label), {x}, [forward](const Tensors& in) { return Tensors{forward(in[0])}; },
      [shape, source](const Tensors& in) {
        const PlainArray values(in[0]);
        return Tensors{PlainArray::from(shape, [&](const Dims& at) {
                         return values.at(source(at));
                       }).to_tensor()};
      },
      [backward](const Tensors& g, const Tensors& in) { return Tensors{backward(g[0], in[0])}; });
}

Tensor drawn(const Shape& shape, std::uint64_t seed = 1) {
  return sample_uniform(shape, -2, 2, seed);
}

// The position of the i-th element in row-major order.
Dims position_of(std::int64_t i, const Shape& shape) {
  Dims position(shape.size(), 0);
  for (std::size_t d = shape.size(); d-- > 0; i /= shape[d]) position[d] = i % shape[d];
  return position;
}
std::int64_t number_of(const Dims& position, const Shape& shape) {
  std::int64_t i = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) i = i * shape[d] + position[d];
  return i;
}

// The same elements in the same order under another shape.
Sample reshaping_sample(std::string label, const Shape& from, const Shape& to,
                        std::function<Tensor(const Tensor&)> forward,
                        std::function<Tensor(const Tensor&, const Tensor&)> backward) {
  return moving_sample(
      std::move(label), drawn(from), to, std::move(forward),
      [from, to](const Dims& at) { return position_of(number_of(at, to), from); },
      std::move(backward));
}

// ---- ops that keep the order of elements

std::vector<Sample> reshape_samples() {
  std::vector<Sample> samples;
  const std::pair<Shape, Shape> pairs[] = {
      {{2, 6}, {3, 4}}, {{17}, {17, 1}}, {{}, {1, 1}}, {{3, 0, 2}, {0, 5}}, {{2, 3, 4}, {24}}};
  for (const auto& [from, to] : pairs) {
    const Shape shape = to;
    samples.push_back(reshaping_sample(
        to_string(from) + " to " + to_string(to), from, to,
        [shape](const Tensor& x) { return reshape(x, shape); },
        [](const Tensor& g, const Tensor& x) { return reshape_backward(g, x.shape()); }));
  }
  return samples;
}

std::vector<Sample> flatten_samples() {
  std::vector<Sample> samples;
  for (const Shape& from : {Shape{3, 11}, Shape{}, Shape{2, 0}, Shape{2, 3, 4}}) {
    std::int64_t count = 1;
    for (std::int64_t size : from) count *= size;
    samples.push_back(reshaping_sample(
        to_string(from), from, {count}, [](const Tensor& x) { return flatten(x); },
        [](const Tensor& g, const Tensor& x) { return flatten_backward(g, x.shape()); }));
  }
  for (const auto& [to, first, last] :
       {std::tuple<Shape, std::int64_t, std::int64_t>{{2, 12, 5}, 1, 2},
        {{2, 60}, 1, -1},
        {{6, 4, 5}, 0, -3}}) {
    const std::int64_t begin = first, end = last;
    samples.push_back(reshaping_sample(
        "[2, 3, 4, 5], axes " + std::to_string(begin) + " to " + std::to_string(end), {2, 3, 4, 5},
        to, [=](const Tensor& x) { return flatten(x, begin, end); },
        [](const Tensor& g, const Tensor& x) { return flatten_backward(g, x.shape()); }));
  }
  return samples;
}

std::vector<Sample> squeeze_samples() {
  const auto backward = [](const Tensor& g, const Tensor& x) {
    return squeeze_backward(g, x.shape());
  };
  return {reshaping_sample(
              "[3, 1, 5, 1], all axes", {3, 1, 5, 1}, {3, 5},
              [](const Tensor& x) { return squeeze(x); }, backward),
          reshaping_sample(
              "[1, 17, 1], axis -1", {1, 17, 1}, {1, 17},
              [](const Tensor& x) { return squeeze(x, -1); }, backward),
          reshaping_sample(
              "[1, 1]", {1, 1}, {}, [](const Tensor& x) { return squeeze(x); }, backward)};
}

std::vector<Sample> unsqueeze_samples() {
  std::vector<Sample> samples;
  for (const auto& [axis, to] :
       {std::pair<std::int64_t, Shape>{0, {1, 3, 4}}, {1, {3, 1, 4}}, {-1, {3, 4, 1}}}) {
    const std::int64_t at = axis;
    samples.push_back(reshaping_sample(
        "[3, 4], axis " + std::to_string(at), {3, 4}, to,
        [at](const Tensor& x) { return unsqueeze(x, at); },
        [at](const Tensor& g, const Tensor&) { return unsqueeze_backward(g, at); }));
  }
  return samples;
}

// ---- axes

std::vector<Sample> moveaxis_samples() {
  return {moving_sample(
              "[2, 3, 4], 0 to -1", drawn({2, 3, 4}), {3, 4, 2},
              [](const Tensor& x) { return moveaxis(x, 0, -1); },
              [](const Dims& at) {
                return Dims{at[2], at[0], at[1]};
              },
              [](const Tensor& g, const Tensor&) { return moveaxis_backward(g, 0, -1); }),
          moving_sample(
              "[2, 3, 4, 5], 0 and 2 to 3 and 0", drawn({2, 3, 4, 5}), {4, 3, 5, 2},
              [](const Tensor& x) {
                return moveaxis(x, {0, 2}, {3, 0});
              },
              [](const Dims& at) {
                return Dims{at[3], at[1], at[0], at[2]};
              },
              [](const Tensor& g, const Tensor&) {
                return moveaxis_backward(g, {0, 2}, {3, 0});
              })};
}

std::vector<Sample> broadcast_to_samples() {
  std::vector<Sample> samples;
  const std::pair<Shape, Shape> pairs[] = {
      {{3, 1}, {3, 5}}, {{}, {2, 3}}, {{17}, {2, 17}}, {{1, 4}, {0, 4}}, {{2, 1, 3}, {4, 2, 3, 3}}};
  for (const auto& [from, to] : pairs) {
    const Shape source = from, target = to;
    samples.push_back(moving_sample(
        to_string(from) + " to " + to_string(to), drawn(from), to,
        [target](const Tensor& x) { return broadcast_to(x, target); },
        [source](const Dims& at) {
          Dims position;
          for (std::size_t d = 0; d < source.size(); ++d) {
            position.push_back(source[d] == 1 ? 0 : at[at.size() - source.size() + d]);
          }
          return position;
        },
        [](const Tensor& g, const Tensor& x) { return broadcast_to_backward(g, x.shape()); }));
  }
  return samples;
}

std::vector<Sample> flip_samples() {
  std::vector<Sample> samples;
  for (const auto& [axes, label] :
       {std::pair<Axes, const char*>{{}, "all axes"}, {1, "axis 1"}, {{0, -1}, "axes 0, -1"}}) {
    const Axes chosen = axes;
    samples.push_back(moving_sample(
        std::string("[3, 4, 5], ") + label, drawn({3, 4, 5}), {3, 4, 5},
        [chosen](const Tensor& x) { return flip(x, chosen); },
        [chosen](const Dims& at) {
          const Shape shape{3, 4, 5};
          Dims position = at;
          for (std::int64_t d = 0; d < 3; ++d) {
            const Dims& list = chosen.list();
            const bool flips = chosen.all() || std::ranges::count(list, d) > 0 ||
                               std::ranges::count(list, d - 3) > 0;
            const auto i = static_cast<std::size_t>(d);
            if (flips) position[i] = shape[i] - 1 - at[i];
          }
          return position;
        },
        [chosen](const Tensor& g, const Tensor&) { return flip_backward(g, chosen); }));
  }
  return samples;
}

std::vector<Sample> roll_samples() {
  const auto back = [](std::int64_t at, std::int64_t shift, std::int64_t size) {
    return ((at - shift) % size + size) % size;
  };
  return {moving_sample(
              "[4, 7], shift 2, axis 1", drawn({4, 7}), {4, 7},
              [](const Tensor& x) { return roll(x, 2, 1); },
              [back](const Dims& at) {
                return Dims{at[0], back(at[1], 2, 7)};
              },
              [](const Tensor& g, const Tensor&) { return roll_backward(g, 2, 1); }),
          moving_sample(
              "[4, 7], shifts -1, 10, axes 0, 1", drawn({4, 7}), {4, 7},
              [](const Tensor& x) {
                return roll(x, {-1, 10}, {0, 1});
              },
              [back](const Dims& at) {
                return Dims{back(at[0], -1, 4), back(at[1], 10, 7)};
              },
              [](const Tensor& g, const Tensor&) {
                return roll_backward(g, {-1, 10}, {0, 1});
              }),
          moving_sample(
              "[3, 5], shift 4, flattened", drawn({3, 5}), {3, 5},
              [](const Tensor& x) { return roll(x, 4); },
              [back](const Dims& at) {
                return position_of(back(number_of(at, {3, 5}), 4, 15), {3, 5});
              },
              [](const Tensor& g, const Tensor&) { return roll_backward(g, 4); })};
}

// ---- repeating

std::vector<Sample> tile_samples() {
  std::vector<Sample> samples;
  struct Case {
    Shape from;
    Dims repetitions;
    Shape to;
  };
  for (const Case& entry :
       {Case{{3, 5}, {2, 3}, {6, 15}}, Case{{17}, {2, 2}, {2, 34}}, Case{{2, 1, 3}, {2}, {2, 1, 6}},
        Case{{}, {3}, {3}}, Case{{2, 3}, {0, 2}, {0, 6}}}) {
    samples.push_back(moving_sample(
        to_string(entry.from) + ", repetitions " + to_string(entry.repetitions), drawn(entry.from),
        entry.to, [entry](const Tensor& x) { return tile(x, entry.repetitions); },
        [entry](const Dims& at) {
          Dims position;
          const std::size_t added = at.size() - entry.from.size();
          for (std::size_t d = 0; d < entry.from.size(); ++d) {
            position.push_back(at[added + d] % entry.from[d]);
          }
          return position;
        },
        [entry](const Tensor& g, const Tensor& x) {
          return tile_backward(g, x.shape(), entry.repetitions);
        }));
  }
  return samples;
}

std::vector<Sample> repeat_samples() {
  return {moving_sample(
              "[4, 5], 3 times, axis 0", drawn({4, 5}), {12, 5},
              [](const Tensor& x) { return repeat(x, 3, 0); },
              [](const Dims& at) {
                return Dims{at[0] / 3, at[1]};
              },
              [](const Tensor& g, const Tensor& x) { return repeat_backward(g, x.shape(), 3, 0); }),
          moving_sample(
              "[2, 3], twice, flattened", drawn({2, 3}), {12},
              [](const Tensor& x) { return repeat(x, 2); },
              [](const Dims& at) {
                return position_of(at[0] / 2, {2, 3});
              },
              [](const Tensor& g, const Tensor& x) { return repeat_backward(g, x.shape(), 2); }),
          moving_sample(
              "[3, 4], 2, 0, 1, 3 times, axis -1", drawn({3, 4}), {3, 6},
              [](const Tensor& x) {
                return repeat(x, {2, 0, 1, 3}, -1);
              },
              [](const Dims& at) {
                constexpr std::int64_t from[] = {0, 0, 2, 3, 3, 3};
                return Dims{at[0], from[at[1]]};
              },
              [](const Tensor& g, const Tensor& x) {
                return repeat_backward(g, x.shape(), {2, 0, 1, 3}, -1);
              })};
}

// The position of x that a padded position shows, found step by step; −1: none.
std::int64_t padded_source(std::int64_t at, std::int64_t before, std::int64_t n, PadMode mode) {
  std::int64_t i = at - before;
  while (i < 0 || i >= n) {
    if (mode == PadMode::constant) return -1;
    if (mode == PadMode::edge) return i < 0 ? 0 : n - 1;
    if (mode == PadMode::wrap) {
      i += i < 0 ? n : -n;
    } else {
      if (n == 1) return 0;
      i = i < 0 ? -i : 2 * (n - 1) - i;
    }
  }
  return i;
}

std::vector<Sample> pad_samples() {
  std::vector<Sample> samples;
  const Padding widths = {{2, 1}, {0, 3}};
  const Shape from{3, 5}, to{6, 8};
  for (const auto& [mode, label] : {std::pair<PadMode, const char*>{PadMode::constant, "constant"},
                                    {PadMode::reflect, "reflect"},
                                    {PadMode::edge, "edge"},
                                    {PadMode::wrap, "wrap"}}) {
    const PadMode chosen = mode;
    // The padding value itself is not linear in x unless it is 0.
    const double value = 0;
    samples.push_back(linear_sample(
        std::string("[3, 5], ") + label, {drawn(from)},
        [=](const Tensors& in) { return Tensors{pad(in[0], widths, chosen, value)}; },
        [=](const Tensors& in) {
          const PlainArray x(in[0]);
          return Tensors{PlainArray::from(to, [&](const Dims& at) {
                           const std::int64_t row = padded_source(at[0], 2, 3, chosen);
                           const std::int64_t column = padded_source(at[1], 0, 5, chosen);
                           return row < 0 || column < 0 ? value : x.at({row, column});
                         }).to_tensor()};
        },
        [=](const Tensors& g, const Tensors& in) {
          return Tensors{pad_backward(g[0], in[0].shape(), widths, chosen)};
        }));
  }
  Sample value_sample{"[17], constant 1, one pair",
                      {drawn({17})},
                      [](const Tensors& in) {
                        return Tensors{pad(in[0], {{2, 2}}, PadMode::constant, 1)};
                      },
                      [](const Tensors& in) {
                        const PlainArray x(in[0]);
                        return Tensors{PlainArray::from({21}, [&](const Dims& at) {
                                         return at[0] < 2 || at[0] >= 19 ? 1 : x.at({at[0] - 2});
                                       }).to_tensor()};
                      },
                      [](const Tensors& g, const Tensors& in) {
                        return Tensors{pad_backward(g[0], in[0].shape(), {{2, 2}})};
                      },
                      [](const Tensors& gg, const Tensors&, const Tensors&) {
                        return Tensors{pad(gg[0], {{2, 2}}), Tensor()};
                      }};
  samples.push_back(value_sample);
  samples.push_back(linear_sample(
      "[4, 6], negative widths", {drawn({4, 6})},
      [](const Tensors& in) {
        return Tensors{pad(in[0], {{-1, 2}, {-2, -1}})};
      },
      [](const Tensors& in) {
        const PlainArray x(in[0]);
        return Tensors{PlainArray::from({5, 3}, [&](const Dims& at) {
                         return at[0] < 3 ? x.at({at[0] + 1, at[1] + 2}) : 0;
                       }).to_tensor()};
      },
      [](const Tensors& g, const Tensors& in) {
        return Tensors{pad_backward(g[0], in[0].shape(), {{-1, 2}, {-2, -1}})};
      }));
  samples.push_back(moving_sample(
      "[4], reflect, wider than x", drawn({4}), {18},
      [](const Tensor& x) {
        return pad(x, {{7, 7}}, PadMode::reflect);
      },
      [](const Dims& at) { return Dims{padded_source(at[0], 7, 4, PadMode::reflect)}; },
      [](const Tensor& g, const Tensor& x) {
        return pad_backward(g, x.shape(), {{7, 7}}, PadMode::reflect);
      }));
  return samples;
}

// ---- joining and splitting

std::vector<Sample> concatenate_samples() {
  std::vector<Sample> samples;
  for (const auto& [axis, first, second, third] :
       {std::tuple<std::int64_t, Shape, Shape, Shape>{0, {2, 5}, {1, 5}, {3, 5}},
        {-1, {3, 17}, {3, 0}, {3, 2}},
        {1, {2, 1, 3}, {2, 2, 3}, {2, 1, 3}}}) {
    const std::int64_t asked = axis;
    const std::int64_t at = axis < 0 ? axis + static_cast<std::int64_t>(first.size()) : axis;
    samples.push_back(linear_sample(
        to_string(first) + ", " + to_string(second) + ", " + to_string(third) + ", axis " +
            std::to_string(asked),
        {drawn(first, 1), drawn(second, 2), drawn(third, 3)},
        [asked](const Tensors& in) { return Tensors{concatenate(in, asked)}; },
        [at](const Tensors& in) {
          Shape shape = in[0].shape();
          auto& length = shape[static_cast<std::size_t>(at)];
          length = 0;
          for (const Tensor& x : in) length += x.shape()[static_cast<std::size_t>(at)];
          PlainArray result(shape);
          std::int64_t begin = 0;
          for (const Tensor& x : in) {
            const PlainArray part(x);
            for_each_position(part.shape, [&](const Dims& position) {
              const std::int64_t moved = begin + position[static_cast<std::size_t>(at)];
              result.at(with_entry(position, at, moved)) = part.at(position);
            });
            begin += part.shape[static_cast<std::size_t>(at)];
          }
          return Tensors{result.to_tensor()};
        },
        [asked](const Tensors& g, const Tensors& in) {
          std::vector<Shape> shapes;
          for (const Tensor& x : in) shapes.push_back(x.shape());
          return concatenate_backward(g[0], shapes, asked);
        }));
  }
  samples.push_back(linear_sample(
      "[2, 3], [], [0], flattened", {drawn({2, 3}, 1), drawn({}, 2), drawn({0}, 3)},
      [](const Tensors& in) { return Tensors{concatenate(in, std::nullopt)}; },
      [](const Tensors& in) {
        std::vector<double> all;
        for (const Tensor& x : in) {
          for (double value : PlainArray(x).values) all.push_back(value);
        }
        return Tensors{from_data(all)};
      },
      [](const Tensors& g, const Tensors&) {
        return Tensors{g[0].slice(0, 0, 6).reshape({2, 3}), g[0][6], g[0].slice(0, 7)};
      }));
  return samples;
}

std::vector<Sample> stack_samples() {
  std::vector<Sample> samples;
  for (const auto& [axis, shape] :
       {std::pair<std::int64_t, Shape>{0, {3, 4}}, {1, {17}}, {-1, {2, 3}}, {0, {}}}) {
    const std::int64_t asked = axis;
    const std::int64_t at = axis < 0 ? axis + static_cast<std::int64_t>(shape.size()) + 1 : axis;
    samples.push_back(linear_sample(
        "three of " + to_string(shape) + ", axis " + std::to_string(asked),
        {drawn(shape, 1), drawn(shape, 2), drawn(shape, 3)},
        [asked](const Tensors& in) { return Tensors{stack(in, asked)}; },
        [at](const Tensors& in) {
          Shape stacked = in[0].shape();
          stacked.insert(static_cast<std::size_t>(at), 3);
          return Tensors{PlainArray::from(stacked, [&](const Dims& position) {
                           Dims inside = position;
                           inside.erase(static_cast<std::size_t>(at));
                           const auto which =
                               static_cast<std::size_t>(position[static_cast<std::size_t>(at)]);
                           return PlainArray(in[which]).at(inside);
                         }).to_tensor()};
        },
        [asked](const Tensors& g, const Tensors&) { return stack_backward(g[0], asked); }));
  }
  return samples;
}

std::vector<Sample> broadcast_arrays_samples() {
  return {linear_sample(
      "[3, 1], [4], []", {drawn({3, 1}, 1), drawn({4}, 2), drawn({}, 3)},
      [](const Tensors& in) { return broadcast_arrays(in); },
      [](const Tensors& in) {
        const PlainArray a(in[0]), b(in[1]), c(in[2]);
        const auto repeated = [](auto&& element) {
          return PlainArray::from({3, 4}, element).to_tensor();
        };
        return Tensors{repeated([&](const Dims& at) {
                         return a.at({at[0], 0});
                       }),
                       repeated([&](const Dims& at) { return b.at({at[1]}); }),
                       repeated([&](const Dims&) { return c.at({}); })};
      },
      [](const Tensors& g, const Tensors& in) {
        Tensors gradients;
        for (std::size_t k = 0; k < 3; ++k) {
          gradients.push_back(broadcast_to_backward(g[k], in[k].shape()));
        }
        return gradients;
      })};
}

std::vector<Sample> split_samples() {
  std::vector<Sample> samples;
  for (const auto& [axis, shape] :
       {std::pair<std::int64_t, Shape>{0, {6, 5}}, {1, {2, 9}}, {-1, {2, 2, 3}}}) {
    const std::int64_t asked = axis;
    const std::int64_t at = axis < 0 ? axis + static_cast<std::int64_t>(shape.size()) : axis;
    samples.push_back(linear_sample(
        to_string(shape) + " into 3, axis " + std::to_string(asked), {drawn(shape)},
        [asked](const Tensors& in) { return split(in[0], 3, asked); },
        [at](const Tensors& in) {
          const PlainArray x(in[0]);
          Shape part = x.shape;
          part[static_cast<std::size_t>(at)] /= 3;
          Tensors parts;
          for (std::int64_t i = 0; i < 3; ++i) {
            parts.push_back(PlainArray::from(part, [&](const Dims& position) {
                              const auto d = static_cast<std::size_t>(at);
                              return x.at(with_entry(position, at, i * part[d] + position[d]));
                            }).to_tensor());
          }
          return parts;
        },
        [asked](const Tensors& g, const Tensors& in) {
          return Tensors{split_backward(g, in[0].shape(), asked)};
        }));
  }
  const Dims sizes{2, 0, 4, 1};
  samples.push_back(linear_sample(
      "[3, 7] into 2, 0, 4 and 1, axis 1", {drawn({3, 7})},
      [=](const Tensors& in) { return split(in[0], sizes, 1); },
      [=](const Tensors& in) {
        const PlainArray x(in[0]);
        Tensors parts;
        std::int64_t begin = 0;
        for (std::int64_t size : sizes) {
          parts.push_back(PlainArray::from({3, size}, [&](const Dims& at) {
                            return x.at({at[0], begin + at[1]});
                          }).to_tensor());
          begin += size;
        }
        return parts;
      },
      [=](const Tensors& g, const Tensors& in) {
        return Tensors{split_backward(g, in[0].shape(), sizes, 1)};
      }));
  return samples;
}

std::vector<Sample> unstack_samples() {
  std::vector<Sample> samples;
  for (const auto& [axis, shape] :
       {std::pair<std::int64_t, Shape>{0, {3, 7}}, {-1, {2, 3, 4}}, {0, {5}}}) {
    const std::int64_t asked = axis;
    const std::int64_t at = axis < 0 ? axis + static_cast<std::int64_t>(shape.size()) : axis;
    samples.push_back(linear_sample(
        to_string(shape) + ", axis " + std::to_string(asked), {drawn(shape)},
        [asked](const Tensors& in) { return unstack(in[0], asked); },
        [at](const Tensors& in) {
          const PlainArray x(in[0]);
          Shape part = x.shape;
          part.erase(static_cast<std::size_t>(at));
          Tensors parts;
          for (std::int64_t i = 0; i < x.shape[static_cast<std::size_t>(at)]; ++i) {
            parts.push_back(PlainArray::from(part, [&](const Dims& position) {
                              Dims whole = position;
                              whole.insert(static_cast<std::size_t>(at), i);
                              return x.at(whole);
                            }).to_tensor());
          }
          return parts;
        },
        [asked](const Tensors& g, const Tensors& in) {
          return Tensors{unstack_backward(g, in[0].shape(), asked)};
        }));
  }
  return samples;
}

}  // namespace

void add_shape(std::vector<Op>& ops) {
  const auto add = [&](const char* name, const char* formula, const char* gradient,
                       const char* backward, std::function<std::vector<Sample>()> samples) {
    ops.push_back({name, "shape", formula, gradient, {backward}, DTypes::all, std::move(samples)});
  };
  add("reshape", "the same elements in the same order, in another shape", "g in the shape of x",
      "reshape_backward", reshape_samples);
  add("flatten", "the same elements with axes first … last merged into one", "g in the shape of x",
      "flatten_backward", flatten_samples);
  add("squeeze", "x without dimensions of size 1", "g in the shape of x", "squeeze_backward",
      squeeze_samples);
  add("unsqueeze", "x with one more dimension of size 1", "g without it", "unsqueeze_backward",
      unsqueeze_samples);
  add("moveaxis", "x with some axes moved to other places", "g with the axes moved back",
      "moveaxis_backward", moveaxis_samples);
  add("broadcast_to", "x repeated along dimensions of size 1 and new ones",
      "g summed over the repetitions", "broadcast_to_backward", broadcast_to_samples);
  ops.back().backward.emplace_back("reduce_broadcast_dims");
  add("broadcast_arrays", "views of the shape to which all shapes broadcast",
      "g summed over the repetitions", "broadcast_to_backward", broadcast_arrays_samples);
  add("concatenate", "tensors joined along an axis", "g taken apart", "concatenate_backward",
      concatenate_samples);
  add("stack", "tensors joined along a new axis", "g taken apart", "stack_backward", stack_samples);
  add("split", "equal parts along an axis, or parts of given sizes", "the parts' g joined",
      "split_backward", split_samples);
  add("unstack", "the tensors along an axis", "their g stacked", "unstack_backward",
      unstack_samples);
  add("tile", "x repeated as a whole along each axis", "g summed over the repetitions",
      "tile_backward", tile_samples);
  add("repeat", "each element repeated along an axis", "g summed over the repetitions",
      "repeat_backward", repeat_samples);
  add("flip", "x the other way round along axes", "g the other way round", "flip_backward",
      flip_samples);
  add("roll", "x shifted along axes, what falls off comes in again", "g shifted back",
      "roll_backward", roll_samples);
  add("pad",
      "x in a frame of a constant, its reflection, its edge or its other end; a negative width "
      "removes elements",
      "g where x is, and of its copies", "pad_backward", pad_samples);
}

}  // namespace extensor::op_database
