// Loads directories of the user's images.
#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

#include "core/check.h"
#include "core/make_tensor.h"
#include "core/parallel.h"
#include "data/mnist.h"
#include "extensor/creation.h"
#include "extensor/data/readers.h"
#include "io/text.h"

namespace extensor::data {

using detail::message;
using Path = std::filesystem::path;

namespace {

constexpr const char* operation = "load_image_folder";

bool is_folder(const Path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

bool is_picture(const Path& path) {
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  constexpr std::string_view endings[] = {".png", ".jpg", ".jpeg", ".pgm", ".ppm", ".pnm"};
  return std::ranges::find(endings, ending) != std::end(endings);
}

// The wanted entries of a directory, sorted by name, without hidden files.
std::vector<Path> entries(const Path& directory, const std::function<bool(const Path&)>& wanted) {
  std::vector<Path> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error)) {
    const Path& path = at->path();
    if (!path.filename().native().starts_with('.') && wanted(path)) paths.push_back(path);
  }
  if (error) {
    throw IoError(message(operation, ": ", io::in_quotes(directory.native()),
                          " cannot be read: ", error.message()));
  }
  std::ranges::sort(paths);
  return paths;
}

// ---- files --------------------------------------------------------------------------------------

struct Listed {
  std::vector<Path> files;
  std::vector<std::int64_t> labels;

  // Interleaves the classes, so that every prefix of the list is as balanced as possible.
  explicit Listed(const std::vector<std::vector<Path>>& of_classes) {
    std::size_t most = 0;
    for (const std::vector<Path>& list : of_classes) most = std::max(most, list.size());
    for (std::size_t k = 0; k < most; ++k) {
      for (std::size_t label = 0; label < of_classes.size(); ++label) {
        if (k >= of_classes[label].size()) continue;
        files.push_back(of_classes[label][k]);
        labels.push_back(static_cast<std::int64_t>(label));
      }
    }
  }
};

// The directories of classes: those that contain images.
std::vector<Path> class_directories(const Path& directory) {
  return entries(directory,
                 [](const Path& path) { return is_folder(path) && !image_files(path).empty(); });
}

std::size_t label_of(const Path& directory, const std::vector<std::string>& classes) {
  const auto found = std::ranges::find(classes, directory.filename().string());
  if (found == classes.end()) {
    std::string all;
    for (const std::string& name : classes) all += (all.empty() ? "" : ", ") + io::printable(name);
    throw ValueError(message(operation, ": ", io::in_quotes(directory.native()),
                             " is none of the classes (", all, ")"));
  }
  return static_cast<std::size_t>(found - classes.begin());
}

std::vector<std::string> names_of(const std::vector<Path>& directories) {
  std::vector<std::string> names;
  names.reserve(directories.size());
  for (const Path& path : directories) names.push_back(path.filename().string());
  return names;
}

// Whether image k of a class is for validation: every tenth, or the last one of fewer than ten.
bool is_held_out(std::size_t k, std::size_t count) {
  return k % 10 == 9 || (count < 10 && count > 1 && k + 1 == count);
}

[[noreturn]] void refuse(const Path& directory, const char* what) {
  throw IoError(message(operation, ": ", io::in_quotes(directory.native()), " has ", what,
                        " (allowed: a directory for each class with .png, .jpg, .pgm or .ppm files "
                        "in it, train and test with such directories, or the four IDX files)"));
}

// Lists the training and validation files, and sets `classes` if it is empty.
std::pair<Listed, Listed> list(const Path& directory, std::vector<std::string>& classes,
                               bool hold_out) {
  const bool is_split = is_folder(directory / "train") && is_folder(directory / "test");
  const std::vector<Path> found = class_directories(is_split ? directory / "train" : directory);
  if (classes.empty()) classes = names_of(found);
  std::vector<std::vector<Path>> training(classes.size()), held_out(classes.size());
  for (const Path& path : found) {
    const std::size_t label = label_of(path, classes);
    const std::vector<Path> files = image_files(path);
    for (std::size_t k = 0; k < files.size(); ++k) {
      const bool apart = !is_split && hold_out && is_held_out(k, files.size());
      (apart ? held_out : training)[label].push_back(files[k]);
    }
  }
  if (!is_split && !hold_out) held_out = training;
  if (is_split) {
    for (const Path& path : class_directories(directory / "test")) {
      held_out[label_of(path, classes)] = image_files(path);
    }
  }
  std::pair<Listed, Listed> parts{Listed(training), Listed(held_out)};
  if (parts.first.files.empty()) {
    refuse(directory, image_files(directory).empty() ? "no images" : "images of no class");
  }
  if (parts.second.files.empty()) refuse(directory, "no images left for validation");
  return parts;
}

// ---- sizes --------------------------------------------------------------------------------------

struct Size {
  std::int64_t channels, height, width;

