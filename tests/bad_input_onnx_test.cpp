// Malformed ONNX files: truncated, with false lengths, sizes and types, and with graphs that do not
// fit together.
#include <random>

#include "extensor/extensor.h"
#include "io/byte_sink.h"
#include "onnx/graph_builder.h"
#include "onnx/model.h"
#include "onnx/program.h"
#include "onnx/wire.h"
#include "support/child_process.h"
#include "support/files.h"

namespace {

using namespace extensor;
using onnx::Model;
using onnx::Node;
using onnx::WireWriter;
using test_support::expect_error;
using test_support::TemporaryDirectory;

constexpr const char* label = "load_onnx: 'file'";

void load(const std::string& bytes) {
  const io::MemorySource source(label, std::as_bytes(std::span(bytes)));
  onnx::load_program(label, onnx::read_model(source));
}

std::string written(const Model& model) {
  io::MemorySink sink;
  onnx::write_model(label, sink, model);
  return {reinterpret_cast<const char*>(sink.bytes.data()), sink.bytes.size()};
}

// y = relu(x · weight)
Model small_model() {
  Model model;
  model.opset = 18;
  model.graph.name = "model";
  model.graph.inputs = {{"x", DType::float32, {{{2, ""}, {3, ""}}}}};
  model.graph.outputs = {{"y", DType::float32, {{{2, ""}, {4, ""}}}}};
  model.graph.initializers = {{"weight", ones({3, 4})}};
  model.graph.nodes = {{"product", "MatMul", "", {"x", "weight"}, {"z"}, {}},
                       {"rectifier", "Relu", "", {"z"}, {"y"}, {}}};
  return model;
}

void expect_refused(const std::string& bytes, const std::vector<std::string>& parts) {
  std::vector<std::string> all = parts;
  all.emplace_back(label);
  expect_error<FormatError>([&] { load(bytes); }, all);
}
void expect_refused(const Model& model, const std::vector<std::string>& parts) {
  expect_refused(written(model), parts);
}

CHILD_TEST(BadInputOnnx, Item80TruncationAtEveryByte) {
  const std::string file = written(small_model());
  EXPECT_NO_THROW(load(file));
  for (std::size_t length = 0; length < file.size(); ++length) {
    expect_refused(file.substr(0, length), {});
  }
  expect_refused("", {"no graph"});
  expect_refused("\x08\x01", {"no graph"});
}

CHILD_TEST(BadInputOnnx, EveryByteMayBeWrong) {
  const std::string file = written(small_model());
  for (std::size_t k = 0; k < file.size(); ++k) {
    for (const unsigned char value : {0, 1, 0x7F, 0x80, 0xFF}) {
      std::string changed = file;
      changed[k] = static_cast<char>(value);
      try {
        load(changed);
      } catch (const FormatError&) {  // most of them
      }
    }
  }
}

// Bits flipped, bytes removed and repeated anywhere: every file is refused or runs, or an op
// refuses its numbers. No file makes it allocate much.
CHILD_TEST(BadInputOnnx, RandomDamage) {
  using onnx::attribute;
  using Integers = std::vector<std::int64_t>;
  Model model;
  model.opset = 18;
  model.graph.inputs = {{"x", DType::float32, {{{1, ""}, {2, ""}, {6, ""}, {5, ""}}}}};
  model.graph.outputs = {{"y", DType::float32, std::nullopt}};
  model.graph.initializers = {{"w", ones({4, 2, 3, 3})}, {"shape", tensor({1, 4, -1})}};
  model.graph.nodes = {
      {"",
       "Conv",
       "",
       {"x", "w"},
       {"c"},
       {attribute("pads", Integers{1, 1, 1, 1}), attribute("strides", Integers{1, 2})}},
      {"",
       "MaxPool",
       "",
       {"c"},
       {"m"},
       {attribute("kernel_shape", Integers{2, 2}), attribute("auto_pad", "SAME_LOWER")}},
      {"", "LeakyRelu", "", {"m"}, {"r"}, {attribute("alpha", 0.1)}},
      {"", "DepthToSpace", "", {"r"}, {"d"}, {attribute("blocksize", 2)}},
      {"", "Pad", "", {"d"}, {"p"}, {attribute("pads", Integers(8, 1))}},
      {"", "Reshape", "", {"r", "shape"}, {"f"}, {}},
      {"", "Split", "", {"f"}, {"s", "t"}, {attribute("axis", 1), attribute("num_outputs", 2)}},
      {"", "Softmax", "", {"s"}, {"y"}, {attribute("axis", -1)}}};
  model.graph.nodes[4].attributes.push_back(attribute("value", 1.0));
  const std::string file = written(model);
  const TemporaryDirectory folder;
  set_memory_limit(std::int64_t{64} << 20);
  std::mt19937 random(7);
  int loaded = 0, ran = 0;
  for (int k = 0; k < 3000; ++k) {
    std::string changed = file;
    for (int edits = 1 + static_cast<int>(random() % 2); edits > 0; --edits) {
      const std::size_t at = random() % changed.size();
      switch (random() % 4) {
        case 0:
          changed.erase(at, 1 + random() % 3);
          break;
        case 1:
          changed.insert(at, changed.substr(random() % changed.size(), random() % 9));
          break;
        default:
          changed[at] = static_cast<char>(changed[at] ^ (1 << random() % 8));
      }
    }
    test_support::write_file(folder / "x.onnx", changed);
    try {
      const OnnxModel damaged = load_onnx(folder / "x.onnx");
      ++loaded;
      damaged.run({ones({1, 2, 6, 5})});
      ++ran;
    } catch (const Error&) {  // most of them
    }
  }
  EXPECT_GT(loaded, ran);
  EXPECT_GT(ran, 100);
}

CHILD_TEST(BadInputOnnx, Item81Lengths) {
  // A field of 2⁶⁴ − 1 bytes.
  expect_refused(std::string("\x3a") + std::string(9, '\xff') + "\x01",
                 {"at byte", "does not fit"});
  expect_refused(std::string("\x08") + std::string(11, '\xff'), {"64 bits"});
  expect_refused(std::string("\x08") + std::string(9, '\x80') + "\x02", {"64 bits"});
  expect_refused("\x0b", {"wire type 3"});
  expect_refused(std::string("\x00\x00", 2), {"field number 0"});
  expect_refused("\x3d\x01\x01\x01\x01", {"graph", "wire type 5"});
}

// A tensor of any description among the initializers.
std::string with_tensor(const WireWriter& tensor) {
  WireWriter graph, file;
  graph.message(5, tensor);
  file.integer(1, 8);
  file.message(7, graph);
  return file.bytes();
}

CHILD_TEST(BadInputOnnx, Item85Shapes) {
  const auto tensor = [](const std::vector<std::int64_t>& dims, std::int64_t type,
                         std::string_view raw) {
    WireWriter writer;
    for (const std::int64_t size : dims) writer.integer(1, size);
    writer.integer(2, type);
    writer.text(8, "t");
    writer.text(9, raw);
    return with_tensor(writer);
  };
  expect_refused(tensor({3}, 1, "12345678"), {"'t'", "12 bytes", "8"});
  expect_refused(tensor({std::int64_t{1} << 50}, 1, "1234"), {"'t'"});
  expect_refused(tensor({std::int64_t{1} << 40, std::int64_t{1} << 40}, 1, ""), {"'t'"});
  expect_refused(tensor({-1}, 1, ""), {"'t'", "-1"});
  expect_refused(tensor(std::vector<std::int64_t>(65, 1), 1, "1234"), {"65 axes"});
  expect_refused(tensor({1}, 8, ""), {"data type 8"});
  expect_refused(tensor({1}, 99, "1234"), {"data type 99"});
  expect_refused(tensor({2}, 9, std::string_view("\x01\x02", 2)), {"bool"});
  // No elements, and so no values.
  WireWriter none;
  none.integer(1, 0);
  none.integer(2, 1);
  expect_refused(with_tensor(none), {"version 0"});
  // Values in their own field, too few and too large.
  WireWriter few;
  few.integer(1, 3);
  few.integer(2, 6);
  few.integer(5, 1);
  expect_refused(with_tensor(few), {"another size"});
  WireWriter large;
  large.integer(1, 1);
  large.integer(2, 3);
  large.integer(5, 300);
  expect_refused(with_tensor(large), {"int8 cannot hold"});
}

CHILD_TEST(BadInputOnnx, Item87ExternalData) {
  const TemporaryDirectory folder;
  std::filesystem::create_directory(folder / "inside");
  test_support::write_file(folder / "secret", "0123456789abcdef");
  test_support::write_file(folder / "inside" / "data", "0123456789abcdef");
  std::filesystem::create_symlink(folder / "secret", folder / "inside" / "link");
  const auto file = [](const std::string& location, const std::string& offset,
                       const std::string& length) {
    WireWriter tensor;
    tensor.integer(1, 4);
    tensor.integer(2, 1);
    tensor.text(8, "t");
    for (const auto& [key, value] :
         {std::pair{"location", location}, {"offset", offset}, {"length", length}}) {
      WireWriter entry;
      entry.text(1, key);
      entry.text(2, value);
      tensor.message(13, entry);
    }
    tensor.integer(14, 1);
    WireWriter graph, model, opset, output, node;
    output.text(1, "t");
    graph.message(5, tensor);
    graph.message(12, output);
    opset.integer(2, 18);
    model.message(8, opset);
    model.message(7, graph);
    return model.bytes();
  };
  const auto path = folder / "inside" / "model.onnx";
  const auto expect_location = [&](const std::string& bytes,
                                   const std::vector<std::string>& parts) {
    test_support::write_file(path, bytes);
    expect_error<FormatError>([&] { load_onnx(path); }, parts);
  };
  test_support::write_file(path, file("data", "0", "16"));
  EXPECT_EQ(load_onnx(path).run({})[0].shape(), Shape{4});
  expect_location(file("../secret", "0", "16"), {"../secret", "inside the folder"});
  expect_location(file((folder / "secret").string(), "0", "16"), {"inside the folder"});
  expect_location(file("link", "0", "16"), {"link", "leads out"});
  expect_location(file("", "0", "16"), {"inside the folder"});
  expect_location(file("data", "4", "16"), {"16 bytes"});
  expect_location(file("data", "18446744073709551615", "16"), {"offset"});
  expect_location(file("data", "0", "12"), {"12 bytes"});
  expect_location(file("data", "-1", "16"), {"must be a number"});
  expect_refused(file("data", "0", "16"), {"not asked for"});  // without a folder
  test_support::write_file(path, file("none", "0", "16"));
  expect_error<IoError>([&] { load_onnx(path); }, {"none"});
}

CHILD_TEST(BadInputOnnx, Graphs) {
  Model model = small_model();
  model.opset = 3;
  expect_refused(model, {"version 3", "7 to 23"});
  model = small_model();
  model.graph.nodes[0].type = "Loop";
  model.graph.nodes[1].type = "Scan";
  expect_refused(model, {"not supported: Loop, Scan"});
  model = small_model();
  model.graph.nodes[0].inputs = {"x"};
  expect_refused(model, {"'product' (MatMul)", "1 inputs"});
  model = small_model();
  model.graph.nodes[0].inputs = {"x", ""};
  expect_refused(model, {"'product' (MatMul)", "input 1 is missing"});
  model = small_model();
  std::swap(model.graph.nodes[0], model.graph.nodes[1]);
  expect_refused(model, {"'rectifier' (Relu)", "'z'"});
  model = small_model();
  model.graph.nodes[0].outputs = {"x"};
  expect_refused(model, {"'x'", "defined already"});
  model = small_model();
  model.graph.outputs[0].name = "none";
  expect_refused(model, {"'none'"});
  model = small_model();
  model.graph.outputs.clear();
  expect_refused(model, {"no outputs"});
  model = small_model();
  model.graph.initializers.push_back(model.graph.initializers[0]);
  expect_refused(model, {"'weight'", "defined already"});
  model = small_model();
  model.graph.nodes[1].attributes = {onnx::attribute("slope", 1)};
  expect_refused(model, {"'rectifier' (Relu)", "'slope'"});
  model = small_model();
  model.graph.nodes[1].type = "LeakyRelu";
  model.graph.nodes[1].attributes = {onnx::attribute("alpha", "much")};
  expect_refused(model, {"'rectifier' (LeakyRelu)", "alpha", "type"});
}

CHILD_TEST(BadInputOnnx, NamesThatAreGivenTwice) {
  Model model = small_model();
  model.graph.inputs.push_back(model.graph.inputs[0]);
  expect_refused(model, {"'x'", "defined already"});
  model = small_model();
  model.graph.inputs.push_back({"weight", DType::float32, std::nullopt});  // as in older files
  EXPECT_NO_THROW(load(written(model)));
  model = small_model();
  model.graph.nodes[1].type = "LeakyRelu";
  model.graph.nodes[1].attributes = {onnx::attribute("alpha", 0.1), onnx::attribute("alpha", 0.2)};
  expect_refused(model, {"'rectifier' (LeakyRelu)", "'alpha'", "twice"});
}

// An input of a type that no tensor has is not one of any type.
CHILD_TEST(BadInputOnnx, TypesOfInputs) {
  const auto with_input = [](std::uint32_t kind, std::int64_t element) {
    WireWriter tensor, type, input, output, graph, opset, file;
    tensor.integer(1, element);
    type.message(kind, tensor);
    input.text(1, "x");
    input.message(2, type);
    output.text(1, "x");
    graph.message(11, input);
    graph.message(12, output);
    opset.integer(2, 18);
    file.message(8, opset);
    file.message(7, graph);
    return file.bytes();
  };
  EXPECT_NO_THROW(load(with_input(1, 1)));
  EXPECT_NO_THROW(load(with_input(1, 0)));                      // not said
  expect_refused(with_input(1, 8), {"input 'x'", "type 8"});    // string
  expect_refused(with_input(1, 14), {"input 'x'", "type 14"});  // complex64
  expect_refused(with_input(1, 99), {"input 'x'", "type 99"});
  expect_refused(with_input(4, 1), {"input 'x'", "not a tensor"});  // a sequence
}

// Nodes with one input that are whole when they are loaded, or not.
Model with_node(Node node, std::vector<std::pair<std::string, Tensor>> constants = {}) {
  Model model;
  model.opset = 18;
  model.graph.inputs = {{"x", std::nullopt, std::nullopt}};
  model.graph.outputs = {{"y", std::nullopt, std::nullopt}};
  model.graph.initializers.assign(constants.begin(), constants.end());
  model.graph.nodes.push_back(std::move(node));
  return model;
}

CHILD_TEST(BadInputOnnx, InputsWithoutANameAreMissing) {
  for (const char* type : {"Reshape", "Unsqueeze", "Pad", "TopK", "Slice"}) {
    expect_refused(with_node({"n", type, "", {"x", ""}, {"y"}, {}}), {"'n'", type, "it has no"});
  }
  expect_refused(with_node({"n", "Slice", "", {"x", "x", ""}, {"y"}, {}}), {"'n' (Slice)"});
  Model model = with_node({"n", "Split", "", {"x"}, {}, {}});
  model.graph.outputs[0].name = "x";
  expect_refused(model, {"'n' (Split)", "no outputs"});
}

// The numbers of a file reach kernels only in ranges that products cannot overflow.
CHILD_TEST(BadInputOnnx, NumbersOutOfRangeWhenItRuns) {
  const TemporaryDirectory folder;
  const auto path = folder / "x.onnx";
  const auto run = [&](const Model& model, const Tensor& x) {
    test_support::write_file(path, written(model));
    return load_onnx(path)(x);
  };
  using onnx::attribute;
  using Integers = std::vector<std::int64_t>;
  const Tensor image = ones({1, 4, 3, 3}), kernel = ones({1, 4, 2, 2});
  for (const std::int64_t blocksize : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{3},
                                       std::int64_t{1} << 32, std::int64_t{1} << 62}) {
    for (const char* mode : {"DCR", "CRD"}) {
      const Model model = with_node({"n",
                                     "DepthToSpace",
                                     "",
                                     {"x"},
                                     {"y"},
                                     {attribute("blocksize", blocksize), attribute("mode", mode)}});
      EXPECT_THROW(run(model, image), Error) << blocksize << mode;
    }
  }
  for (const char* name : {"strides", "dilations", "pads"}) {
    for (const std::int64_t value :
         {std::int64_t{-1}, std::int64_t{1} << 62, std::numeric_limits<std::int64_t>::min()}) {
      const Integers list(std::string(name) == "pads" ? 4 : 2, value);
      std::vector<onnx::Attribute> attributes{attribute(name, list)};
      if (std::string(name) != "pads") attributes.push_back(attribute("auto_pad", "SAME_UPPER"));
      for (const char* type : {"Conv", "ConvTranspose"}) {
        if (std::string(type) == "ConvTranspose") attributes.resize(1);
        expect_error<ValueError>(
            [&] {
              run(with_node({"n", type, "", {"x", "w"}, {"y"}, attributes}, {{"w", kernel}}),
                  image);
            },
            {name, "must be positive"});
      }
    }
  }
  expect_error<ShapeError>(
      [&] {
        run(with_node(
                {"n", "Conv", "", {"x", "w"}, {"y"}, {attribute("kernel_shape", Integers{3, 3})}},
                {{"w", kernel}}),
            image);
      },
      {"kernel_shape [3, 3]", "[2, 2]"});
  expect_error<IndexError>(
      [&] {
        run(with_node({"n", "Flatten", "", {"x"}, {"y"}, {attribute("axis", 5)}}), image);
      },
      {"Flatten", "axis 5"});
  expect_error<ShapeError>(
      [&] {
        run(with_node({"n", "Split", "", {"x", "s"}, {"y"}, {attribute("axis", 1)}},
                      {{"s", tensor({2, 2})}}),
            image);
      },
      {"Split", "2 sizes for 1 outputs"});
  expect_error<ValueError>(
      [&] {
        run(with_node({"n", "Unsqueeze", "", {"x", "s"}, {"y"}, {}}, {{"s", tensor({1, -5})}}),
            image);
      },
      {"Unsqueeze", "[1, 1]"});
  expect_error<ShapeError>(
      [&] {
        run(with_node({"n", "TopK", "", {"x", "k"}, {"y"}, {}}, {{"k", zeros({0}, DType::int64)}}),
            image);
      },
      {"one integer"});
  expect_error<ShapeError>(
      [&] {
        run(with_node({"n",
                       "Resize",
                       "",
                       {"x", "", "", "s"},
                       {"y"},
                       {attribute("coordinate_transformation_mode", "asymmetric"),
                        attribute("nearest_mode", "floor")}},
                      {{"s", tensor({std::int64_t{1}, std::int64_t{4},
                                     std::numeric_limits<std::int64_t>::max(), std::int64_t{3}})}}),
            image);
      },
      {"Resize"});
  Model old = with_node({"n",
                         "Pad",
                         "",
                         {"x"},
                         {"y"},
                         {attribute("pads", Integers(8, 0)), attribute("value", 1e300)}});
  old.opset = 9;
  old.graph.inputs[0].dtype = DType::int64;
  expect_error<ValueError>([&] { run(old, image.to(DType::int64)); }, {"Pad", "value", "int64"});
  // Weights of other sizes than the node says.
  expect_error<ShapeError>(
      [&] {
        Model model =
            with_node({"n", "LSTM", "", {"x", "w", "r"}, {"y"}, {attribute("hidden_size", 2)}},
                      {{"w", ones({1, 9, 3})}, {"r", ones({1, 8, 2})}});
        run(model, ones({5, 1, 3}));
      },
      {"[1, 9, 3]", "4 gates", "hidden_size 2"});
}

