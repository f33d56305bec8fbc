// Highway is used as headers alone; in sanitizer builds its own assertions want this one function
// of its library. Weak, so that a program that links Highway too keeps Highway's.
#include <cstdio>
#include <cstdlib>

#include "hwy/base.h"

namespace hwy {

__attribute__((weak)) HWY_NORETURN void Abort(const char* file, int line, const char*, ...) {
  std::fprintf(stderr, "Highway assertion failed at %s:%d\n", file, line);
  std::abort();
}

}  // namespace hwy
