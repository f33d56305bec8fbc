// A reference for index expressions: NumPy's rules as plain loops over coordinates, without the
// library's tensors. An expression is resolved into the list of elements that it selects.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace index_reference {

using Ints = std::vector<std::int64_t>;

struct Entry {
  enum class Kind { integer, slice, ellipsis, newaxis, integers, mask };
  Kind kind;
  std::int64_t integer = 0;
  std::optional<std::int64_t> start = {}, stop = {};
  std::int64_t step = 1;
  Ints shape = {}, values = {};  // of an integer tensor or of a mask, in row-major order
};
using Expression = std::vector<Entry>;

inline std::int64_t count_of(const Ints& shape) {
  std::int64_t count = 1;
  for (std::int64_t size : shape) count *= size;
  return count;
}

inline Ints unravel(std::int64_t position, const Ints& shape) {
  Ints coordinates(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    coordinates[d] = position % shape[d];
    position /= shape[d];
  }
  return coordinates;
}

inline std::int64_t ravel(const Ints& coordinates, const Ints& shape) {
  std::int64_t position = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) position = position * shape[d] + coordinates[d];
  return position;
}

// The position of these coordinates in an array that is broadcast to their shape.
inline std::int64_t broadcast_position(const Ints& coordinates, const Ints& shape) {
  Ints own(shape.size());
  const std::size_t added = coordinates.size() - shape.size();
  for (std::size_t d = 0; d < shape.size(); ++d) {
    own[d] = shape[d] == 1 ? 0 : coordinates[added + d];
  }
  return ravel(own, shape);
}

// The positions of start:stop:step, as in Python's slice.indices().
inline Ints slice_positions(const Entry& entry, std::int64_t size) {
  const auto bound = [&](std::int64_t value) {
    if (value < 0) value += size;
    if (entry.step > 0) return value < 0 ? 0 : value > size ? size : value;
    return value < 0 ? -1 : value >= size ? size - 1 : value;
  };
  std::int64_t start = entry.step > 0 ? 0 : size - 1, stop = entry.step > 0 ? size : -1;
  if (entry.start) start = bound(*entry.start);
  if (entry.stop) stop = bound(*entry.stop);
  Ints positions;
  for (std::int64_t p = start; entry.step > 0 ? p < stop : p > stop; p += entry.step) {
    positions.push_back(p);
  }
  return positions;
}

struct Named {
  Ints shape;     // of x[expression]
  Ints elements;  // row-major positions in x, in row-major order of that shape
};