// Integers to the power of floats, as the operator says.
CHILD_TEST(BadInputOnnx, PowersOfIntegers) {
  const TemporaryDirectory folder;
  Model model =
      with_node({"n", "Pow", "", {"x", "p"}, {"y"}, {}}, {{"p", tensor({0.5, -1.0, 2.0})}});
  model.graph.inputs[0].dtype = DType::int64;
  test_support::write_file(folder / "x.onnx", written(model));
  const Tensor y = load_onnx(folder / "x.onnx")(tensor({10, 1, 5}));
  EXPECT_EQ(y.dtype(), DType::int64);
  EXPECT_EQ(y.to_vector<std::int64_t>(), (std::vector<std::int64_t>{3, 1, 25}));
}

// Numbers that broadcasting or a conversion would accept, but the operator does not.
CHILD_TEST(BadInputOnnx, InputsThatAnOperatorExcludes) {
  const TemporaryDirectory folder;
  const auto path = folder / "x.onnx";
  using onnx::attribute;
  using Constants = std::vector<std::pair<std::string, Tensor>>;
  const auto run = [&](Node node, const Constants& constants, const Tensor& x) {
    Model model = with_node(std::move(node), constants);
    model.graph.inputs[0].dtype = x.dtype();
    test_support::write_file(path, written(model));
    return load_onnx(path)(x);
  };
  const Tensor x = arange(6).to(float32).reshape({2, 3});
  const auto sizes = [](const Tensor& y) { return y.shape(); };
  for (const std::int64_t axis : {-6, -4, 3}) {
    expect_error<IndexError>(
        [&] {
          run({"n", "Unsqueeze", "", {"x", "s"}, {"y"}, {}}, {{"s", tensor({axis})}}, x);
        },
        {"Unsqueeze", std::to_string(axis)});
  }
  EXPECT_EQ(sizes(run({"n", "Unsqueeze", "", {"x", "s"}, {"y"}, {}}, {{"s", tensor({-3})}}, x)),
            (Shape{1, 2, 3}));
  expect_error<DTypeError>(
      [&] {
        run({"n", "Reshape", "", {"x", "s"}, {"y"}, {}}, {{"s", tensor({3.5, 2.0})}}, x);
      },
      {"float", "integers"});
  expect_error<ShapeError>(
      [&] {
        run({"n", "Gemm", "", {"x", "w", "c"}, {"y"}, {}},
            {{"w", ones({3, 2})}, {"c", ones({4, 2, 2})}}, x);
      },
      {"Gemm", "[4, 2, 2]"});
  expect_error<ShapeError>(
      [&] {
        run({"n", "PRelu", "", {"x", "s"}, {"y"}, {}}, {{"s", ones({4, 1, 1})}}, x);
      },
      {"PRelu", "[4, 1, 1]"});
  expect_error<ValueError>(
      [&] {
        run({"n", "Clip", "", {"x", "a"}, {"y"}, {}}, {{"a", ones({3})}}, x);
      },
      {"Clip", "[3]"});
  expect_error<ValueError>(
      [&] {
        run({"n", "Clip", "", {"x", "a"}, {"y"}, {}}, {{"a", scalar(1.0, float64)}}, x);
      },
      {"Clip", "float64"});
  for (const std::int64_t depth : {0, -3}) {
    expect_error<ValueError>(
        [&] {
          run({"n", "OneHot", "", {"x", "d", "v"}, {"y"}, {}},
              {{"d", tensor({depth})}, {"v", tensor({0.0, 1.0})}}, x);
        },
        {"OneHot", "depth"});
  }
  // Windows without padding ignore pads.
  using Integers = std::vector<std::int64_t>;
  EXPECT_EQ(sizes(run({"n",
                       "AveragePool",
                       "",
                       {"x"},
                       {"y"},
                       {attribute("kernel_shape", Integers{2, 2}),
                        attribute("pads", Integers{1, 1, 1, 1}), attribute("auto_pad", "VALID")}},
                      {}, ones({1, 1, 3, 3}))),
            (Shape{1, 1, 2, 2}));
}

