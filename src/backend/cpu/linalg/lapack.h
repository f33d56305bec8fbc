// LAPACK, opened at run time if the machine has it. The library works without it: LAPACK is only
// faster, for matrices beyond a few dozen rows.
#pragma once

#include <cstddef>
#include <cstdint>

namespace extensor::cpu {

// An integer of LAPACK. Libraries with 32-bit integers read and write its lower half, which is
// where x86 and ARM have it.
using LapackInt = std::int64_t;

// The routines for one floating type. Fortran passes everything by address, and appends the length
// of each string.
template <class T>
struct LapackRoutines {
  using Int = LapackInt;
  void (*potrf)(const char* triangle, const Int* n, T* a, const Int* lda, Int* info, std::size_t);
  void (*geqrf)(const Int* m, const Int* n, T* a, const Int* lda, T* tau, T* work,
                const Int* work_size, Int* info);
  void (*orgqr)(const Int* m, const Int* n, const Int* k, T* a, const Int* lda, const T* tau,
                T* work, const Int* work_size, Int* info);
  void (*syevd)(const char* job, const char* triangle, const Int* n, T* a, const Int* lda, T* w,
                T* work, const Int* work_size, Int* integers, const Int* integers_size, Int* info,
                std::size_t, std::size_t);
  void (*gesdd)(const char* job, const Int* m, const Int* n, T* a, const Int* lda, T* s, T* u,
                const Int* ldu, T* vt, const Int* ldvt, T* work, const Int* work_size,
                Int* integers, Int* info, std::size_t);
  void (*getrf)(const Int* m, const Int* n, T* a, const Int* lda, Int* pivots, Int* info);
  void (*getrs)(const char* transposed, const Int* n, const Int* right, const T* a, const Int* lda,
                const Int* pivots, T* b, const Int* ldb, Int* info, std::size_t);
  void (*getri)(const Int* n, T* a, const Int* lda, const Int* pivots, T* work,
                const Int* work_size, Int* info);
};

struct Lapack {
  bool has_wide_integers = false;
  void (*set_threads)(int) = nullptr;  // of the library's own threads; null if it has no such
  LapackRoutines<float> single{};
  LapackRoutines<double> twice{};

  template <class T>
  const LapackRoutines<T>& routines() const {
    if constexpr (sizeof(T) == sizeof(float)) {
      return single;
    } else {
      return twice;
    }
  }
  // An integer that LAPACK wrote over an initial 0, alone or at a position of a list.
  LapackInt value(const LapackInt* list, std::int64_t position = 0) const {
    return has_wide_integers ? list[position]
                             : reinterpret_cast<const std::int32_t*>(list)[position];
  }
};

// Null if there is none. The environment variable EXTENSOR_LAPACK_LIBRARY names the library to
// open, or is "none"; ValueError if that one cannot be used.
const Lapack* lapack();

}  // namespace extensor::cpu
