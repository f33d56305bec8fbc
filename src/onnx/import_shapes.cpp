// Operators of files that move elements or compute shapes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "extensor/broadcasting.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/indexing.h"
#include "extensor/interpolation.h"
#include "extensor/manipulation.h"
#include "extensor/matrix.h"
#include "extensor/reduction.h"
#include "onnx/program.h"

namespace extensor::onnx {

using detail::message;

namespace {

using Integers = std::vector<std::int64_t>;

std::int64_t from_0(std::int64_t axis, const Tensor& x) {
  return axis < 0 ? axis + x.ndim() : axis;
}
std::size_t at(std::int64_t k) { return static_cast<std::size_t>(k); }

// Shapes are read on the host, where they are computed.
Tensor host_tensor(const Integers& values) {
  return values.empty() ? zeros({0}, DType::int64) : from_data(values);
}

// ---- shapes

Kernel translate_constant(NodeReader& node) {
  Tensor value = node.tensor("value");
  if (node.has("value_float")) value = scalar(node.real("value_float", 0), DType::float32);
  if (node.has("value_int")) value = scalar(node.integer("value_int"), DType::int64);
  if (const auto list = node.reals("value_floats")) {
    value = list->empty() ? zeros({0}) : from_data(*list);
  }
  if (const auto list = node.integers("value_ints")) value = host_tensor(*list);
  if (!value.defined()) node.refuse("it has no value that ExTensor has");
  return [value](Arguments) { return Results{value}; };
}

Kernel translate_shape(NodeReader& node) {
  const std::int64_t start = node.integer("start", 0);
  const std::int64_t end = node.integer("end", std::numeric_limits<std::int64_t>::max());
  return [=](Arguments x) {
    const std::int64_t rank = x[0].ndim();
    const auto bound = [&](std::int64_t position) {
      return std::clamp<std::int64_t>(position < 0 ? position + rank : position, 0, rank);
    };
    Integers sizes;
    for (std::int64_t d = bound(start); d < bound(end); ++d) sizes.push_back(x[0].size(d));
    return Results{host_tensor(sizes)};
  };
}

Kernel translate_size(NodeReader&) {
  return [](Arguments x) { return Results{scalar(x[0].numel(), DType::int64)}; };
}

Kernel translate_constant_of_shape(NodeReader& node) {
  const Tensor given = node.tensor("value");
  if (given.defined() && given.numel() != 1) node.refuse("attribute value must be one element");
  const Tensor value = given.defined() ? given.reshape(Shape{}) : zeros({});
  return [value](Arguments x) {
    return Results{value.broadcast_to(Shape(host_integers(x[0]))).clone()};
  };
}

Kernel translate_range(NodeReader&) {
  return [](Arguments x) {
    const DType dtype = x[0].dtype();
    if (is_floating_point(dtype)) {
      const auto number = [&](std::size_t k) { return x[k].to(DType::float64).item<double>(); };
      return Results{arange(number(0), number(1), number(2), {.dtype = dtype})};
    }
    const auto number = [&](std::size_t k) { return host_integer(x[k]); };
    return Results{arange(number(0), number(1), number(2), {.dtype = dtype})};
  };
}

// ---- views

Kernel translate_reshape(NodeReader& node) {
  const auto attribute = node.integers("shape");
  const bool allows_zero = node.flag("allowzero", false);
  if (!attribute && !node.has_input(1)) node.refuse("it has no shape");
  return [=](Arguments x) {
    Integers shape = *given_axes(attribute, x, 1);
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] != 0 || allows_zero) continue;
      if (d >= x[0].shape().size()) {
        throw ShapeError(
            message("Reshape: shape ", Dims(shape), " keeps axis ", d, " of ", x[0].shape()));
      }
      shape[d] = x[0].shape()[d];
    }
    return Results{x[0].reshape(Shape(shape))};
  };
}

Kernel translate_flatten(NodeReader& node) {
  const std::int64_t axis = node.integer("axis", 1);
  return [=](Arguments x) {
    const std::int64_t split = from_0(axis, x[0]);
    if (split < 0 || split > x[0].ndim()) {
      throw IndexError(message("Flatten: axis ", axis, " of ", x[0].shape()));
    }
    std::int64_t rows = 1, columns = 1;
    for (std::int64_t d = 0; d < x[0].ndim(); ++d) {
      (d < split ? rows : columns) *= x[0].size(d);
    }
    return Results{x[0].reshape({rows, columns})};
  };
}