  // The size of an image [channels, height, width] or [height, width].
  explicit Size(const Tensor& picture)
      : channels(picture.ndim() == 3 ? picture.size(0) : 1),
        height(picture.size(-2)),
        width(picture.size(-1)) {}
  bool operator==(const Size&) const = default;
};

Size wanted_size(const Tensor& first, const ImageFolderOptions& options) {
  Size size(first);
  const std::int64_t longest = std::max(size.height, size.width);
  if (options.most > 0 && longest > options.most) {
    const double part = static_cast<double>(options.most) / static_cast<double>(longest);
    for (std::int64_t* side : {&size.height, &size.width}) {
      *side = std::max<std::int64_t>(1, std::llround(part * static_cast<double>(*side)));
    }
  }
  if (options.height > 0) size.height = options.height;
  if (options.width > 0) size.width = options.width;
  if (options.channels > 0) size.channels = options.channels;
  return size;
}

// Resizes and converts `picture` and writes its bytes to `to`.
void fit(const Tensor& picture, const Size& wanted, std::uint8_t* to) {
  const Size size(picture);
  const auto* from = picture.data<std::uint8_t>();
  if (size == wanted) {
    std::copy_n(from, picture.numel(), to);
    return;
  }
  Image image{size.channels, size.height, size.width, {}};
  image.pixels.assign(from, from + picture.numel());
  Draws none(0, 0, 0);
  if (wanted.channels == 1) grayscale()(image, none);
  resize(wanted.height, wanted.width)(image, none);
  const auto plane = static_cast<std::size_t>(wanted.height * wanted.width);
  for (std::int64_t c = 0; c < wanted.channels; ++c) {
    const auto source = static_cast<std::size_t>(std::min(c, image.channels - 1)) * plane;
    for (std::size_t i = 0; i < plane; ++i) {
      *to++ =
          static_cast<std::uint8_t>(std::clamp(std::lround(image.pixels[source + i]), 0L, 255L));
    }
  }
}

// A batch of `picture(k)` for k below `count`, all brought to `size`.
Tensor fitted(std::int64_t count, const Size& size,
              const std::function<Tensor(std::int64_t)>& picture) {
  Tensor all = detail::make_empty(operation, {count, size.channels, size.height, size.width},
                                  DType::uint8, cpu_device);
  auto* to = all.data<std::uint8_t>();
  const std::int64_t bytes = size.channels * size.height * size.width;
  constexpr std::int64_t grain = 4;
  detail::parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k) fit(picture(k), size, to + k * bytes);
  });
  return all;
}

LabelledImages loaded(const Listed& listed, const Size& size,
                      const std::vector<std::string>& classes, const ImageOptions& options) {
  const auto picture = [&](std::int64_t k) {
    return load_image(listed.files[static_cast<std::size_t>(k)], options);
  };
  return {fitted(std::ssize(listed.files), size, picture), from_data(listed.labels).to(cpu_device),
          classes};
}

// Class names "0", "1", … up to the highest label.
std::vector<std::string> numbered_classes(const ImageSplits& splits) {
  std::int64_t most = -1;
  for (const Tensor& labels : {splits.train.labels, splits.test.labels}) {
    const auto* label = labels.data<std::int64_t>();
    for (std::int64_t k = 0; k < labels.numel(); ++k) most = std::max(most, label[k]);
  }
  std::vector<std::string> names;
  for (std::int64_t k = 0; k <= most; ++k) names.push_back(std::to_string(k));
  return names;
}

ImageSplits load_idx_pictures(const Path& directory, const ImageFolderOptions& options) {
  ImageSplits splits = load_idx_splits(operation, directory, options.classes);
  if (splits.train.labels.numel() == 0 || splits.test.labels.numel() == 0) {
    refuse(directory, "IDX files without images");
  }
  const std::vector<std::string> classes =
      options.classes.empty() ? numbered_classes(splits) : options.classes;
  const Size size = wanted_size(splits.train.images[0], options);
  for (LabelledImages* part : {&splits.train, &splits.test}) {
    const Tensor images = part->images;
    part->classes = classes;
    if (Size(images[0]) == size) continue;
    part->images =
        fitted(images.size(0), size, [&](std::int64_t k) { return images[k].contiguous(); });
  }
  return splits;
}

}  // namespace

std::vector<Path> image_files(const Path& directory) {
  return entries(directory, [](const Path& path) { return is_picture(path) && !is_folder(path); });
}

ImageSplits load_image_folder(const Path& directory, const ImageFolderOptions& options) {
  for (const std::int64_t value : {options.height, options.width, options.most}) {
    if (value < 0) {
      throw ValueError(message(operation, ": a size is ", value, " (allowed: 0 or more)"));
    }
  }
  if (options.channels != 0 && options.channels != 1 && options.channels != 3) {
    throw ValueError(message(operation, ": channels is ", options.channels, " (allowed: 0, 1, 3)"));
  }
  if (has_idx_splits(directory)) return load_idx_pictures(directory, options);
  std::vector<std::string> classes = options.classes;
  const auto [train, test] = list(directory, classes, options.hold_out);
  const ImageOptions image{.max_pixels = options.max_pixels};
  const Size size = wanted_size(load_image(train.files.front(), image), options);
  return {loaded(train, size, classes, image), loaded(test, size, classes, image)};
}

}  // namespace extensor::data
