// A streaming JSON parser for files. It validates while it parses, builds no document and refuses
// nesting deeper than the format allows.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "core/check.h"
#include "io/byte_source.h"
#include "io/text.h"

namespace extensor::io {

// Receives the parser's tokens one by one. Tokens that a format does not override are refused.
class JsonHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  // The label names the operation and the file; `what` names the part that is JSON: "the header".
  JsonHandler(std::string label, std::string what)
      : label_(std::move(label)), what_(std::move(what)) {}

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("a boolean"); }
  bool number_integer(number_integer_t value) override {
    unexpected(detail::message("the number ", value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    unexpected(detail::message("the number ", value));
  }
  bool number_float(number_float_t, const string_t& text) override {
    unexpected(detail::message("the number ", in_quotes(text)));
  }
  bool string(string_t& value) override {
    unexpected(detail::message("the string ", in_quotes(value)));
  }
  bool binary(binary_t&) override { unexpected("binary data"); }
  bool start_array(std::size_t) override { unexpected("an array"); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    damaged(label_, what_, " is no JSON at its byte ", position, ": ", in_quotes(error.what()));
  }

  const std::string& label() const { return label_; }
  const std::string& what() const { return what_; }

 protected:
  // Throws FormatError: the format does not allow `found` here.
  [[noreturn]] void unexpected(const std::string& found) const { damaged(label_, fault(found)); }

  const std::string label_;

 private:
  // Describes the position and what it allows: "'a' is null (allowed: an object)".
  virtual std::string fault(const std::string& found) const = 0;

  std::string what_;
};

// Parses all of `text`, which must be one object. Throws FormatError otherwise.
inline void parse_json(const std::string& text, JsonHandler& handler) {
  // The parser treats NUL as the end of input and skips a byte order mark; neither is allowed here.
  const bool object = !text.empty() && text.front() == '{';
  if (!object || text.find('\0') != std::string::npos) {
    damaged(handler.label(), handler.what(), " begins with ", in_quotes(text.substr(0, 16)),
            object ? " and has a NUL byte" : " (allowed: an object, '{')");
  }
  nlohmann::json::sax_parse(text, &handler);
}

}  // namespace extensor::io
