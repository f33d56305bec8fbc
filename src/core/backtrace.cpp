#include "core/backtrace.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "core/check.h"

namespace extensor {

namespace detail {

namespace {

// A file mapped for reading, or nothing.
class MappedFile {
 public:
  explicit MappedFile(const char* path) {
    const int descriptor = ::open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return;
    struct stat status {};
    if (::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
      const auto size = static_cast<std::size_t>(status.st_size);
      void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
      if (mapped != MAP_FAILED) {
        data_ = static_cast<const char*>(mapped);
        size_ = size;
      }
    }
    ::close(descriptor);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() {
    if (data_ != nullptr) ::munmap(const_cast<char*>(data_), size_);
  }

  // `count` items at `offset`, or null if the file does not have them.
  template <class Item>
  const Item* items(std::uint64_t offset, std::uint64_t count = 1) const {
    if (data_ == nullptr || offset > size_ || count > (size_ - offset) / sizeof(Item) ||
        offset % alignof(Item) != 0) {
      return nullptr;
    }
    return reinterpret_cast<const Item*>(data_ + offset);
  }
  // The text that begins at `offset` and ends before `end`; empty if it is not terminated.
  std::string_view text(std::uint64_t offset, std::uint64_t end) const {
    if (data_ == nullptr || end > size_ || offset >= end) return {};
    const void* zero = std::memchr(data_ + offset, 0, end - offset);
    return zero == nullptr ? std::string_view()
                           : std::string_view(data_ + offset, static_cast<const char*>(zero));
  }

 private:
  const char* data_ = nullptr;
  std::size_t size_ = 0;
};

// The function at an address of an ELF file, from its full symbol table, which also names functions
// that are not exported. Empty if the file was stripped.
std::string symbol_in_file(const char* path, std::uint64_t address) {
  const MappedFile file(path);
  const auto* header = file.items<ElfW(Ehdr)>(0);
  if (header == nullptr || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return {};
  const auto* sections = file.items<ElfW(Shdr)>(header->e_shoff, header->e_shnum);
  if (sections == nullptr) return {};
  for (std::size_t k = 0; k < header->e_shnum; ++k) {
    const ElfW(Shdr)& table = sections[k];
    if (table.sh_type != SHT_SYMTAB || table.sh_link >= header->e_shnum) continue;
    const std::uint64_t count = table.sh_size / sizeof(ElfW(Sym));
    const auto* symbols = file.items<ElfW(Sym)>(table.sh_offset, count);
    if (symbols == nullptr) return {};
    const ElfW(Shdr)& names = sections[table.sh_link];
    for (std::uint64_t i = 0; i < count; ++i) {
      const ElfW(Sym)& symbol = symbols[i];
      if ((symbol.st_info & 0xf) != STT_FUNC || address < symbol.st_value ||
          address - symbol.st_value >= symbol.st_size) {
        continue;
      }
      return std::string(
          file.text(names.sh_offset + symbol.st_name, names.sh_offset + names.sh_size));
    }
  }
  return {};
}

std::string demangled(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 && text != nullptr ? text : name;
  std::free(text);
  return result;
}

void append_hexadecimal(std::string& text, std::uint64_t number) {
  constexpr char digits[] = "0123456789abcdef";
  char buffer[16];
  std::size_t count = 0;
  do {
    buffer[count++] = digits[number & 15];
    number >>= 4;
  } while (number != 0);
  text += "0x";
  while (count > 0) text += buffer[--count];
}

std::string described(void* address) {
  Dl_info info{};
  // The address is that of the next instruction, which may belong to another function.
  if (dladdr(static_cast<char*>(address) - 1, &info) == 0 || info.dli_fname == nullptr) {
    std::string text = "at ";
    append_hexadecimal(text, reinterpret_cast<std::uintptr_t>(address));
    return text;
  }
  const std::uint64_t offset = reinterpret_cast<std::uintptr_t>(address) - 1 -
                               reinterpret_cast<std::uintptr_t>(info.dli_fbase);
  std::string name = info.dli_sname != nullptr ? info.dli_sname : "";
  if (name.empty()) name = symbol_in_file(info.dli_fname, offset);
  if (name.empty()) {
    // A program at a fixed address counts from 0.
    name = symbol_in_file(info.dli_fname, reinterpret_cast<std::uintptr_t>(address) - 1);
  }
  std::string text = name.empty() ? "" : demangled(name) + " in ";
  text += info.dli_fname;
  text += '+';
  append_hexadecimal(text, offset);
  return text;
}

}  // namespace

std::string stack_trace(int skip) {
  constexpr int most = 64;
  void* addresses[most];
  const int count = ::backtrace(addresses, most);
  std::string text;
  int shown = 0;
  for (int k = skip + 1; k < count; ++k) {
    const std::string call = described(addresses[k]);
    // Constructors of errors are inlined or not.
    if (shown == 0 && call.find("Error::Error(") != std::string::npos) continue;
    text += message("\n  #", shown++, " ", call);
  }
  return text;
}

bool traces_wanted() {
  const char* value = std::getenv("EXTENSOR_BACKTRACE");
  return value != nullptr && *value != '\0' && std::strcmp(value, "0") != 0;
}

namespace {

std::string with_trace(const std::string& message) {
  if (!traces_wanted()) return message;
  return message + "\nStack trace (addr2line -Cfe FILE OFFSET finds the line):" + stack_trace(1);
}

}  // namespace

}  // namespace detail

Error::Error(const std::string& message) : std::runtime_error(detail::with_trace(message)) {}
Error::Error(const char* message) : Error(std::string(message)) {}

}  // namespace extensor
