#include "backend/cpu/linalg/lapack.h"

#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <type_traits>

#include "core/check.h"
#include "core/open_part.h"
#include "extensor/error.h"

namespace extensor::cpu {

namespace {

// How a library spells the routine dpotrf: a prefix, and an ending that tells the width of
// integers.
struct Spelling {
  const char* prefix;
  const char* ending;
  bool has_wide_integers;
};
constexpr Spelling spellings[] = {
    {"", "_", false},
    {"", "_64_", true},
    {"scipy_", "_", false},  // the OpenBLAS of NumPy's wheels
    {"scipy_", "_64_", true},
};

template <class Function>
bool find(void* library, const Spelling& spelling, const std::string& name, Function*& function) {
  const std::string symbol = spelling.prefix + name + spelling.ending;
  function = reinterpret_cast<Function*>(dlsym(library, symbol.c_str()));
  return function != nullptr;
}

template <class T>
bool find_routines(void* library, const Spelling& spelling, const std::string& type,
                   LapackRoutines<T>& found) {
  constexpr bool real = std::is_floating_point_v<T>;
  return find(library, spelling, type + "potrf", found.potrf) &&
         find(library, spelling, type + "geqrf", found.geqrf) &&
         find(library, spelling, type + (real ? "orgqr" : "ungqr"), found.orgqr) &&
         find(library, spelling, type + (real ? "syevd" : "heevd"), found.syevd) &&
         find(library, spelling, type + "gesdd", found.gesdd) &&
         find(library, spelling, type + "getrf", found.getrf) &&
         find(library, spelling, type + "getrs", found.getrs) &&
         find(library, spelling, type + "getri", found.getri);
}

void find_threads(void* library, Lapack& found) {
  for (const char* name :
       {"openblas_set_num_threads", "openblas_set_num_threads64_", "scipy_openblas_set_num_threads",
        "scipy_openblas_set_num_threads64_", "MKL_Set_Num_Threads"}) {
    found.set_threads = reinterpret_cast<void (*)(int)>(dlsym(library, name));
    if (found.set_threads != nullptr) return;
  }
}

// Null, with the reason, if `path` cannot be opened or lacks a routine.
std::unique_ptr<Lapack> open(const char* path, std::string& reason) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    reason = dlerror();
    return nullptr;
  }
  for (const Spelling& spelling : spellings) {
    auto found = std::make_unique<Lapack>();
    found->has_wide_integers = spelling.has_wide_integers;
    auto& [single, twice, complex, complex_twice] = found->types;
    if (find_routines(library, spelling, "s", single) &&
        find_routines(library, spelling, "d", twice) &&
        find_routines(library, spelling, "c", complex) &&
        find_routines(library, spelling, "z", complex_twice)) {
      find_threads(library, *found);
      return found;
    }
  }
  reason = "it lacks LAPACK's routines, such as dpotrf_";
  return nullptr;
}

struct Loaded {
  std::unique_ptr<Lapack> library;
  std::string reason;  // why the library that the environment names cannot be used
};

Loaded load() {
  Loaded loaded;
  const char* named = std::getenv("EXTENSOR_LAPACK_LIBRARY");
  if (named != nullptr && *named != '\0') {
    if (std::string_view(named) == "none") return loaded;
    std::string reason;
    loaded.library = open(named, reason);
    if (loaded.library == nullptr) {
      loaded.reason = detail::message("linalg: EXTENSOR_LAPACK_LIBRARY is ", named, ": ", reason,
                                      " (allowed: a LAPACK library such as libopenblas.so.0, or "
                                      "none)");
    }
    return loaded;
  }
  std::string ignored;
  // The Python wheel brings an OpenBLAS under the first name.
  const std::string bundled = detail::own_directory() + "libextensor_lapack.so";
  for (const char* path : {bundled.c_str(), "libopenblas.so.0", "libopenblas64_.so.0",
                           "libmkl_rt.so.2", "libmkl_rt.so.1", "liblapack.so.3"}) {
    loaded.library = open(path, ignored);
    if (loaded.library != nullptr) break;
  }
  return loaded;
}

}  // namespace

const Lapack* lapack() {
  static const auto* loaded = new Loaded(load());  // never destroyed: threads may still use it
  if (!loaded->reason.empty()) throw ValueError(loaded->reason);
  return loaded->library.get();
}

}  // namespace extensor::cpu