// The elements of an array of `shape` that an expression selects.
inline Named resolve(const Ints& shape, const Expression& expression) {
  // One step per axis of x, or none for newaxis and masks without dimensions.
  struct Step {
    enum class Kind { kept, added, point } kind;
    std::int64_t axis = -1;
    Ints positions;           // positions of a kept axis
    Ints index_shape, index;  // of an indexed axis
  };
  std::size_t consumed = 0;
  for (const Entry& entry : expression) {
    if (entry.kind == Entry::Kind::mask) consumed += entry.shape.size();
    consumed += entry.kind == Entry::Kind::integer || entry.kind == Entry::Kind::slice ||
                entry.kind == Entry::Kind::integers;
  }
  bool advanced = false;
  for (const Entry& entry : expression) {
    advanced = advanced || entry.kind == Entry::Kind::integers || entry.kind == Entry::Kind::mask;
  }
  std::vector<Step> steps;
  Ints separators;  // step numbers before which an ellipsis of no axes stands
  std::int64_t axis = 0;
  const auto keep_whole = [&] {
    const Ints positions =
        slice_positions({Entry::Kind::slice}, shape[static_cast<std::size_t>(axis)]);
    steps.push_back({Step::Kind::kept, axis++, positions, {}, {}});
  };
  for (const Entry& entry : expression) {
    const std::int64_t size =
        axis < static_cast<std::int64_t>(shape.size()) ? shape[static_cast<std::size_t>(axis)] : 0;
    switch (entry.kind) {
      case Entry::Kind::integer:
        steps.push_back({Step::Kind::point,
                         axis++,
                         {},
                         {},
                         {entry.integer < 0 ? entry.integer + size : entry.integer}});
        break;
      case Entry::Kind::slice:
        steps.push_back({Step::Kind::kept, axis++, slice_positions(entry, size), {}, {}});
        break;
      case Entry::Kind::newaxis:
        steps.push_back({Step::Kind::added, -1, {}, {}, {}});
        break;
      case Entry::Kind::ellipsis:
        separators.push_back(static_cast<std::int64_t>(steps.size()));
        for (std::size_t n = shape.size() - consumed; n > 0; --n) keep_whole();
        break;
      case Entry::Kind::integers: {
        Ints index;
        for (std::int64_t value : entry.values) index.push_back(value < 0 ? value + size : value);
        steps.push_back({Step::Kind::point, axis++, {}, entry.shape, index});
        break;
      }
      case Entry::Kind::mask: {
        std::vector<Ints> found(entry.shape.size());
        std::int64_t count = 0;
        for (std::int64_t p = 0; p < count_of(entry.shape); ++p) {
          if (entry.values[static_cast<std::size_t>(p)] == 0) continue;
          ++count;
          const Ints coordinates = unravel(p, entry.shape);
          for (std::size_t d = 0; d < found.size(); ++d) found[d].push_back(coordinates[d]);
        }
        if (found.empty()) {
          steps.push_back(
              {Step::Kind::point, -1, {}, {count}, Ints(static_cast<std::size_t>(count))});
        }
        for (const Ints& coordinates : found) {
          steps.push_back({Step::Kind::point, axis++, {}, {count}, coordinates});
        }
        break;
      }
    }
  }
  while (axis < static_cast<std::int64_t>(shape.size())) keep_whole();

  // The common shape of the index tensors, and its position in the result.
  Ints points;
  std::int64_t first = -1, last = -1, kept_before = 0, kept = 0;
  bool together = true;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    if (steps[s].kind != Step::Kind::point) {
      ++kept;
      continue;
    }
    const auto here = static_cast<std::int64_t>(s);
    if (first < 0) {
      first = here;
      kept_before = kept;
    } else {
      if (last != here - 1) together = false;
      for (std::int64_t separator : separators) {
        if (separator > last && separator <= here) together = false;
      }
    }
    last = here;
    const Ints& index = steps[s].index_shape;
    if (index.size() > points.size())
      points.insert(points.begin(), index.size() - points.size(), 1);
    for (std::size_t d = 0; d < index.size(); ++d) {
      std::int64_t& size = points[points.size() - index.size() + d];
      if (size == 1) size = index[d];
    }
  }
  if (!advanced) points.clear();
  if (!together) kept_before = 0;

  Named result;
  std::int64_t seen = 0;
  for (const Step& step : steps) {
    if (step.kind == Step::Kind::point) continue;
    if (seen++ == kept_before)
      result.shape.insert(result.shape.end(), points.begin(), points.end());
    result.shape.push_back(
        step.kind == Step::Kind::added ? 1 : static_cast<std::int64_t>(step.positions.size()));
  }
  if (seen <= kept_before) result.shape.insert(result.shape.end(), points.begin(), points.end());

  for (std::int64_t p = 0; p < count_of(result.shape); ++p) {
    const Ints at = unravel(p, result.shape);
    const auto begin = at.begin() + kept_before;
    const Ints point(begin, begin + static_cast<std::int64_t>(points.size()));
    Ints source(shape.size());
    std::int64_t kept_here = 0;
    for (const Step& step : steps) {
      if (step.kind == Step::Kind::point) {
        if (step.axis < 0) continue;
        source[static_cast<std::size_t>(step.axis)] =
            step.index[static_cast<std::size_t>(broadcast_position(point, step.index_shape))];
        continue;
      }
      const std::int64_t d = kept_here < kept_before
                                 ? kept_here
                                 : kept_here + static_cast<std::int64_t>(points.size());
      ++kept_here;
      if (step.kind == Step::Kind::added) continue;
      source[static_cast<std::size_t>(step.axis)] =
          step.positions[static_cast<std::size_t>(at[static_cast<std::size_t>(d)])];
    }
    result.elements.push_back(ravel(source, shape));
  }
  return result;
}

// ---- random expressions ------------------------------------

using Random = std::mt19937_64;

