#include "backend/cuda/libraries.h"

#include <dlfcn.h>
#include <glob.h>

#include <cstdlib>
#include <string_view>
#include <vector>

#include "core/check.h"
#include "extensor/error.h"

namespace extensor::backend::cuda {

namespace {

using detail::message;

void append_matches(std::vector<std::string>& paths, const std::string& pattern) {
  glob_t found{};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    paths.insert(paths.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
}

// The places in which to look for a library, in order.
std::vector<std::string> candidates(const std::string& soname) {
  std::vector<std::string> paths;
  if (const char* listed = std::getenv("EXTENSOR_CUDA_LIBRARIES")) {
    std::string_view rest = listed;
    while (!rest.empty()) {
      const std::size_t end = rest.find(':');
      const std::string_view folder = rest.substr(0, end);
      if (!folder.empty()) paths.push_back(std::string(folder) + "/" + soname);
      rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    }
  }
  paths.push_back(soname);
  for (const char* folder : {"/usr/local/cuda/lib64/", "/usr/local/cuda/lib/"}) {
    append_matches(paths, folder + soname);
  }
  // pip's nvidia-* packages: nvidia/cu13/lib, nvidia/cudnn/lib and so on.
  std::vector<std::string> roots;
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const char* root = std::getenv(variable)) roots.emplace_back(root);
  }
  if (const char* home = std::getenv("HOME")) roots.push_back(std::string(home) + "/.local");
  for (const char* root : {"/usr/local", "/usr", "/opt/conda"}) roots.emplace_back(root);
  for (const std::string& root : roots) {
    for (const char* packages : {"/lib/python3*/site-packages", "/lib/python3*/dist-packages",
                                 "/lib/python3/dist-packages"}) {
      std::string pattern = root;
      pattern.append(packages).append("/nvidia/*/lib/").append(soname);
      append_matches(paths, pattern);
    }
  }
  return paths;
}

}  // namespace

void* open_library(const char* soname, std::string* reason) {
  std::string first_error;
  for (const std::string& path : candidates(soname)) {
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    const char* error = dlerror();
    if (first_error.empty() && error != nullptr) first_error = error;
  }
  if (reason != nullptr) *reason = first_error;
  return nullptr;
}

RequiredLibrary::RequiredLibrary(const char* need, const char* soname, const char* package)
    : need_(need), soname_(soname), package_(package) {
  std::string reason;
  handle_ = open_library(soname, &reason);
  if (handle_ != nullptr) return;
  throw DeviceError(message(need, ", and ", soname, " is not found: ", reason,
                            " (install it with: pip install ", package,
                            ", or put its folder into EXTENSOR_CUDA_LIBRARIES)"));
}

void RequiredLibrary::refuse(const std::string& reason) const {
  throw DeviceError(message(need_, ", and ", soname_, " ", reason,
                            " (install a newer one: pip install -U ", package_, ")"));
}

void* RequiredLibrary::find(const char* name) const {
  void* function = dlsym(handle_, name);
  if (function == nullptr) refuse(message("has no function ", name));
  return function;
}

}  // namespace extensor::backend::cuda
