// The abstract value of the op tables as an integer whose arithmetic wraps. Included inside a
// namespace, with EXTENSOR_WORD defined as the specifiers of a function there, after <concepts> and
// <type_traits>. The file has no include guard: each namespace includes it once.

template <std::integral T>
struct Integer {
  // Unsigned and at least as wide as int, so that neither promotion nor overflow is undefined.
  using Wide = std::conditional_t<sizeof(T) < sizeof(unsigned), unsigned, std::make_unsigned_t<T>>;
  T v;

  constexpr Integer(T value) : v(value) {}  // NOLINT: implicit, rows mix both
  template <std::integral Literal>
  requires(!std::same_as<Literal, T>) constexpr Integer(Literal literal)
      : v(static_cast<T>(literal)) {}  // NOLINT: implicit

  EXTENSOR_WORD Wide wide() const { return static_cast<Wide>(v); }
  friend EXTENSOR_WORD Integer operator+(Integer a, Integer b) {
    return static_cast<T>(a.wide() + b.wide());
  }
  friend EXTENSOR_WORD Integer operator-(Integer a, Integer b) {
    return static_cast<T>(a.wide() - b.wide());
  }
  friend EXTENSOR_WORD Integer operator*(Integer a, Integer b) {
    return static_cast<T>(a.wide() * b.wide());
  }
  friend EXTENSOR_WORD Integer operator-(Integer a) { return static_cast<T>(Wide{0} - a.wide()); }
  friend EXTENSOR_WORD bool operator<(Integer a, Integer b) { return a.v < b.v; }
  friend EXTENSOR_WORD bool operator>(Integer a, Integer b) { return a.v > b.v; }
};

template <class T>
EXTENSOR_WORD Integer<T> sign(Integer<T> x) {
  return static_cast<T>((x.v > 0) - (x.v < T(0)));
}
template <class T>
EXTENSOR_WORD Integer<T> abs(Integer<T> x) {
  return x < 0 ? -x : x;
}
template <class T>
EXTENSOR_WORD Integer<T> ceil(Integer<T> x) {
  return x;
}
template <class T>
EXTENSOR_WORD Integer<T> floor(Integer<T> x) {
  return x;
}
template <class T>
EXTENSOR_WORD Integer<T> round(Integer<T> x) {
  return x;
}
template <class T>
EXTENSOR_WORD Integer<T> trunc(Integer<T> x) {
  return x;
}
template <class T>
EXTENSOR_WORD Integer<T> max(Integer<T> a, std::type_identity_t<Integer<T>> b) {
  return a.v < b.v ? b.v : a.v;  // vectorized, unlike a choice of structs
}
template <class T>
EXTENSOR_WORD Integer<T> min(Integer<T> a, std::type_identity_t<Integer<T>> b) {
  return b.v < a.v ? b.v : a.v;
}
template <class T>
EXTENSOR_WORD Integer<T> clamp(Integer<T> x, Integer<T> lo, Integer<T> hi) {
  return x.v < lo.v ? lo.v : (hi.v < x.v ? hi.v : x.v);
}
// A divisor of 0 is rejected before the loop; the guard keeps a racing writer from trapping.
template <class T>
EXTENSOR_WORD Integer<T> floor_divide(Integer<T> a, Integer<T> b) {
  if (b.v == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b.v == -1) return -a;  // INT_MIN / −1 wraps
    const T quotient = static_cast<T>(a.v / b.v);
    const bool inexact = quotient * b.v != a.v;
    return static_cast<T>(quotient - (inexact && ((a.v < 0) != (b.v < 0))));
  } else {
    return static_cast<T>(a.v / b.v);
  }
}
template <class T>
EXTENSOR_WORD Integer<T> floor_modulo(Integer<T> a, Integer<T> b) {
  if (b.v == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b.v == -1) return 0;
    const T rest = static_cast<T>(a.v % b.v);
    return rest != 0 && ((rest < 0) != (b.v < 0)) ? static_cast<T>(rest + b.v) : rest;
  } else {
    return static_cast<T>(a.v % b.v);
  }
}
// Square and multiply, wrapping; a negative exponent is rejected before the loop.
template <class T>
EXTENSOR_WORD Integer<T> power(Integer<T> base, Integer<T> exponent) {
  Integer<T> result = 1;
  for (auto rest = static_cast<std::make_unsigned_t<T>>(exponent.v); rest != 0; rest >>= 1) {
    if (rest & 1) result = result * base;
    base = base * base;
  }
  return result;
}
template <class T>
EXTENSOR_WORD T shift_left(T a, T b) {
  return static_cast<T>(static_cast<typename Integer<T>::Wide>(a) << b);
}
