#include "backend/cuda/kernel_cache.h"

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace extensor::backend::cuda {

namespace {

namespace fs = std::filesystem;

// Empty if there is none.
fs::path directory() {
  if (const char* given = std::getenv("EXTENSOR_CACHE")) return given;
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return fs::path(cache) / "extensor";
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return fs::path(home) / ".cache" / "extensor";
  return {};
}

std::uint64_t hash_of(std::string_view bytes, std::uint64_t hash) {
  for (const char byte : bytes) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
    hash ^= hash >> 29;
  }
  return hash;
}

fs::path file_of(const std::string& key) {
  const fs::path folder = directory();
  if (folder.empty()) return {};
  char name[64];
  std::snprintf(name, sizeof name, "kernel-%016llx%016llx.bin",
                static_cast<unsigned long long>(hash_of(key, 0xcbf29ce484222325u)),
                static_cast<unsigned long long>(hash_of(key, 0x9e3779b97f4a7c15u)));
  return folder / name;
}

// The start of a file; the key and the kernel follow.
struct Header {
  char magic[8] = {'E', 'X', 'T', 'K', 'R', 'N', 'L', '1'};
  std::uint64_t key_bytes = 0, kernel_bytes = 0, checksum = 0;
};

std::optional<std::string> read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad()) return std::nullopt;
  return bytes;
}

}  // namespace

std::optional<std::string> load_kernel(const std::string& key) try {
  const fs::path path = file_of(key);
  std::error_code error;
  // A directory or a device in its place would be no file to read.
  if (path.empty() || !fs::is_regular_file(path, error)) return std::nullopt;
  const std::optional<std::string> bytes = read_file(path);
  Header header;
  const Header expected;
  if (!bytes || bytes->size() < sizeof header) return std::nullopt;
  std::memcpy(&header, bytes->data(), sizeof header);
  const std::string_view rest = std::string_view(*bytes).substr(sizeof header);
  if (std::memcmp(header.magic, expected.magic, sizeof header.magic) != 0 ||
      header.key_bytes != key.size() || header.kernel_bytes > rest.size() ||
      rest.size() - header.kernel_bytes != key.size() || rest.substr(0, key.size()) != key) {
    return std::nullopt;
  }
  const std::string_view kernel = rest.substr(key.size());
  if (hash_of(kernel, 0) != header.checksum) return std::nullopt;
  return std::string(kernel);
} catch (const std::exception&) {  // no memory, or a path that is no text
  return std::nullopt;
}

void store_kernel(const std::string& key, const std::string& kernel) try {
  const fs::path path = file_of(key);
  if (path.empty()) return;
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  static std::atomic<unsigned> count{0};
  const fs::path temporary =
      path.string() + "." + std::to_string(getpid()) + "." + std::to_string(++count);
  Header header;
  header.key_bytes = key.size();
  header.kernel_bytes = kernel.size();
  header.checksum = hash_of(kernel, 0);
  bool written = false;
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(&header), sizeof header);
    file.write(key.data(), static_cast<std::streamsize>(key.size()));
    file.write(kernel.data(), static_cast<std::streamsize>(kernel.size()));
    file.close();
    written = file.good();
  }
  if (written) fs::rename(temporary, path, error);
  if (!written || error) fs::remove(temporary, error);
} catch (const std::exception&) {  // the cache only saves time
}

}  // namespace extensor::backend::cuda
