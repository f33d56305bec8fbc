#include "core/open_part.h"

#include <dlfcn.h>

#include <cstdlib>

#include "core/check.h"

namespace extensor::detail {

std::string own_directory() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&own_directory), &info) == 0) return "";
  const std::string path = info.dli_fname == nullptr ? "" : info.dli_fname;
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

void* open_part(const char* file_name, const char* variable, const char* setting,
                std::string& reason) {
  if (const char* path = std::getenv(variable)) {
    void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) reason = dlerror();
    return handle;
  }
  const std::string directory = own_directory();
  for (const std::string& path : {directory + file_name, directory + "../" + file_name,
                                  directory + "../lib/" + file_name, std::string(file_name)}) {
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return handle;
    const char* error = dlerror();
    const std::string text = error == nullptr ? "" : error;
    // A file that exists but cannot be loaded is the reason that helps.
    if (reason.empty() && text.find("No such file") == std::string::npos) reason = text;
  }
  if (reason.empty()) {
    reason = message(file_name, " was not found beside the library (build with ", setting,
                     ", or set ", variable, " to its path)");
  }
  return nullptr;
}

}  // namespace extensor::detail
