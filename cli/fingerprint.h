// A fingerprint of the data that a run learns from, so that it is not resumed on other data without
// a word.
#pragma once

#include <extensor/extensor.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace extensor::cli {

// One part of the data as the run reads it: the training images, the text.
struct FingerprintPart {
  std::string name, size, hash;  // "training images", "uint8 [36, 1, 15, 16]", 16 digits
};
using Fingerprint = std::vector<FingerprintPart>;

FingerprintPart fingerprint_of(const std::string& name, const Tensor& tensor);
FingerprintPart fingerprint_of(const std::string& name, const std::string& text);

// Called with the fingerprint before anything else is made of the data.
using FingerprintCheck = std::function<void(const Fingerprint&)>;

// Nothing where they agree; else what differs: "training images: uint8 [36, 15, 16] when the run
// began, uint8 [35, 15, 16] now; held-out labels: other contents".
std::string difference(const Fingerprint& before, const Fingerprint& now);

// FormatError, IoError. Empty for a run of a version that kept none.
Fingerprint read_fingerprint(const std::filesystem::path& path);
void write_fingerprint(const std::filesystem::path& path, const Fingerprint& fingerprint);

}  // namespace extensor::cli
