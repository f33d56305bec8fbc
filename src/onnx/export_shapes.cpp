// Rules for ops that move elements: views, joins and splits, padding, indexing.
#include <algorithm>
#include <limits>

#include "core/check.h"
#include "extensor/creation.h"
#include "onnx/graph_builder.h"

namespace extensor::onnx {

using detail::message;

namespace {

constexpr std::int64_t to_the_end = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t to_the_start = std::numeric_limits<std::int64_t>::min();

using Integers = std::vector<std::int64_t>;

// ---- views

void write_reshape(CallWriter& call) {
  call.result(call.reshape(call.input(0), call.result_shape()));
}

// The attributes of a view are a list, or one item without a name.
const AttributeTree& only_item(const CallWriter& call) {
  if (call.tree().items.size() != 1) call.refuse("its attributes have an unknown form");
  return call.tree().items[0];
}

void write_transpose(CallWriter& call) {
  Integers axes = call.integers(only_item(call));
  const std::int64_t rank = call.rank(0);
  if (axes.empty()) {
    for (std::int64_t d = rank; d-- > 0;) axes.push_back(d);
  }
  for (std::int64_t& axis : axes) axis = call.axis(axis, rank);
  call.result(call.transpose(call.input(0), axes));
}

void write_squeeze(CallWriter& call) {
  Integers removed;
  const auto& shape = call.shape(0);
  for (const std::int64_t axis : call.axes(only_item(call), call.rank(0))) {
    const Size& size = shape[static_cast<std::size_t>(axis)];
    if (size.is_fixed() && size.value == 1) removed.push_back(axis);
  }
  call.result(removed.empty() ? call.input(0) : call.squeeze(call.input(0), removed));
}

void write_unsqueeze(CallWriter& call) {
  const std::int64_t axis = call.axis(call.integer(only_item(call)), call.rank(0) + 1);
  call.result(call.unsqueeze(call.input(0), {axis}));
}

void write_broadcast_to(CallWriter& call) {
  call.result(call.node("Expand", {call.input(0), call.graph.sizes(call.result_shape())}));
}

// ---- slices

// The parts of a Slice node.
struct Slices {
  std::vector<Size> starts, stops;
  Integers axes, steps;

