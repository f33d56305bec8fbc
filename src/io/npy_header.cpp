// Parses the header of an npy file, a Python dict with three keys. No other Python is accepted.
#include <array>
#include <charconv>
#include <optional>

#include "io/npy.h"
#include "io/text.h"

namespace extensor::io {

namespace {

class Parser {
 public:
  Parser(const std::string& label, std::string_view text) : label_(label), text_(text) {}

  NpyHeader parse() {
    NpyHeader header;
    bool has_descr = false, has_order = false, has_shape = false;
    const auto once = [&](bool& seen, std::string_view key) {
      if (seen) damaged(label_, "the header has ", in_quotes(key), " twice");
      seen = true;
    };
    expect('{', "a dict");
    while (!accept('}')) {
      const std::string_view key = string("a key");
      expect(':', "':' behind a key");
      if (key == "descr") {
        once(has_descr, key);
        if (peek() == '[') {
          damaged(label_,
                  "descr is a structure of fields (allowed: one bool, integer, float or complex "
                  "number)");
        }
        read_descr(string("a dtype"), header);
      } else if (key == "fortran_order") {
        once(has_order, key);
        header.fortran_order = boolean();
      } else if (key == "shape") {
        once(has_shape, key);
        header.shape = shape();
      } else {
        damaged(label_, "the header has the key ", in_quotes(key),
                " (allowed: descr, fortran_order, shape)");
      }
      if (!accept(',') && peek() != '}') unexpected("',' or '}'");
    }
    if (peek() != '\0' || at_ != text_.size()) unexpected("the end of the header");
    if (!has_descr || !has_order || !has_shape) {
      damaged(label_, "the header lacks ",
              !has_descr   ? "descr"
              : !has_order ? "fortran_order"
                           : "shape");
    }
    return header;
  }

 private:
  // Skips white space and returns the next character, or NUL at the end.
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) {
      ++at_;
    }
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char wanted) {
    if (peek() != wanted || at_ == text_.size()) return false;
    ++at_;
    return true;
  }
  void expect(char wanted, const char* what) {
    if (!accept(wanted)) unexpected(what);
  }
  [[noreturn]] void unexpected(const char* wanted) {
    damaged(label_, "the header has ", in_quotes(text_.substr(at_, 20)), " at its byte ", at_,
            " (allowed: ", wanted, ")");
  }

  std::string_view string(const char* what) {
    const char quote = peek();
    if (quote != '\'' && quote != '"') unexpected(what);
    const std::size_t begin = at_ + 1, end = text_.find(quote, begin);
    if (end == std::string_view::npos) unexpected("a string that ends");
    const std::string_view inside = text_.substr(begin, end - begin);
    if (inside.find('\\') != std::string_view::npos) unexpected("a string without escapes");
    at_ = end + 1;
    return inside;
  }

  bool boolean() {
    peek();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      return value;
    }
    unexpected("True or False");
  }

  Shape shape() {
    Shape sizes;
    expect('(', "a tuple");
    bool comma = true;
    while (!accept(')')) {
      if (!comma) unexpected("',' between sizes");
      peek();
      std::int64_t size = 0;
      const char* begin = text_.data() + at_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0) unexpected("sizes from 0 to 2^63 - 1");
      at_ += static_cast<std::size_t>(end - begin);
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2's suffix for long integers
      if (sizes.size() == static_cast<std::size_t>(max_rank)) {
        damaged(label_, "the shape has more than ", max_rank, " dimensions");
      }
      sizes.push_back(size);
      comma = accept(',');
    }
    if (sizes.size() == 1 && !comma) damaged(label_, "the shape is no tuple");
    return sizes;
  }

  void read_descr(std::string_view descr, NpyHeader& header) {
    struct Known {
      std::string_view code;
      DType dtype;
    };
    static constexpr std::array<Known, 14> known = {{{"b1", DType::bool_},
                                                     {"i1", DType::int8},
                                                     {"i2", DType::int16},
                                                     {"i4", DType::int32},
                                                     {"i8", DType::int64},
                                                     {"u1", DType::uint8},
                                                     {"u2", DType::uint16},
                                                     {"u4", DType::uint32},
                                                     {"u8", DType::uint64},
                                                     {"f2", DType::float16},
                                                     {"f4", DType::float32},
                                                     {"f8", DType::float64},
                                                     {"c8", DType::complex64},
                                                     {"c16", DType::complex128}}};
    if (!descr.empty()) {
      const char order = descr.front();
      for (const auto& [code, dtype] : known) {
        if (descr.substr(1) != code) continue;
        if (order != '<' && order != '>' && (order != '|' || itemsize(dtype) != 1)) break;
        header.dtype = dtype;
        header.big_endian = order == '>';
        return;
      }
    }
    if (descr == "|O" || descr == "O") {
      damaged(label_, "descr ", in_quotes(descr), ": Python objects are not read");
    }
    damaged(label_, "descr ", in_quotes(descr),
            " (allowed: b1, i1, i2, i4, i8, u1, u2, u4, u8, f2, f4, f8, c8, c16 behind '<', '>' "
            "or, for one "
            "byte, '|')");
  }

  const std::string& label_;
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

NpyHeader parse_npy_header(const std::string& label, std::string_view text) {
  return Parser(label, text).parse();
}

}  // namespace extensor::io
