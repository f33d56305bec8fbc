#include <algorithm>
#include <array>
#include <string_view>

#include "data/mnist.h"

#include "core/make_tensor.h"
#include "data/idx.h"
#include "extensor/data/readers.h"
#include "io/text.h"

namespace extensor::data {

using detail::message;

namespace {

constexpr std::array<const char*, 4> names = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                              "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

// The path of the plain or the compressed file. Throws IoError if neither exists.
std::filesystem::path find_file(const char* operation, const std::filesystem::path& directory,
                                const std::string& name) {
  for (const std::string& candidate : {name, name + ".gz"}) {
    std::error_code ignored;
    std::filesystem::path path = directory / candidate;
    if (std::filesystem::exists(path, ignored)) return path;
  }
  throw IoError(message(operation, ": ", io::in_quotes(directory.native()), " has neither '", name,
                        "' nor '", name, ".gz'"));
}

Tensor read_bytes(const io::ByteSource& source, std::int64_t rank) {
  Tensor tensor = io::read_idx(source);
  bool right = tensor.dtype() == DType::uint8 && tensor.ndim() == rank;
  for (std::int64_t axis = 1; right && axis < rank; ++axis) right = tensor.size(axis) > 0;
  if (!right) {
    io::damaged(source.label(), "holds ", tensor.dtype(), " of shape ", tensor.shape(),
                " (allowed: uint8 of ", rank == 1 ? "[count])" : "[count, height, width])");
  }
  return tensor;
}

Tensor read_labels(const io::ByteSource& source, std::size_t class_count) {
  const Tensor bytes = read_bytes(source, 1);
  Tensor labels =
      detail::make_empty(source.label().c_str(), bytes.shape(), DType::int64, cpu_device);
  const auto* from = bytes.data<std::uint8_t>();
  auto* to = labels.data<std::int64_t>();
  for (std::int64_t i = 0; i < bytes.numel(); ++i) {
    if (class_count != 0 && from[i] >= class_count) {
      io::damaged(source.label(), "label ", i, " is ", from[i], " (allowed: 0 … ", class_count - 1,
                  ")");
    }
    to[i] = from[i];
  }
  return labels;
}

}  // namespace

bool has_idx_splits(const std::filesystem::path& directory) {
  std::error_code ignored;
  return std::ranges::any_of(names, [&](const std::string& name) {
    return std::filesystem::exists(directory / name, ignored) ||
           std::filesystem::exists(directory / (name + ".gz"), ignored);
  });
}

ImageSplits load_idx_splits(const char* operation, const std::filesystem::path& directory,
                            const std::vector<std::string>& classes) {
  // Find all four files before reading any of them.
  std::array<std::filesystem::path, 4> paths;
  for (std::size_t i = 0; i < names.size(); ++i) {
    paths[i] = find_file(operation, directory, names[i]);
  }
  const auto part = [&](const std::filesystem::path& pictures,
                        const std::filesystem::path& labels) {
    LabelledImages set;
    const io::FileSource source(operation, labels);
    set.labels = read_labels(source, classes.size());
    set.images = read_bytes(io::FileSource(operation, pictures), 3);
    if (set.images.size(0) != set.labels.size(0)) {
      io::damaged(source.label(), "has ", set.labels.size(0), " labels for the ",
                  set.images.size(0), " images of ", io::in_quotes(pictures.native()));
    }
    set.classes = classes;
    return set;
  };
  return {part(paths[0], paths[1]), part(paths[2], paths[3])};
}

ImageSplits load_mnist(const std::filesystem::path& directory) {
  return load_idx_splits("load_mnist", directory,
                         {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"});
}

ImageSplits load_fashion_mnist(const std::filesystem::path& directory) {
  return load_idx_splits("load_fashion_mnist", directory,
                         {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt",
                          "Sneaker", "Bag", "Ankle boot"});
}

}  // namespace extensor::data
