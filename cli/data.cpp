// The data of a recipe.
#include "cli/ingredients.h"

namespace extensor::cli {

namespace {

struct Known {
  const char* dataset;
  std::int64_t channels, side;
  std::vector<double> mean, deviation;  // of the training pictures
  std::int64_t crop;                    // pixels that a picture is moved by at most
  bool mirrored;                        // whether its mirror image is of the same class
};

const Known& known(const std::string& dataset) {
  static const Known all[] = {
      {"digits", 1, 28, {0.1379}, {0.2819}, 2, false},
      {"mnist", 1, 28, {0.1307}, {0.3081}, 2, false},
      {"fashion-mnist", 1, 28, {0.2860}, {0.3530}, 2, true},
      {"cifar10", 3, 32, {0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}, 4, true},
      {"cifar100", 3, 32, {0.5071, 0.4866, 0.4409}, {0.2673, 0.2564, 0.2762}, 4, true},
  };
  for (const Known& one : all) {
    if (dataset == one.dataset) return one;
  }
  throw ValueError("'" + dataset + "' has no pictures");
}

constexpr std::int64_t held_out_digits = 5000;

data::ImageSplits splits_of(const Recipe& recipe) {
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
  return data::load_cifar100(recipe.data);
}

Data load_pictures(const Recipe& recipe) {
  data::ImageSplits splits = splits_of(recipe);
  if (recipe.examples > 0 && recipe.examples < splits.train.labels.numel()) {
    splits.train.images = splits.train.images.slice(0, 0, recipe.examples).contiguous();
    splits.train.labels = splits.train.labels.slice(0, 0, recipe.examples).contiguous();
  }
  const Known& pictures = known(recipe.dataset);
  std::vector<data::Transform> steps = steps_of(preparation_of(recipe));
  std::vector<data::Transform> training_steps;
  if (recipe.augment) {
    training_steps.push_back(data::random_crop(pictures.crop));
    if (pictures.mirrored) training_steps.push_back(data::random_horizontal_flip());
  }
  training_steps.insert(training_steps.end(), steps.begin(), steps.end());
  Data all;
  all.classes = splits.test.classes;
  all.training = std::make_shared<data::ImageDataset>(splits.train, std::move(training_steps));
  all.held_out = std::make_shared<data::ImageDataset>(splits.test, std::move(steps));
  all.pictures = splits.test;
  return all;
}

// Windows that do not overlap: each token is predicted once.
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

Data load_text(const Recipe& recipe, std::unique_ptr<data::Tokenizer> tokenizer) {
  if (recipe.data.empty()) throw ValueError("which text? Name its file with --data");
  const std::string text = data::load_text(recipe.data);
  Data all;
  all.tokenizer = tokenizer ? std::move(tokenizer) : make_tokenizer(recipe, text);
  const Tensor tokens = from_data(all.tokenizer->encode(text));
  // The last tenth is held out.
  const std::int64_t first = tokens.numel() - tokens.numel() / 10;
  if (tokens.numel() - first <= recipe.block || first <= recipe.block) {
    throw ValueError("'" + recipe.data + "' has " + std::to_string(tokens.numel()) +
                     " tokens, too few for --block " + std::to_string(recipe.block) +
                     " (a tenth of them is held out, which must be longer than a block)");
  }
  all.training = std::make_shared<data::TextDataset>(tokens.slice(0, 0, first), recipe.block);
  all.held_out = std::make_shared<Windows>(
      data::TextDataset(tokens.slice(0, first, tokens.numel()), recipe.block), recipe.block);
  return all;
}

}  // namespace

Preparation preparation_of(const Recipe& recipe) {
  const Known& pictures = known(recipe.dataset);
  Preparation preparation{pictures.channels, pictures.side, pictures.side, pictures.mean,
                          pictures.deviation};
  // VGG halves its pictures five times.
  constexpr std::int64_t least = 32;
  if (recipe.model == "vgg16" && pictures.side < least)
    preparation.height = preparation.width = least;
  return preparation;
}

std::vector<data::Transform> steps_of(const Preparation& preparation) {
  return {data::resize(preparation.height, preparation.width),
          data::normalize(preparation.mean, preparation.deviation)};
}

Data load_data(const Recipe& recipe, std::unique_ptr<data::Tokenizer> tokenizer) {
  return recipe.dataset == "text" ? load_text(recipe, std::move(tokenizer)) : load_pictures(recipe);
}

}  // namespace extensor::cli
