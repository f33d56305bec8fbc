// LAPACK, opened at run time if the machine has it. The library works without it: LAPACK is only
// faster, for matrices beyond a few dozen rows.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <tuple>

namespace extensor::cpu {

// An integer of LAPACK. Libraries with 32-bit integers read and write its lower half, which is
// where x86 and ARM have it.
using LapackInt = std::int64_t;

// Of eigenvalues and singular values, whose routines for complex matrices have further arguments.
template <class T>
struct LapackValues {
  using Int = LapackInt;
  void (*syevd)(const char* job, const char* triangle, const Int* n, T* a, const Int* lda, T* w,
                T* work, const Int* work_size, Int* integers, const Int* integers_size, Int* info,
                std::size_t, std::size_t);
  void (*gesdd)(const char* job, const Int* m, const Int* n, T* a, const Int* lda, T* s, T* u,
                const Int* ldu, T* vt, const Int* ldvt, T* work, const Int* work_size,
                Int* integers, Int* info, std::size_t);
};
template <class Real>
struct LapackValues<std::complex<Real>> {
  using Int = LapackInt;
  using T = std::complex<Real>;
  void (*syevd)(const char* job, const char* triangle, const Int* n, T* a, const Int* lda, Real* w,
                T* work, const Int* work_size, Real* reals, const Int* reals_size, Int* integers,
                const Int* integers_size, Int* info, std::size_t, std::size_t);
  void (*gesdd)(const char* job, const Int* m, const Int* n, T* a, const Int* lda, Real* s, T* u,
                const Int* ldu, T* vt, const Int* ldvt, T* work, const Int* work_size, Real* reals,
                Int* integers, Int* info, std::size_t);
};

// The routines for one type. Fortran passes everything by address, and appends the length of each
// string. Those of complex matrices are heevd and ungqr in LAPACK.
template <class T>
struct LapackRoutines : LapackValues<T> {
  using Int = LapackInt;
  void (*potrf)(const char* triangle, const Int* n, T* a, const Int* lda, Int* info, std::size_t);
  void (*geqrf)(const Int* m, const Int* n, T* a, const Int* lda, T* tau, T* work,
                const Int* work_size, Int* info);
  void (*orgqr)(const Int* m, const Int* n, const Int* k, T* a, const Int* lda, const T* tau,
                T* work, const Int* work_size, Int* info);
  void (*getrf)(const Int* m, const Int* n, T* a, const Int* lda, Int* pivots, Int* info);
  void (*getrs)(const char* transposed, const Int* n, const Int* right, const T* a, const Int* lda,
                const Int* pivots, T* b, const Int* ldb, Int* info, std::size_t);
  void (*getri)(const Int* n, T* a, const Int* lda, const Int* pivots, T* work,
                const Int* work_size, Int* info);
};

struct Lapack {
  bool has_wide_integers = false;
  void (*set_threads)(int) = nullptr;  // of the library's own threads; null if it has no such
  std::tuple<LapackRoutines<float>, LapackRoutines<double>, LapackRoutines<std::complex<float>>,
             LapackRoutines<std::complex<double>>>
      types{};

  template <class T>
  const LapackRoutines<T>& routines() const {
    return std::get<LapackRoutines<T>>(types);
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