// Means of integers are integers, without the rounding of floats.
CHILD_TEST(BadInputOnnx, MeansOfIntegers) {
  const TemporaryDirectory folder;
  const auto mean_of = [&](const Tensor& x) {
    Model model =
        with_node({"n", "ReduceMean", "", {"x"}, {"y"}, {onnx::attribute("keepdims", 0)}});
    model.graph.inputs[0].dtype = x.dtype();
    test_support::write_file(folder / "x.onnx", written(model));
    const Tensor y = load_onnx(folder / "x.onnx")(x);
    EXPECT_EQ(y.dtype(), x.dtype());
    return y.to(DType::int64).item<std::int64_t>();
  };
  constexpr std::int64_t large = (std::int64_t{1} << 40) + 1;
  EXPECT_EQ(mean_of(tensor({large, large + 4})), large + 2);
  EXPECT_EQ(mean_of(tensor({-7, -8})), -7);
  EXPECT_EQ(mean_of(tensor({7, 8})), 7);
  EXPECT_EQ(mean_of(full({3}, (1 << 24) + 1, DType::int32)), (1 << 24) + 1);
  EXPECT_EQ(mean_of(full({300}, 255, DType::uint8)), 255);
}

CHILD_TEST(BadInputOnnx, ShapesWhenItRuns) {
  const TemporaryDirectory folder;
  Model model = small_model();
  model.graph.inputs[0].shape.reset();
  test_support::write_file(folder / "x.onnx", written(model));
  const OnnxModel loaded = load_onnx(folder / "x.onnx");
  EXPECT_EQ(loaded(ones({5, 3})).shape(), (Shape{5, 4}));
  expect_error<ShapeError>(
      [&] {
        loaded(ones({2, 2}));
      },
      {"matmul", "node 'product' (MatMul)", "x.onnx"});
}

CHILD_TEST(BadInputOnnx, Item91OtherFiles) {
  const TemporaryDirectory folder;
  expect_error<IoError>([&] { load_onnx(folder.path()); }, {"load_onnx"});
  expect_error<IoError>([&] { load_onnx(folder / "none.onnx"); }, {"none.onnx"});
  expect_error<IoError>([] { load_onnx("/dev/zero"); }, {"/dev/zero"});
}

}  // namespace
