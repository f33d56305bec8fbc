// Datasets made of others: the concatenation of several, and random parts of one.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/check.h"
#include "core/make_tensor.h"
#include "data/order_bits.h"
#include "data/request.h"
#include "extensor/data/dataset.h"
#include "io/byte_source.h"
#include "io/check_tensors.h"

namespace extensor::data {

using detail::message;

namespace {

// The part of a batch that one dataset provides, and the positions of its rows in the batch.
struct Piece {
  std::size_t dataset;
  std::vector<std::size_t> positions;
  Batch batch;
};

// Puts the rows of field `number` of all pieces in order.
Tensor merged(const std::vector<Piece>& pieces, std::size_t count,
              const std::vector<std::vector<Tensor>>& fields, std::size_t number,
              const char* kind) {
  const Tensor& first = fields[0][number];
  Shape shape = first.shape();
  for (std::size_t k = 0; k < pieces.size(); ++k) {
    const Tensor& x = fields[k][number];
    const auto place = [&] {
      return message("ConcatDataset: ", kind, " of dataset ", pieces[k].dataset);
    };
    io::check_tensors(place(), x);
    if (x.dtype() != first.dtype()) {
      throw DTypeError(message(place(), " are ", x.dtype(), ", those of dataset ",
                               pieces[0].dataset, " are ", first.dtype()));
    }
    Shape expected = shape;
    if (!expected.empty()) expected[0] = static_cast<std::int64_t>(pieces[k].positions.size());
    if (shape.empty() || x.shape() != expected) {
      throw ShapeError(message(place(), " have shape ", x.shape(), ", those of dataset ",
                               pieces[0].dataset, " have ", first.shape(),
                               " (allowed: one row for each example, all of the same shape)"));
    }
  }
  shape[0] = static_cast<std::int64_t>(count);
  Tensor result = detail::make_empty("ConcatDataset", shape, first.dtype(), cpu_device);
  const std::size_t row = result.nbytes() / count;
  std::byte* to = io::bytes_of(result).data();
  for (std::size_t k = 0; k < pieces.size(); ++k) {
    const Tensor dense = io::dense(fields[k][number]);
    const std::byte* from = io::bytes_of(dense).data();
    for (const std::size_t position : pieces[k].positions) {
      copy_row(to + position * row, from, row);
      from += row;
    }
  }
  return result;
}

// Merges the inputs or the targets of all pieces.
std::vector<Tensor> merged(const std::vector<Piece>& pieces, std::size_t count,
                           std::vector<Tensor> (Batch::*fields_of)() const, const char* kind) {
  std::vector<std::vector<Tensor>> fields;
  for (const Piece& piece : pieces) {
    fields.push_back((piece.batch.*fields_of)());
    if (fields.back().size() != fields[0].size()) {
      throw ValueError(message("ConcatDataset: dataset ", piece.dataset, " has ",
                               fields.back().size(), " ", kind, ", dataset ", pieces[0].dataset,
                               " has ", fields[0].size(), " (allowed: the same number)"));
    }
  }
  std::vector<Tensor> result;
  for (std::size_t j = 0; j < fields[0].size(); ++j) {
    result.push_back(merged(pieces, count, fields, j, kind));
  }
  return result;
}

// Example k of every dataset would otherwise have the same draws.
std::uint64_t seed_of(std::uint64_t seed, std::size_t dataset) {
  return seed + static_cast<std::uint64_t>(dataset) * 0x9e3779b97f4a7c15U;
}

}  // namespace

ConcatDataset::ConcatDataset(std::vector<std::shared_ptr<const Dataset>> datasets)
    : datasets_(std::move(datasets)) {
  std::int64_t end = 0;
  for (std::size_t k = 0; k < datasets_.size(); ++k) {
    if (datasets_[k] == nullptr) {
      throw ValueError(message("ConcatDataset: dataset ", k, " is null"));
    }
    if (__builtin_add_overflow(end, datasets_[k]->size(), &end)) {
      throw ValueError("ConcatDataset: there are 2^63 examples or more (allowed: fewer)");
    }
    ends_.push_back(end);
  }
}

Batch ConcatDataset::batch(const Request& request) const {
  check_request("ConcatDataset", request, size());
  if (request.indices.empty()) {
    throw ValueError("ConcatDataset: no example is asked for (allowed: 1 or more)");
  }
  std::vector<Piece> pieces;
  std::vector<std::vector<std::int64_t>> indices;  // of each piece, in its dataset
  for (std::size_t k = 0; k < request.indices.size(); ++k) {
    const std::int64_t index = request.indices[k];
    const auto found = std::ranges::upper_bound(ends_, index);
    const auto dataset = static_cast<std::size_t>(found - ends_.begin());
    auto piece = std::ranges::find(pieces, dataset, &Piece::dataset);
    if (piece == pieces.end()) {
      piece = pieces.insert(pieces.end(), Piece{dataset, {}, {}});
      indices.emplace_back();
    }
    piece->positions.push_back(k);
    indices[static_cast<std::size_t>(piece - pieces.begin())].push_back(
        index - (dataset == 0 ? 0 : ends_[dataset - 1]));
  }
  for (std::size_t k = 0; k < pieces.size(); ++k) {
    const std::size_t dataset = pieces[k].dataset;
    pieces[k].batch =
        datasets_[dataset]->batch({indices[k], seed_of(request.seed, dataset), request.epoch});
  }
  if (pieces.size() == 1) {
    pieces[0].batch.indices = indices_of(request);
    return std::move(pieces[0].batch);
  }
  std::vector<Tensor> inputs = merged(pieces, request.indices.size(), &Batch::all_inputs, "inputs");
  std::vector<Tensor> targets =
      merged(pieces, request.indices.size(), &Batch::all_targets, "targets");
  Batch batch{inputs[0], targets[0], indices_of(request)};
  batch.more_inputs.assign(inputs.begin() + 1, inputs.end());
  batch.more_targets.assign(targets.begin() + 1, targets.end());
  return batch;
}

namespace {

// The number of examples of each part.
std::vector<std::int64_t> counts_of(const std::vector<double>& parts, std::int64_t size) {
  double sum = 0;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    if (!(parts[k] >= 0) || !std::isfinite(parts[k])) {
      throw ValueError(message("random_split: part ", k, " is ", parts[k],
                               " (allowed: finite numbers of 0 or more)"));
    }
    sum += parts[k];
  }
  std::vector<std::int64_t> counts;
  // Decimal fractions such as 0.7 + 0.2 + 0.1 do not add up to 1 exactly.
  if (std::abs(sum - 1) < 1e-9) {
    std::int64_t left = size;
    for (const double part : parts) {
      counts.push_back(
          std::min(left, static_cast<std::int64_t>(std::floor(part * static_cast<double>(size)))));
      left -= counts.back();
    }
    for (std::size_t k = 0; left > 0; k = (k + 1) % counts.size()) {
      if (parts[k] == 0) continue;
      counts[k] += 1;
      left -= 1;
    }
    return counts;
  }
  for (std::size_t k = 0; k < parts.size(); ++k) {
    if (parts[k] != std::floor(parts[k]) || parts[k] > static_cast<double>(size)) {
      throw ValueError(message("random_split: part ", k, " is ", parts[k], " of ", size,
                               " examples (allowed: integers with that sum, or fractions with the "
                               "sum 1)"));
    }
    counts.push_back(static_cast<std::int64_t>(parts[k]));
  }
  if (std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) != size) {
    throw ValueError(message("random_split: the sum of the parts is ", sum, ", there are ", size,
                             " examples (allowed: that number, or fractions with the sum 1)"));
  }
  return counts;
}

}  // namespace

std::vector<std::shared_ptr<const Subset>> random_split(std::shared_ptr<const Dataset> dataset,
                                                        const std::vector<double>& parts,
                                                        std::uint64_t seed) {
  if (dataset == nullptr) throw ValueError("random_split: there is no dataset");
  const std::vector<std::int64_t> counts = counts_of(parts, dataset->size());
  std::vector<std::int64_t> order(static_cast<std::size_t>(dataset->size()));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  OrderBits bits(seed, 0);
  shuffle(order, bits);
  const std::shared_ptr<const Dataset> whole = std::move(dataset);
  std::vector<std::shared_ptr<const Subset>> result;
  auto from = order.begin();
  for (const std::int64_t count : counts) {
    result.push_back(
        std::make_shared<const Subset>(whole, std::vector<std::int64_t>(from, from + count)));
    from += count;
  }
  return result;
}

}  // namespace extensor::data
