#include "data/cifar.h"

#include <algorithm>
#include <memory>

#include "core/make_tensor.h"
#include "extensor/data/readers.h"
#include "io/text.h"

namespace extensor {

namespace io {

namespace {

constexpr std::int64_t channels = 3, side = 32;
constexpr std::size_t pixels = channels * side * side;

std::int64_t label_of(const ByteSource& source, std::uint64_t record, const char* what,
                      std::byte found, std::int64_t classes) {
  const auto label = std::to_integer<std::int64_t>(found);
  if (label >= classes) {
    damaged(source.label(), what, " of record ", record, " is ", label, " (allowed: 0 … ",
            classes - 1, ")");
  }
  return label;
}

}  // namespace

data::LabelledImages read_cifar(std::span<const ByteSource* const> sources, const CifarKind& kind) {
  const std::size_t labels = kind.coarse_classes == 0 ? 1 : 2, record = labels + pixels;
  std::uint64_t count = 0;
  for (const ByteSource* source : sources) {
    if (source->size() == 0 || source->size() % record != 0) {
      damaged(source->label(), "has ", source->size(), " bytes (allowed: records of ", record,
              ", at least one)");
    }
    count += source->size() / record;
  }
  const auto total = static_cast<std::int64_t>(count);
  const char* operation = sources.front()->label().c_str();
  data::LabelledImages set{
      detail::make_empty(operation, {total, channels, side, side}, DType::uint8, cpu_device),
      detail::make_empty(operation, {total}, DType::int64, cpu_device),
      {}};
  std::byte* picture = bytes_of(set.images).data();
  auto* label = set.labels.data<std::int64_t>();

  constexpr std::uint64_t together = 64;
  std::vector<std::byte> buffer(together * record);
  for (const ByteSource* source : sources) {
    const std::uint64_t records = source->size() / record;
    for (std::uint64_t first = 0; first < records; first += together) {
      const auto some = static_cast<std::size_t>(std::min(together, records - first));
      source->read(first * record, std::span(buffer).first(some * record));
      const std::byte* at = buffer.data();
      for (std::size_t i = 0; i < some; ++i, at += record, picture += pixels) {
        if (labels == 2) {
          label_of(*source, first + i, "the coarse label", at[0], kind.coarse_classes);
        }
        *label++ = label_of(*source, first + i, "the label", at[labels - 1], kind.classes);
        std::copy_n(at + labels, pixels, picture);
      }
    }
  }
  return set;
}

}  // namespace io

namespace data {

namespace {

using detail::message;

// The directory that contains the files: `directory` itself or the archive's directory `inside`.
std::filesystem::path find_directory(const char* operation, const std::filesystem::path& directory,
                                     const char* inside, const char* file) {
  for (const std::filesystem::path& candidate : {directory, directory / inside}) {
    std::error_code ignored;
    if (std::filesystem::exists(candidate / file, ignored)) return candidate;
  }
  throw IoError(message(operation, ": ", io::in_quotes(directory.native()), " has neither '", file,
                        "' nor '", inside, "/", file, "'"));
}

LabelledImages load(const char* operation, const std::filesystem::path& directory,
                    const std::vector<const char*>& names, const io::CifarKind& kind,
                    const std::vector<std::string>& classes) {
  std::vector<std::unique_ptr<io::FileSource>> files;
  std::vector<const io::ByteSource*> sources;
  files.reserve(names.size());
  sources.reserve(names.size());
  for (const char* name : names) {
    files.push_back(std::make_unique<io::FileSource>(operation, directory / name));
    sources.push_back(files.back().get());
  }
  LabelledImages set = io::read_cifar(sources, kind);
  set.classes = classes;
  return set;
}

const std::vector<std::string>& classes_of_cifar10() {
  static const std::vector<std::string> names = {
      "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
  return names;
}

const std::vector<std::string>& classes_of_cifar100() {
  static const std::vector<std::string> names = {
      "apple",       "aquarium_fish", "baby",      "bear",       "beaver",       "bed",
      "bee",         "beetle",        "bicycle",   "bottle",     "bowl",         "boy",
      "bridge",      "bus",           "butterfly", "camel",      "can",          "castle",
      "caterpillar", "cattle",        "chair",     "chimpanzee", "clock",        "cloud",
      "cockroach",   "couch",         "crab",      "crocodile",  "cup",          "dinosaur",
      "dolphin",     "elephant",      "flatfish",  "forest",     "fox",          "girl",
      "hamster",     "house",         "kangaroo",  "keyboard",   "lamp",         "lawn_mower",
      "leopard",     "lion",          "lizard",    "lobster",    "man",          "maple_tree",
      "motorcycle",  "mountain",      "mouse",     "mushroom",   "oak_tree",     "orange",
      "orchid",      "otter",         "palm_tree", "pear",       "pickup_truck", "pine_tree",
      "plain",       "plate",         "poppy",     "porcupine",  "possum",       "rabbit",
      "raccoon",     "ray",           "road",      "rocket",     "rose",         "sea",
      "seal",        "shark",         "shrew",     "skunk",      "skyscraper",   "snail",
      "snake",       "spider",        "squirrel",  "streetcar",  "sunflower",    "sweet_pepper",
      "table",       "tank",          "telephone", "television", "tiger",        "tractor",
      "train",       "trout",         "tulip",     "turtle",     "wardrobe",     "whale",
      "willow_tree", "wolf",          "woman",     "worm"};
  return names;
}

}  // namespace

ImageSplits load_cifar10(const std::filesystem::path& directory) {
  const char* operation = "load_cifar10";
  const std::filesystem::path place =
      find_directory(operation, directory, "cifar-10-batches-bin", "data_batch_1.bin");
  const auto part = [&](const std::vector<const char*>& names) {
    return load(operation, place, names, io::cifar10, classes_of_cifar10());
  };
  return {part({"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                "data_batch_5.bin"}),
          part({"test_batch.bin"})};
}

ImageSplits load_cifar100(const std::filesystem::path& directory) {
  const char* operation = "load_cifar100";
  const std::filesystem::path place =
      find_directory(operation, directory, "cifar-100-binary", "train.bin");
  const auto part = [&](const char* name) {
    return load(operation, place, {name}, io::cifar100, classes_of_cifar100());
  };
  return {part("train.bin"), part("test.bin")};
}

}  // namespace data

}  // namespace extensor