Kernel translate_transpose(NodeReader& node) {
  const auto axes = node.integers("perm");
  return
      [=](Arguments x) { return Results{axes ? x[0].transpose(Dims(*axes)) : x[0].transpose()}; };
}

Kernel translate_squeeze(NodeReader& node) {
  const auto attribute = node.integers("axes");
  return [=](Arguments x) {
    const auto axes = given_axes(attribute, x, 1);
    return Results{axes ? x[0].squeeze(*axes) : x[0].squeeze()};
  };
}

Kernel translate_unsqueeze(NodeReader& node) {
  const auto attribute = node.integers("axes");
  if (!attribute && !node.has_input(1)) node.refuse("it has no axes");
  return [=](Arguments x) {
    Integers axes = *given_axes(attribute, x, 1);
    const std::int64_t rank = x[0].ndim() + static_cast<std::int64_t>(axes.size());
    for (std::int64_t& axis : axes) {
      if (axis < -rank || axis >= rank) {
        throw IndexError(message("Unsqueeze: axis ", axis, " of a result of rank ", rank));
      }
      axis += axis < 0 ? rank : 0;
    }
    std::ranges::sort(axes);
    if (std::ranges::adjacent_find(axes) != axes.end()) {
      throw ValueError(message("Unsqueeze: axes ", Dims(axes), " repeat one"));
    }
    Tensor y = x[0];
    for (const std::int64_t axis : axes) y = y.unsqueeze(axis);
    return Results{y};
  };
}

// Either side may have axes of length 1 that the other extends.
Kernel translate_expand(NodeReader&) {
  return [](Arguments x) {
    const Integers asked = host_integers(x[1]);
    return Results{x[0].broadcast_to(broadcast_shapes(x[0].shape(), Shape(asked)))};
  };
}

// ---- parts

// Positions beyond the ends mean the ends, also INT64_MIN and INT64_MAX.
Kernel translate_slice(NodeReader& node) {
  const auto starts = node.integers("starts"), ends = node.integers("ends"),
             axes = node.integers("axes");
  if ((!starts && !node.has_input(1)) || (!ends && !node.has_input(2))) {
    node.refuse("it has no starts and ends");
  }
  return [=](Arguments x) {
    const auto list = [&](std::size_t k, const std::optional<Integers>& attribute) {
      return given_axes(attribute, x, k);
    };
    const Integers first = *list(1, starts), last = *list(2, ends);
    const auto along = list(3, axes), steps = list(4, std::nullopt);
    const bool fits = first.size() == last.size() && (!along || along->size() == first.size()) &&
                      (!steps || steps->size() == first.size());
    if (!fits) throw ShapeError("Slice: starts, ends, axes and steps have different lengths");
    Tensor y = x[0];
    for (std::size_t k = 0; k < first.size(); ++k) {
      const std::int64_t step = steps ? (*steps)[k] : 1;
      const std::int64_t axis = along ? (*along)[k] : static_cast<std::int64_t>(k);
      const bool to_start =
          step < 0 && last[k] < -y.size(axis);  // past the first element, which is included
      // With a negative step, a start before the first element means that element.
      const std::int64_t start = step < 0 ? std::max(first[k], -y.size(axis)) : first[k];
      y = y.slice(axis, start,
                  to_start ? std::optional<StrictInt>() : std::optional<StrictInt>(last[k]), step);
    }
    return Results{y};
  };
}

