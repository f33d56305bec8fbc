// Loads the data of a recipe.
#include <algorithm>
#include <array>
#include <cmath>

#include "cli/run_parts.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "io/text.h"

namespace extensor::cli {

namespace {

constexpr std::int64_t held_out_digits = 5000;

data::ImageSplits splits_of(const Recipe& recipe, const Pictures* known, bool all_held_out) {
  if (recipe.dataset == "digits") {
    const std::int64_t count = recipe.examples == 0 ? 60'000 : recipe.examples;
    return {data::digits(count, 1), data::digits(held_out_digits, 1, count)};
  }
  if (recipe.data.empty()) {
    throw ValueError("where are the files of " + recipe.dataset +
                     "? Name their directory with --data");
  }
  if (recipe.dataset == "mnist") return data::load_mnist(recipe.data);
  if (recipe.dataset == "fashion-mnist") return data::load_fashion_mnist(recipe.data);
  if (recipe.dataset == "cifar10") return data::load_cifar10(recipe.data);
  if (recipe.dataset == "cifar100") return data::load_cifar100(recipe.data);
  data::ImageFolderOptions options{.height = recipe.side,
                                   .width = recipe.side,
                                   .most = usual_side,
                                   .max_pixels = recipe.max_pixels};
  if (known != nullptr) {
    options.channels = known->channels;
    options.classes = known->classes;
    options.hold_out = !all_held_out;
    // Evaluation data may begin with an image of any size, so it gets the size of the run. The
    // run's training data gets the same size as when the run began.
    if (all_held_out) {
      options.height = known->height;
      options.width = known->width;
    }
  }
  return data::load_image_folder(recipe.data, options);
}

// Computes mean and deviation over all images, exactly, from counts of byte values.
void measure(const Tensor& images, Pictures& pictures) {
  const std::int64_t plane = images.size(-2) * images.size(-1);
  std::vector<std::array<std::int64_t, 256>> counts(static_cast<std::size_t>(pictures.channels));
  const auto* byte = images.data<std::uint8_t>();
  for (std::int64_t k = 0; k < images.size(0); ++k) {
    for (auto& of_channel : counts) {
      for (std::int64_t i = 0; i < plane; ++i) ++of_channel[*byte++];
    }
  }
  const auto all = static_cast<double>(images.size(0) * plane);
  for (const auto& of_channel : counts) {
    double mean = 0, variance = 0;
    for (std::size_t value = 0; value < 256; ++value) {
      mean += static_cast<double>(of_channel[value]) / all * static_cast<double>(value) / 255;
    }
    for (std::size_t value = 0; value < 256; ++value) {
      const double from_mean = static_cast<double>(value) / 255 - mean;
      variance += static_cast<double>(of_channel[value]) / all * from_mean * from_mean;
    }
    pictures.mean.push_back(mean);
    pictures.deviation.push_back(variance > 0 ? std::sqrt(variance) : 1);
  }
}

Pictures pictures_of(const Recipe& recipe, const data::LabelledImages& training) {
  const Tensor& images = training.images;
  Pictures pictures{.channels = images.ndim() == 4 ? images.size(1) : 1,
                    .height = images.size(-2),
                    .width = images.size(-1),
                    .mean = {},
                    .deviation = {},
                    .classes = training.classes};
  measure(images, pictures);
  // The smallest sides that the models accept: VGG halves its input five times; LeNet pads it and
  // halves it twice.
  const std::int64_t least = recipe.model == "vgg16" ? 32 : recipe.model == "lenet" ? 12 : 1;
  pictures.height = std::max(pictures.height, least);
  pictures.width = std::max(pictures.width, least);
  return pictures;
}

// Class names are stored in JSON files, which are UTF-8.
void check_classes(const Recipe& recipe, const std::vector<std::string>& classes) {
  for (const std::string& name : classes) {
    if (io::is_utf8(name)) continue;
    throw ValueError(io::in_quotes(recipe.data) + " has a class directory " + io::in_quotes(name) +
                     ", whose name is not UTF-8 (allowed: UTF-8; rename the directory)");
  }
}

Data load_image_folder(const Recipe& recipe, std::optional<Language> language, bool all_held_out,
                       const FingerprintCheck& check) {
  const Pictures* known = language ? &*language->pictures : nullptr;
  data::ImageSplits splits = splits_of(recipe, known, all_held_out);
  check_classes(recipe, splits.train.classes);
  if (splits.train.classes.size() < 2) {
    throw ValueError("'" + recipe.data + "' has one class, " +
                     io::in_quotes(splits.train.classes.at(0)) + " (allowed: 2 or more)");
  }
  if (recipe.examples > 0 && recipe.examples < splits.train.labels.numel()) {
    splits.train.images = splits.train.images.slice(0, 0, recipe.examples).contiguous();
    splits.train.labels = splits.train.labels.slice(0, 0, recipe.examples).contiguous();
  }
  Data all;
  all.fingerprint = {fingerprint_of("training images", splits.train.images),
                     fingerprint_of("training labels", splits.train.labels),
                     fingerprint_of("validation images", splits.test.images),
                     fingerprint_of("validation labels", splits.test.labels)};
  if (check) check(all.fingerprint);
  if (language) {
    all.language = *std::move(language);
  } else {
    all.language.pictures = pictures_of(recipe, splits.train);
  }
  std::vector<data::Transform> steps = steps_of(*all.language.pictures);
  std::vector<data::Transform> training_steps;
  if (recipe.augment) {
    const std::int64_t part = recipe.dataset.starts_with("cifar") ? 8 : 14;  // of a side: 1/part
    const std::int64_t side = std::min(splits.train.images.size(-1), splits.train.images.size(-2));
    training_steps.push_back(data::random_crop(std::max<std::int64_t>(1, side / part)));
    // Only where a mirror image is certain to have the same class, unlike letters.
    const bool mirrored = recipe.dataset.starts_with("cifar") || recipe.dataset == "fashion-mnist";
    if (mirrored) training_steps.push_back(data::random_horizontal_flip());
  }
  training_steps.insert(training_steps.end(), steps.begin(), steps.end());
  all.training = std::make_shared<data::ImageDataset>(splits.train, std::move(training_steps));
  all.held_out = std::make_shared<data::ImageDataset>(splits.test, std::move(steps));
  all.shown = splits.test;
  return all;
}

// Windows without overlap, so that each token is predicted once.
class Windows final : public data::Dataset {
 public:
  Windows(data::TextDataset windows, std::int64_t block)
      : windows_(std::move(windows)), block_(block) {}
  std::int64_t size() const override { return (windows_.size() - 1) / block_ + 1; }
  data::Batch batch(const data::Request& request) const override {
    std::vector<std::int64_t> starts(request.indices.begin(), request.indices.end());
    for (std::int64_t& start : starts) start *= block_;
    data::Batch batch = windows_.batch({starts, request.seed, request.epoch});
    batch.indices.assign(request.indices.begin(), request.indices.end());
    return batch;
  }

