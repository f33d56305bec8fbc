// ExTensor uses Highway's headers only; in sanitizer builds, its assertions need this one function
// of its library. The symbol is weak, so that a program that links Highway keeps Highway's.
#include <cstdio>
#include <cstdlib>

#include "hwy/base.h"

namespace hwy {

__attribute__((weak)) HWY_NORETURN void Abort(const char* file, int line, const char*, ...) {
  std::fprintf(stderr, "Highway assertion failed at %s:%d\n", file, line);
  std::abort();
}

}  // namespace hwy
