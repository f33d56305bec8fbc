#include "extensor/nn/resampling.h"

#include "core/check.h"
#include "nn/layer_checks.h"

namespace extensor::nn {

using extensor::detail::message;

Upsample::Upsample(const InterpolateOptions& options) : options_(options) {
  if (options.size.has_value() != options.scale_factor.has_value()) return;
  throw ValueError(message("Upsample: ",
                           options.size ? "both size and scale_factor are given"
                                        : "neither size nor scale_factor is given",
                           " (give one of them)"));
}

std::string Upsample::describe() const {
  constexpr const char* modes[] = {"nearest", "nearest_exact", "bilinear", "bicubic"};
  std::string to;
  if (const auto& size = options_.size) to = message("to ", size->height, "×", size->width);
  if (const auto& factor = options_.scale_factor) {
    to = factor->height == factor->width ? message("by ", factor->height)
                                         : message("by ", factor->height, "×", factor->width);
  }
  return message(to, ", ", modes[static_cast<std::size_t>(options_.mode)],
                 options_.align_corners ? ", align corners" : "");
}

PixelShuffle::PixelShuffle(StrictInt factor) : factor_(factor) {
  detail::check_positive("PixelShuffle", "factor", factor_);
}
std::string PixelShuffle::describe() const { return message(factor_); }

PixelUnshuffle::PixelUnshuffle(StrictInt factor) : factor_(factor) {
  detail::check_positive("PixelUnshuffle", "factor", factor_);
}
std::string PixelUnshuffle::describe() const { return message(factor_); }

}  // namespace extensor::nn