Kernel translate_split(NodeReader& node) {
  const std::int64_t axis = node.integer("axis", 0);
  const auto attribute = node.integers("split");
  const std::size_t parts = node.outputs();
  if (node.integer("num_outputs", static_cast<std::int64_t>(parts)) !=
      static_cast<std::int64_t>(parts)) {
    node.refuse("num_outputs is not the number of its outputs");
  }
  return [=](Arguments x) {
    const auto given = given_axes(attribute, x, 1);
    if (given && given->size() != parts) {
      throw ShapeError(message("Split: ", given->size(), " sizes for ", parts, " outputs"));
    }
    if (given) return split(x[0], Dims(*given), axis);
    // The last part is shorter if they do not divide the axis.
    const std::int64_t length = x[0].size(axis), count = static_cast<std::int64_t>(parts);
    const std::int64_t each = (length + count - 1) / count;
    Integers sizes;
    for (std::int64_t k = 0; k < count; ++k) {
      sizes.push_back(std::clamp<std::int64_t>(length - k * each, 0, each));
    }
    return split(x[0], Dims(sizes), axis);
  };
}

Kernel translate_concat(NodeReader& node) {
  const std::int64_t axis = node.integer("axis");
  return [=](Arguments x) { return Results{concatenate({x.begin(), x.end()}, axis)}; };
}

Kernel translate_tile(NodeReader&) {
  return [](Arguments x) { return Results{tile(x[0], Dims(host_integers(x[1])))}; };
}

// ---- padding

Kernel translate_pad(NodeReader& node) {
  const std::string mode = node.text("mode", "constant");
  static constexpr const char* modes[] = {"constant", "reflect", "edge", "wrap"};
  const auto* const found = std::ranges::find(modes, mode);
  if (found == std::end(modes)) node.refuse("attribute mode is '", mode, "'");
  const auto attribute = node.integers("pads");
  const double number = node.real("value", 0);
  if (!attribute && !node.has_input(1)) node.refuse("it has no pads");
  return [=, kind = static_cast<PadMode>(found - modes)](Arguments x) {
    const Integers pads = *given_axes(attribute, x, 1);
    const auto axes = given_axes(std::nullopt, x, 3);
    const std::size_t count = axes ? axes->size() : at(x[0].ndim());
    if (pads.size() != 2 * count) {
      throw ShapeError(message("Pad: ", pads.size(), " pads for ", count, " axes"));
    }
    Padding widths(at(x[0].ndim()), {0, 0});
    for (std::size_t k = 0; k < count; ++k) {
      const std::int64_t axis = axes ? from_0((*axes)[k], x[0]) : static_cast<std::int64_t>(k);
      if (axis < 0 || axis >= x[0].ndim()) {
        throw IndexError(message("Pad: axis ", axis, " of ", x[0].shape()));
      }
      widths[at(axis)] = {pads[k], pads[k + count]};
    }
    const bool is_float = is_floating_point(x[0].dtype());
    Scalar value = number;
    if (x.size() > 2 && x[2].defined() && kind == PadMode::constant) {
      if (is_float) {
        value = x[2].detach().to(DType::float64).item<double>();
      } else {
        value = host_integer(x[2]);
      }
    } else if (!is_float) {
      if (!(std::abs(number) < 0x1p53)) {
        throw ValueError(message("Pad: value ", number, " for a tensor of ", x[0].dtype()));
      }
      value = static_cast<std::int64_t>(number);
    }
    return Results{pad(x[0], widths, kind, value)};
  };
}

// ---- indexing

Tensor index_of(const Tensor& indices, const Tensor& x) { return indices.to(x.device()); }

Kernel translate_gather(NodeReader& node) {
  const std::int64_t axis = node.integer("axis", 0);
  return [=](Arguments x) { return Results{take(x[0], index_of(x[1], x[0]), axis)}; };
}

Kernel translate_gather_elements(NodeReader& node) {
  const std::int64_t axis = node.integer("axis", 0);
  return [=](Arguments x) { return Results{gather(x[0], axis, index_of(x[1], x[0]))}; };
}

Kernel translate_scatter_elements(NodeReader& node) {
  const std::int64_t axis = node.integer("axis", 0);
  const std::string reduction = node.text("reduction", "none");
  static constexpr const char* kinds[] = {"add", "mul", "mean", "max", "min"};
  const auto* const found = std::ranges::find(kinds, reduction);
  if (found == std::end(kinds) && reduction != "none") {
    node.refuse("attribute reduction is '", reduction, "'");
  }
  return [=](Arguments x) {
    const Tensor indices = index_of(x[1], x[0]);
    if (found == std::end(kinds)) return Results{scatter(x[0], axis, indices, x[2])};
    if (found == kinds) return Results{scatter_add(x[0], axis, indices, x[2])};
    return Results{
        scatter(x[0], axis, indices, x[2], static_cast<ScatterReduction>(found - kinds))};
  };
}

