// Reads and writes tensors in files: safetensors, and NumPy's npy and npz.
//
//   save_safetensors("model.safetensors", model.state_dict());
//   model.load_state_dict(load_safetensors("model.safetensors").tensors);
//
// Every reader throws FormatError for a file that is damaged or holds data that tensors cannot
// (naming the file, the tensor, what was found and what is allowed), IoError if the system refuses,
// and OutOfMemoryError if memory does not suffice; malformed bytes have no other effect. Every
// loaded tensor is contiguous.
//
// Every writer replaces the file as a whole or not at all: it writes a new file in the same
// directory, flushes it to disk, and renames it. IoError if the system refuses; the old file is
// unchanged then.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "extensor/export.h"
#include "extensor/named_tensors.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

// The text entries of a safetensors file.
using Metadata = std::map<std::string, std::string>;

struct Safetensors {
  NamedTensors tensors;  // in the order of their data
  Metadata metadata;
};

struct SafetensorsOptions {
  // Map the file instead of reading it: opening takes no longer for a larger file, and programs
  // share its pages. Writing to such a tensor changes no file. While one lives, the file may be
  // replaced or removed, but not truncated in place: the system kills a program that reads the
  // missing part.
  bool mmap = false;
  // Compare the tensors with the checksums that save_safetensors wrote, if the file has them. This
  // reads all of a mapped file, too.
  bool verify = true;
};

struct SafetensorsSaveOptions {
  // Put a CRC-32 of every tensor and of the metadata into the metadata, as "extensor.checksum" and
  // "extensor.checksum.NAME". load_safetensors compares and removes them; other programs ignore
  // them.
  bool checksums = false;
};

// Supports all dtypes but complex128. ValueError for a duplicate name, a name that is not UTF-8 or
// is "__metadata__", and an undefined tensor.
void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                      const Metadata& metadata = {}, const SafetensorsSaveOptions& options = {});
// Also throws FormatError for a tensor that does not match its checksum in the file.
Safetensors load_safetensors(const std::filesystem::path& path,
                             const SafetensorsOptions& options = {});

// NumPy's array file. FormatError for bfloat16, for which the format has no name. Reads versions
// 1.0 to 3.0, either byte order, C and Fortran order; no objects, strings or structures.
void save_npy(const std::filesystem::path& path, const Tensor& tensor);
Tensor load_npy(const std::filesystem::path& path);

// NumPy's archive of arrays, as numpy.savez and numpy.savez_compressed write it; written without
// compression. Names are as in Python, without the ".npy" that they have inside the file.
void save_npz(const std::filesystem::path& path, const NamedTensors& tensors);
NamedTensors load_npz(const std::filesystem::path& path);

}  // namespace extensor

EXTENSOR_END_API