inline std::int64_t draw(Random& random, std::int64_t low, std::int64_t high) {  // both included
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

inline Ints draw_shape(Random& random, std::int64_t max_rank, std::int64_t max_size) {
  Ints shape;
  for (std::int64_t rank = draw(random, 0, max_rank); rank > 0; --rank) {
    shape.push_back(draw(random, 0, 9) == 0 ? 0 : draw(random, 1, max_size));
  }
  return shape;
}

// A shape that broadcasts to `to`.
inline Ints draw_broadcastable(Random& random, const Ints& to) {
  const std::int64_t dropped = draw(random, 0, static_cast<std::int64_t>(to.size()));
  Ints shape(to.begin() + dropped, to.end());
  for (std::int64_t& size : shape) {
    if (draw(random, 0, 2) == 0) size = 1;
  }
  return shape;
}

// An expression that is valid for this shape.
inline Expression draw_expression(Random& random, const Ints& shape, bool with_tensors = true) {
  using Kind = Entry::Kind;
  Expression expression;
  // Tensors broadcast to one of these shapes; the number of true elements of a mask is its last
  // dimension.
  Ints points = draw_shape(random, 2, 3);
  std::optional<std::int64_t> mask_count;
  bool has_ellipsis = false;
  std::size_t axis = 0;
  while (true) {
    if (draw(random, 0, 7) == 0) expression.push_back({Kind::newaxis});
    if (!has_ellipsis && draw(random, 0, 7) == 0) {
      has_ellipsis = true;
      expression.push_back({Kind::ellipsis});
      axis +=
          static_cast<std::size_t>(draw(random, 0, static_cast<std::int64_t>(shape.size() - axis)));
    }
    // An ellipsis stands for the axes that were skipped, so the rest must be explicit.
    if (axis == shape.size() || (!has_ellipsis && draw(random, 0, 9) == 0)) break;
    const std::int64_t size = shape[axis];
    const std::int64_t choice = draw(random, 0, with_tensors ? 6 : 2);
    if (choice <= 1) {
      Entry entry{Kind::slice};
      if (draw(random, 0, 1) == 0) entry.start = draw(random, -size - 2, size + 2);
      if (draw(random, 0, 1) == 0) entry.stop = draw(random, -size - 2, size + 2);
      entry.step = draw(random, 1, 3) * (draw(random, 0, 1) == 0 ? 1 : -1);
      expression.push_back(entry);
      ++axis;
    } else if (choice == 2) {
      if (size == 0) continue;
      Entry entry{Kind::integer};
      entry.integer = draw(random, -size, size - 1);
      expression.push_back(entry);
      ++axis;
    } else if (choice <= 5) {
      Entry entry{Kind::integers};
      entry.shape = draw_broadcastable(random, points);
      if (size == 0 && count_of(entry.shape) != 0) continue;
      for (std::int64_t i = count_of(entry.shape); i > 0; --i) {
        entry.values.push_back(draw(random, -size, size - 1));
      }
      expression.push_back(entry);
      ++axis;
    } else {
      Entry entry{Kind::mask};
      const std::int64_t rank = draw(
          random, 0, std::min<std::int64_t>(2, static_cast<std::int64_t>(shape.size() - axis)));
      entry.shape = Ints(shape.begin() + static_cast<std::int64_t>(axis),
                         shape.begin() + static_cast<std::int64_t>(axis) + rank);
      const std::int64_t total = count_of(entry.shape);
      // As many true elements as the other tensors allow.
      const std::int64_t last = points.empty() ? 1 : points.back();
      std::int64_t wanted = draw(random, 0, 2) == 0 ? 1 : last;
      if (mask_count || wanted > total) wanted = mask_count.value_or(1);
      if (wanted > total) continue;
      entry.values.assign(static_cast<std::size_t>(total), 0);
      for (std::int64_t i = 0; i < wanted; ++i) entry.values[static_cast<std::size_t>(i)] = 1;
      std::shuffle(entry.values.begin(), entry.values.end(), random);
      if (wanted != 1) mask_count = wanted;
      expression.push_back(entry);
      axis += static_cast<std::size_t>(rank);
    }
  }
  return expression;
}

// In NumPy's notation: [1, 0:3:2, ..., None, array([0, 1])].
inline std::string to_text(const Expression& expression) {
  std::string text = "[";
  const auto number = [](std::optional<std::int64_t> value) {
    return value ? std::to_string(*value) : std::string();
  };
  for (const Entry& entry : expression) {
    if (text.size() > 1) text += ", ";
    const auto nested = [&](const char* dtype) {
      text += "array([";
      for (std::int64_t value : entry.values) text += std::to_string(value) + ", ";
      text += std::string("], ") + dtype + ").reshape([";
      for (std::int64_t size : entry.shape) text += std::to_string(size) + ", ";
      text += "])";
    };
    switch (entry.kind) {
      case Entry::Kind::integer:
        text += std::to_string(entry.integer);
        break;
      case Entry::Kind::slice:
        text += number(entry.start) + ":" + number(entry.stop) + ":" + std::to_string(entry.step);
        break;
      case Entry::Kind::ellipsis:
        text += "...";
        break;
      case Entry::Kind::newaxis:
        text += "None";
        break;
      case Entry::Kind::integers:
        nested("int");
        break;
      case Entry::Kind::mask:
        nested("bool");
        break;
    }
  }
  return text + "]";
}

}  // namespace index_reference