  void add(const CallWriter& call, std::int64_t axis, const AttributeTree& slice) {
    const std::int64_t step = call.integer(call.item(slice, "step"));
    const auto bound = [&](const char* name, std::int64_t otherwise) {
      const AttributeTree& item = call.item(slice, name);
      return item.is_none() ? Size{otherwise, 0} : item.integer;
    };
    const Size start = bound("start", step > 0 ? 0 : to_the_end);
    const Size& length = call.shape(0)[static_cast<std::size_t>(axis)];
    // In ONNX, a start before the first element means that element; here, nothing is left.
    if (step < 0 && start.is_fixed() && length.is_fixed() && start.value < -length.value) {
      return add(axis, {0, 0}, {0, 0}, 1);
    }
    add(axis, start, bound("stop", step > 0 ? to_the_end : to_the_start), step);
  }
  void add(std::int64_t axis, const Size& start, const Size& stop, std::int64_t step) {
    axes.push_back(axis);
    starts.push_back(start);
    stops.push_back(stop);
    steps.push_back(step);
  }
  std::string write(CallWriter& call, const std::string& x) const {
    if (axes.empty()) return x;
    return call.node("Slice", {x, call.graph.sizes(starts), call.graph.sizes(stops),
                               call.graph.integers(axes), call.graph.integers(steps)});
  }
};

void write_slice(CallWriter& call) {
  Slices slices;
  slices.add(call, call.axis(call.integer("axis"), call.rank(0)), call.item("slice"));
  call.result(slices.write(call, call.input(0)));
}

// x[2, 1:, ..., newaxis]: a slice, then axes removed, then axes added.
void write_index_view(CallWriter& call) {
  // The attributes are one list of positions.
  const AttributeTree& list = only_item(call);
  std::int64_t used = 0;
  for (const AttributeTree& each : list.items) {
    if (each.text != "newaxis" && each.text != "...") ++used;
  }
  Slices slices;
  Integers removed, added;
  std::int64_t axis = 0, out = 0;
  for (const AttributeTree& each : list.items) {
    if (each.text == "newaxis") {
      added.push_back(out++);
    } else if (each.text == "...") {
      axis += call.rank(0) - used;
      out += call.rank(0) - used;
    } else if (each.is_integer) {
      const Size at = each.integer;
      const Size stop =
          at.is_fixed() && at.value == -1 ? Size{to_the_end, 0} : Size{at.value + 1, at.slope};
      slices.add(axis, at, stop, 1);
      removed.push_back(axis++);
    } else if (each.is_list) {
      slices.add(call, axis++, each);
      ++out;
    } else {
      call.refuse(message("index ", each.text, " has no form in ONNX"));
    }
  }
  std::string x = slices.write(call, call.input(0));
  if (!removed.empty()) x = call.squeeze(x, removed);
  if (!added.empty()) x = call.unsqueeze(x, added);
  call.result(x);
}

// ---- joins and splits

void write_concatenate(CallWriter& call) {
  Names inputs;
  for (std::size_t k = 0; k < call.inputs(); ++k) {
    inputs.push_back(call.input(k, call.result_dtype()));
  }
  const std::int64_t axis = call.axis(call.integer("axis"), call.rank(0));
  call.result(call.node("Concat", inputs, {attribute("axis", axis)}));
}

void write_stack(CallWriter& call) {
  const std::int64_t axis = call.axis(call.integer("axis"), call.rank(0) + 1);
  Names inputs;
  for (std::size_t k = 0; k < call.inputs(); ++k) {
    inputs.push_back(call.unsqueeze(call.input(k, call.result_dtype()), {axis}));
  }
  call.result(call.node("Concat", inputs, {attribute("axis", axis)}));
}

// The parts are as long as the results.
Names split_parts(CallWriter& call, std::int64_t axis) {
  std::vector<Size> sizes;
  const bool keeps_axis = call.result_shape().size() == call.shape(0).size();
  for (std::size_t k = 0; k < call.results(); ++k) {
    sizes.push_back(keeps_axis ? call.result_shape(k)[static_cast<std::size_t>(axis)] : Size{1, 0});
  }
  return call.graph.nodes("Split", {call.input(0), call.graph.sizes(sizes)}, sizes.size(),
                          {attribute("axis", axis)});
}

void write_split(CallWriter& call) {
  const Names parts = split_parts(call, call.axis(call.integer("axis"), call.rank(0)));
  for (std::size_t k = 0; k < parts.size(); ++k) call.result(k, parts[k]);
}

void write_unstack(CallWriter& call) {
  const std::int64_t axis = call.axis(call.integer("axis"), call.rank(0));
  const Names parts = split_parts(call, axis);
  for (std::size_t k = 0; k < parts.size(); ++k) call.result(k, call.squeeze(parts[k], {axis}));
}

// ---- padding and repetition

void write_pad(CallWriter& call) {
  constexpr const char* modes[] = {"constant", "reflect", "edge", "wrap"};
  const auto mode = static_cast<std::size_t>(call.integer("mode"));
  if (mode >= std::size(modes)) call.refuse("its mode is unknown");
  if (mode == 3 && call.graph.opset() < 19) call.refuse("mode wrap needs opset 19");
  const auto& widths = call.item("widths").items;
  Integers before, after;
  for (std::int64_t d = 0; d < call.rank(0); ++d) {
    const AttributeTree& pair = widths[widths.size() == 1 ? 0 : static_cast<std::size_t>(d)];
    before.push_back(call.integer(pair.items[0]));
    after.push_back(call.integer(pair.items[1]));
  }
  Integers both = before;
  both.insert(both.end(), after.begin(), after.end());
  Names inputs{call.input(0), call.graph.integers(both)};
  if (mode == 0) {
    const AttributeTree& value = call.item("value");
    inputs.push_back(
        value.is_integer
            ? call.graph.constant(full({}, call.integer(value), DType::int64).to(call.dtype(0)))
            : call.graph.number(call.real(value), call.dtype(0)));
  }
  call.result(call.node("Pad", inputs, {attribute("mode", modes[mode])}));
}

void write_tile(CallWriter& call) {
  Integers times = call.integers("repetitions");
  std::string x = call.input(0);
  const auto rank = static_cast<std::size_t>(call.rank(0));
  if (times.size() > rank) {
    Integers added;
    for (std::size_t d = rank; d < times.size(); ++d) {
      added.push_back(static_cast<std::int64_t>(d - rank));
    }
    x = call.unsqueeze(x, added);
  }
  while (times.size() < rank) times.insert(times.begin(), 1);
  call.result(call.node("Tile", {x, call.graph.integers(times)}));
}

// Each element `repeats` times: a new axis behind the repeated one, which is then merged.
void write_repeat(CallWriter& call) {
  const std::int64_t axis = call.axis(call.integer("axis"), call.rank(0));
  std::vector<Size> shape = call.shape(0);
  shape.insert(shape.begin() + axis + 1, Size{call.integer("repeats"), 0});
  const std::string wide =
      call.node("Expand", {call.unsqueeze(call.input(0), {axis + 1}), call.graph.sizes(shape)});
  call.result(call.reshape(wide, call.result_shape()));
}

void write_roll(CallWriter& call) {
  const Integers shifts = call.integers("shifts");
  const AttributeTree& given = call.item("axes");
  const bool flat = !given.is_list && given.text == "all";
  const Integers axes = flat ? Integers{0} : call.axes(given, call.rank(0));
  std::string x = flat ? call.reshape(call.input(0), {Size{-1, 0}}) : call.input(0);
  for (std::size_t k = 0; k < axes.size(); ++k) {
    std::int64_t length = 1;
    if (flat) {
      for (std::int64_t d = 0; d < call.rank(0); ++d) length *= call.fixed(0, d);
    } else {
      length = call.fixed(0, axes[k]);
    }
    if (length == 0) continue;
    const std::int64_t shift = shifts[shifts.size() == 1 ? 0 : k];
    const std::int64_t at = (length - (shift % length + length) % length) % length;
    Slices head, tail;
    head.add(axes[k], {at, 0}, {to_the_end, 0}, 1);
    tail.add(axes[k], {0, 0}, {at, 0}, 1);
    x = call.node("Concat", {head.write(call, x), tail.write(call, x)},
                  {attribute("axis", axes[k])});
  }
  call.result(flat ? call.reshape(x, call.result_shape()) : x);
}

// ---- indexing

void write_gather(CallWriter& call, const std::string& x, const std::string& indices,
                  std::int64_t axis) {
  call.result(call.node("Gather", {x, indices}, {attribute("axis", axis)}));
}

// Indices are int32 or int64 in ONNX.
std::string indices(CallWriter& call, std::size_t k) {
  if (call.dtype(k) == DType::bool_)
    call.refuse(
        "a mask selects a number of elements that the "
        "graph cannot know");
  return call.dtype(k) == DType::int32 ? call.input(k) : call.input(k, DType::int64);
}

void write_take(CallWriter& call) {
  write_gather(call, call.input(0), indices(call, 1),
               call.axis(call.integer("axis"), call.rank(0)));
}

void write_embedding(CallWriter& call) { write_gather(call, call.input(0), indices(call, 1), 0); }

// One tensor among whole axes selects along its axis.
void write_index(CallWriter& call) {
  const AttributeTree& list = call.item("index");
  std::int64_t axis = 0, at = -1, used = 0;
  for (const AttributeTree& each : list.items) {
    if (each.text != "newaxis" && each.text != "...") ++used;
  }
  for (const AttributeTree& each : list.items) {
    const bool whole = each.is_list && call.item(each, "start").is_none() &&
                       call.item(each, "stop").is_none() &&
                       call.integer(call.item(each, "step")) == 1;
    if (each.text == "tensor" && at == -1) {
      at = axis++;
    } else if (each.text == "...") {
      axis += call.rank(0) - used;
    } else if (whole) {
      ++axis;
    } else {
      call.refuse("only one index tensor among whole axes has a form in ONNX");
    }
  }
  if (at == -1 || call.inputs() != 2) call.refuse("its index has no form in ONNX");
  write_gather(call, call.input(0), indices(call, 1), at);
}

void write_elements(CallWriter& call) {
  const std::int64_t axis = call.axis(call.integer("axis"), call.rank(0));
  call.result(
      call.node("GatherElements", {call.input(0), indices(call, 1)}, {attribute("axis", axis)}));
}

// Both broadcast outside the axis.
void write_take_along_axis(CallWriter& call) {
  const auto axis = static_cast<std::size_t>(call.axis(call.integer("axis"), call.rank(0)));
  const auto fitted = [&](const std::string& name, std::size_t k) {
    std::vector<Size> shape = call.result_shape();
    shape[axis] = call.shape(k)[axis];
    if (shape == call.shape(k)) return name;
    return call.node("Expand", {name, call.graph.sizes(shape)});
  };
  const std::string x = fitted(call.input(0), 0), at = fitted(indices(call, 1), 1);
  call.result(
      call.node("GatherElements", {x, at}, {attribute("axis", static_cast<std::int64_t>(axis))}));
}

template <bool adds>
void write_scatter(CallWriter& call) {
  Attributes attributes{attribute("axis", call.axis(call.integer("axis"), call.rank(0)))};
  if (adds) attributes.push_back(attribute("reduction", "add"));
  const DType dtype = call.result_dtype();
  call.result(call.node("ScatterElements",
                        {call.input(0, dtype), indices(call, 1), call.input(2, dtype)},
                        attributes));
}

// A move between devices: a graph has none.
void write_move(CallWriter& call) { call.result(call.input(0)); }

constexpr ExportRule rules[] = {
    {"reshape", write_reshape},
    {"transpose", write_transpose},
    {"squeeze", write_squeeze},
    {"unsqueeze", write_unsqueeze},
    {"broadcast_to", write_broadcast_to},
    {"slice", write_slice},
    {"index_view", write_index_view},
    {"index", write_index},
    {"concatenate", write_concatenate},
    {"stack", write_stack},
    {"split", write_split},
    {"split_with_sizes", write_split},
    {"unstack", write_unstack},
    {"pad", write_pad},
    {"tile", write_tile},
    {"repeat", write_repeat},
    {"roll", write_roll},
    {"take", write_take},
    {"embedding", write_embedding},
    {"gather", write_elements},
    {"take_along_axis", write_take_along_axis},
    {"scatter", write_scatter<false>},
    {"scatter_add", write_scatter<true>},
    {"to", write_move},
};

}  // namespace

const std::span<const ExportRule> shape_export_rules = rules;

}  // namespace extensor::onnx