 private:
  data::TextDataset windows_;
  std::int64_t block_;
};

std::unique_ptr<data::Tokenizer> make_tokenizer(const Recipe& recipe, const std::string& text) {
  if (recipe.tokenizer == "characters") return std::make_unique<data::CharacterTokenizer>(text);
  return std::make_unique<data::BytePairTokenizer>(
      data::BytePairTokenizer::train(text, recipe.vocabulary));
}

Data load_text(const Recipe& recipe, std::optional<Language> language, bool all_held_out,
               const FingerprintCheck& check) {
  if (recipe.data.empty()) throw ValueError("which text? Name its file with --data");
  const std::string text = data::load_text(recipe.data);
  if (text.empty()) throw ValueError("'" + recipe.data + "' is empty");
  Data all;
  all.fingerprint = {fingerprint_of("text", text)};
  if (check) check(all.fingerprint);
  if (language) {
    all.language = *std::move(language);
  } else {
    all.language.tokenizer = make_tokenizer(recipe, text);
  }
  const Tensor tokens = from_data(all.language.tokenizer->encode(text));
  // The last tenth is for validation.
  const std::int64_t count = tokens.numel();
  const std::int64_t first = all_held_out ? 0 : count - count / 10;
  if (count - first <= recipe.block || (first <= recipe.block && !all_held_out)) {
    const std::int64_t least = (recipe.block + 1) * (all_held_out ? 1 : 10);
    throw ValueError(
        "'" + recipe.data + "' has " + std::to_string(count) + " tokens, too few for --block " +
        std::to_string(recipe.block) + " (allowed: " + std::to_string(least) + " or more" +
        (all_held_out ? ")" : ", for a tenth is for validation; or a smaller --block)"));
  }
  all.training = std::make_shared<data::TextDataset>(
      tokens.slice(0, 0, all_held_out ? count : first), recipe.block);
  all.held_out = std::make_shared<Windows>(
      data::TextDataset(tokens.slice(0, first, count), recipe.block), recipe.block);
  return all;
}

}  // namespace

std::vector<data::Transform> steps_of(const Pictures& pictures) {
  return {data::resize(pictures.height, pictures.width),
          data::normalize(pictures.mean, pictures.deviation)};
}

Data load_data(const Recipe& recipe, std::optional<Language> language, bool all_held_out,
               const FingerprintCheck& check) {
  if (recipe.dataset == "table") {
    return load_table(recipe, std::move(language), all_held_out, check);
  }
  return recipe.dataset == "text"
             ? load_text(recipe, std::move(language), all_held_out, check)
             : load_image_folder(recipe, std::move(language), all_held_out, check);
}

std::string class_list(const std::vector<std::string>& classes) {
  std::string text = std::to_string(classes.size()) + " classes";
  constexpr std::size_t most = 12;
  for (std::size_t k = 0; k < classes.size(); ++k) {
    if (k < most) text += (k == 0 ? ": " : ", ") + io::printable(classes[k]);
    if (k == most) text += ", …";
  }
  return text;
}

std::string described(const Data& data) {
  const std::string parts =
      " to learn from, " + with_commas(data.held_out->size()) + " for validation; ";
  if (data.language.tokenizer) {
    return counted(data.training->size(), "window") + parts +
           counted(data.language.tokenizer->size(), "token");
  }
  if (data.language.table) {
    return counted(data.training->size(), "row") + parts + described_table(data);
  }
  const Pictures& pictures = *data.language.pictures;
  return counted(data.training->size(), "image") + parts + std::to_string(pictures.height) + " × " +
         std::to_string(pictures.width) + (pictures.channels == 3 ? " in colour, " : ", ") +
         class_list(pictures.classes);
}

}  // namespace extensor::cli
