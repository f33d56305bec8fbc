// A fingerprint of a run's training data, so that a run is not silently resumed on other data.
#pragma once

#include <extensor/extensor.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace extensor::cli {

// One part of the data as the run reads it, for example the training images or the text.
struct FingerprintPart {
  std::string name, size, hash;  // "training images", "uint8 [36, 1, 15, 16]", 16 digits
};
using Fingerprint = std::vector<FingerprintPart>;

FingerprintPart fingerprint_of(const std::string& name, const Tensor& tensor);
FingerprintPart fingerprint_of(const std::string& name, const std::string& text);

// Called with the fingerprint before the data is used.
using FingerprintCheck = std::function<void(const Fingerprint&)>;

// Empty if they agree; otherwise the differences: "training images: uint8 [36, 15, 16] when the run
// began, uint8 [35, 15, 16] now; validation labels: other contents".
std::string difference(const Fingerprint& before, const Fingerprint& now);

// Throws FormatError or IoError. Empty for a run of an older version without a fingerprint.
Fingerprint read_fingerprint(const std::filesystem::path& path);
void write_fingerprint(const std::filesystem::path& path, const Fingerprint& fingerprint);

}  // namespace extensor::cli
