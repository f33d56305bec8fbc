// The complete configuration of a run. It is saved in the run's directory, and a run can be
// repeated from it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace extensor::cli {

// The default maximum side of the user's images.
inline constexpr std::int64_t usual_side = 64;

struct Recipe {
  std::string dataset, data, model;
  std::string target, task = "auto", categories, ignore, separator = "comma";
  std::int64_t examples = 0, side = 0, max_pixels = std::int64_t{1} << 26;
  std::int64_t epochs = 5, steps = 0, batch_size = 64, accumulate = 1;
  std::string optimizer = "adamw", schedule = "one-cycle";
  double lr = 2e-3, weight_decay = 0.01, momentum = 0.9, beta2 = 0.999;
  std::int64_t warmup = 0;
  double clip_norm = 0, dropout = 0;
  bool augment = true;
  std::string precision = "float32", tokenizer = "characters";
  std::int64_t vocabulary = 512, block = 64, layers = 4, heads = 4, width = 128;
  std::int64_t evaluate_every = 0, checkpoint_every = 0, keep_checkpoints = 2, patience = 0;
  std::string device = "cpu";
  bool shard_optimizer = false;
  std::int64_t workers = 0, threads = 0;
  std::uint64_t seed = 0;
};

// The values of --optimizer come from the table of optimizers: "one of: sgd adam …".
inline constexpr const char* optimizer_help = "one of:"
#define OPTIMIZER(name, ...) " " #name
#include <extensor/tables/optimizers.def>
    ;

// Visits every field with its name in files (on the command line with dashes), its value and its
// description. Options, files and help pages are all generated from this list.
template <class AnyRecipe, class Visit>
void visit_fields(AnyRecipe& r, Visit&& visit) {
  visit("dataset", r.dataset, "what is learned");
  visit("data", r.data, "the directory or file that the data is in");
  visit("model", r.model, "mlp, lenet, resnet18, vgg16 or transformer");
  visit("target", r.target, "the column that is predicted (table)");
  visit("task", r.task, "classification, regression, or auto: as the target column suggests");
  visit("categories", r.categories, "columns of numbers that are categories: a,b,c (table)");
  visit("ignore", r.ignore, "columns that are not used: a,b,c (table)");
  visit("separator", r.separator, "comma, semicolon, tab or bar (table)");
  visit("examples", r.examples, "how many to learn from; 0: all that are not for validation");
  visit("side", r.side,
        "height and width of your own images; 0: as the first is, or 64 where it is larger");
  visit("max_pixels", r.max_pixels, "refuse image files of your own with more pixels than this");
  visit("epochs", r.epochs, "how often each example is seen");
  visit("steps", r.steps, "end after so many steps; 0: with the epochs");
  visit("batch_size", r.batch_size, "examples in a batch");
  visit("accumulate", r.accumulate, "batches whose gradients make one step");
  visit("optimizer", r.optimizer, optimizer_help);
  visit("lr", r.lr, "learning rate, the highest of the schedule");
  visit("schedule", r.schedule, "constant, cosine or one-cycle");
  visit("warmup", r.warmup, "steps in which the rate grows to its height (cosine, constant)");
  visit("weight_decay", r.weight_decay, "how much weights shrink by themselves");
  visit("momentum", r.momentum, "of optimizers that have one, or their first beta");
  visit("beta2", r.beta2, "the second beta of optimizers that have two");
  visit("clip_norm", r.clip_norm, "gradients are scaled to this norm at most; 0: they are not");
  visit("dropout", r.dropout, "part of the activations left out (transformer)");
  visit("augment", r.augment, "move and mirror the images: true or false");
  visit("precision", r.precision, "float32, or bfloat16 or float16 for products in half the bits");
  visit("tokenizer", r.tokenizer, "characters or byte-pairs (text)");
  visit("vocabulary", r.vocabulary, "how many byte pair tokens are learned");
  visit("block", r.block, "tokens that are read at once (transformer)");
  visit("layers", r.layers, "blocks of the transformer, or hidden layers of a table's mlp");
  visit("heads", r.heads, "heads of its attention");
  visit("width", r.width, "width of the transformer, or of the hidden layers of the mlp");
  visit("evaluate_every", r.evaluate_every, "steps between evaluations; 0: every epoch");
  visit("checkpoint_every", r.checkpoint_every, "steps between checkpoints; 0: every epoch");
  visit("keep_checkpoints", r.keep_checkpoints, "how many checkpoints stay");
  visit("patience", r.patience, "end after so many evaluations without a better one; 0: do not");
  visit("device", r.device,
        "where the network is trained: cpu, cuda or cuda:N; with several processes, cuda is a GPU "
        "for each");
  visit("shard_optimizer", r.shard_optimizer,
        "each process holds its part of the optimizer's states: true or false");
  visit("workers", r.workers, "threads that prepare batches ahead; 0: those that compute do it");
  visit("threads", r.threads, "threads that compute; 0: one for each core");
  visit("seed", r.seed, "of the weights, the order and all that is random");
}

// The values of `dataset`. Files may also have "pictures", the old name of "images".
const std::vector<std::string>& dataset_names();

// Values by field name, as text.
using GivenFields = std::map<std::string, std::string>;

// Starts with the defaults of the dataset and model, then applies the values of the file and of the
// command line. Throws ValueError with the field, the value and what is allowed, and with the
// nearest word for a mistyped one.
Recipe make_recipe(const GivenFields& file, const GivenFields& command_line);

// The fields of a JSON object in a file. Throws FormatError, also for a duplicate key, and IoError,
// also for anything but a regular file.
GivenFields read_fields(const std::filesystem::path& path);

// Every field that has an effect on this run, in the order of visit_fields.
std::vector<std::pair<std::string, std::string>> fields_of(const Recipe& recipe);
nlohmann::ordered_json json_of(const Recipe& recipe);

}  // namespace extensor::cli
