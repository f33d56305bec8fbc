#include "io/npz.h"

#include "extensor/io.h"
#include "io/atomic_file.h"
#include "io/check_tensors.h"
#include "io/npy.h"
#include "io/text.h"

namespace extensor {

namespace io {

using detail::message;

namespace {
constexpr std::string_view ending = ".npy";
}

NamedTensors read_npz(const ByteSource& source, bool check_crc) {
  const std::vector<ZipEntry> entries = read_zip_directory(source);
  for (const ZipEntry& entry : entries) {
    if (!entry.name.ends_with(ending)) {
      damaged(source.label(), "entry ", in_quotes(entry.name),
              " is no array (allowed: names that end with .npy)");
    }
  }
  NamedTensors tensors;
  for (const ZipEntry& entry : entries) {
    const auto stream = open_zip_entry(source, entry, check_crc);
    Tensor tensor = read_npy(*stream);
    stream->finish();
    tensors.emplace_back(entry.name.substr(0, entry.name.size() - ending.size()),
                         std::move(tensor));
  }
  return tensors;
}

void check_npz(const std::string& label, const NamedTensors& tensors) {
  check_tensors(label, tensors);
  for (const auto& [name, tensor] : tensors) {
    constexpr std::size_t longest = 0xffff - ending.size();
    if (name.size() > longest) {
      throw ValueError(message(label, ": the name ", in_quotes(name), " has ", name.size(),
                               " bytes (allowed: at most ", longest, ")"));
    }
    npy_preamble(message(label, ": tensor ", in_quotes(name)), tensor);
  }
}

void write_npz(ByteSink& sink, const NamedTensors& tensors, const ZipLimits& limits) {
  ZipWriter archive(sink, limits);
  for (const auto& [name, tensor] : tensors) {
    const Tensor elements = dense(tensor);
    archive.add(name + std::string(ending), npy_preamble(name, elements), bytes_of(elements));
  }
  archive.finish();
}

}  // namespace io

void save_npz(const std::filesystem::path& path, const NamedTensors& tensors) {
  io::check_npz("save_npz", tensors);
  io::AtomicFile file("save_npz", path);
  io::write_npz(file, tensors);
  file.commit();
}

NamedTensors load_npz(const std::filesystem::path& path) {
  return io::read_npz(io::FileSource("load_npz", path));
}

}  // namespace extensor
