// Highway's header of this name, after which the kernels of the scalar target are compiled for
// size: only machines without AVX2 run them, and -O3 doubles their code. Included once per target,
// as Highway's own header is.
#include_next <hwy/highway.h>

// Not where the scalar target is the only one, nor in builds without optimisation.
#if (HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128) && HWY_TARGETS != HWY_STATIC_TARGET && \
    defined(__OPTIMIZE__)
#undef HWY_BEFORE_NAMESPACE
#undef HWY_AFTER_NAMESPACE
#ifdef __clang__
#define HWY_BEFORE_NAMESPACE()                                                                  \
  _Pragma("clang attribute push(__attribute__((minsize)), apply_to = function)") static_assert( \
      true, "For requiring trailing semicolon")
#define HWY_AFTER_NAMESPACE() \
  _Pragma("clang attribute pop") static_assert(true, "For requiring trailing semicolon")
#else
#define HWY_BEFORE_NAMESPACE() \
  _Pragma("GCC push_options")  \
      _Pragma("GCC optimize \"Os\"") static_assert(true, "For requiring trailing semicolon")
#define HWY_AFTER_NAMESPACE() \
  _Pragma("GCC pop_options") static_assert(true, "For requiring trailing semicolon")
#endif
#endif