Kernel translate_one_hot(NodeReader& node) {
  if (node.integer("axis", -1) != -1) node.refuse("attribute axis must be -1");
  return [](Arguments x) {
    // The depth may be a float.
    const std::int64_t classes = host_integer(x[1].detach().to(DType::int64));
    if (classes < 1)
      throw ValueError(message("OneHot: depth is ", classes, " (allowed: 1 or more)"));
    if (x[2].shape() != Shape{2}) {
      throw ShapeError(message("OneHot: values are ", x[2].shape(), " (allowed: [2])"));
    }
    const Tensor indices = x[0].to(DType::int64);
    const Tensor wrapped = where(less(indices, 0), indices + classes, indices);
    const Tensor hot = equal(wrapped.unsqueeze(-1), arange(classes, x[0].device()));
    return Results{where(hot, x[2][1], x[2][0])};
  };
}

Kernel translate_trilu(NodeReader& node) {
  const bool upper = node.flag("upper", true);
  return [=](Arguments x) {
    const std::int64_t diagonal = x.size() > 1 && x[1].defined() ? host_integer(x[1]) : 0;
    return Results{upper ? triu(x[0], diagonal) : tril(x[0], diagonal)};
  };
}

Kernel translate_non_zero(NodeReader&) {
  return [](Arguments x) { return Results{stack(nonzero(x[0]))}; };
}

Kernel translate_depth_to_space(NodeReader& node) {
  const std::int64_t factor = node.integer("blocksize");
  const std::string mode = node.text("mode", "DCR");
  if (mode == "CRD") {
    return [=](Arguments x) { return Results{pixel_shuffle(x[0], factor)}; };
  }
  if (mode != "DCR") node.refuse("attribute mode is '", mode, "'");
  return [=](Arguments x) {
    const Tensor& y = x[0];
    // The order of the checks keeps factor · factor in range.
    if (y.ndim() != 4 || factor < 1 || factor > y.size(1) / factor ||
        y.size(1) % (factor * factor) != 0) {
      throw ShapeError(message("DepthToSpace: x is ", y.shape(), " and blocksize is ", factor));
    }
    const std::int64_t n = y.size(0), c = y.size(1) / (factor * factor), h = y.size(2),
                       w = y.size(3);
    return Results{y.reshape({n, factor, factor, c, h, w})
                       .transpose({0, 3, 4, 1, 5, 2})
                       .reshape({n, c, h * factor, w * factor})};
  };
}

constexpr ImportRule rules[] = {
    {"Constant", 0, 0, translate_constant},
    {"Shape", 1, 1, translate_shape},
    {"Size", 1, 1, translate_size},
    {"ConstantOfShape", 1, 1, translate_constant_of_shape},
    {"Range", 3, 3, translate_range},
    {"Reshape", 1, 2, translate_reshape},
    {"Flatten", 1, 1, translate_flatten},
    {"Transpose", 1, 1, translate_transpose},
    {"Squeeze", 1, 2, translate_squeeze},
    {"Unsqueeze", 1, 2, translate_unsqueeze},
    {"Expand", 2, 2, translate_expand},
    {"Slice", 1, 5, translate_slice},
    {"Split", 1, 2, translate_split},
    {"Concat", 1, any_number, translate_concat},
    {"Tile", 2, 2, translate_tile},
    {"Pad", 1, 4, translate_pad},
    {"Gather", 2, 2, translate_gather},
    {"GatherElements", 2, 2, translate_gather_elements},
    {"ScatterElements", 3, 3, translate_scatter_elements},
    {"OneHot", 3, 3, translate_one_hot},
    {"Trilu", 1, 2, translate_trilu},
    {"NonZero", 1, 1, translate_non_zero},
    {"DepthToSpace", 1, 1, translate_depth_to_space},
};

}  // namespace

const std::span<const ImportRule> shape_import_rules = rules;

}  // namespace extensor::onnx
