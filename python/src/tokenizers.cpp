// Tokenizers, for extensor/data.py. Tokens are int64 tensors.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "arguments.h"
#include "extensor/data/text.h"

namespace nb = nanobind;

namespace extensor::python {

namespace {

using data::BytePairTokenizer;
using data::CharacterTokenizer;
using data::Tokenizer;

std::filesystem::path path_of(nb::handle path) {
  PyObject* bytes = nullptr;
  if (PyUnicode_FSConverter(path.ptr(), &bytes) == 0) throw PythonError();
  const Owned owned(bytes);
  return PyBytes_AS_STRING(bytes);
}

nb::object encoded(const Tokenizer& self, const std::string& text) {
  const data::Tokens tokens = [&] {
    const WithoutGil released;
    return self.encode(text);
  }();
  return nb::steal(checked(wrap(from_data(tokens))));
}

// Text of the tokens; bytes that are not UTF-8 become U+FFFD, as in a part of a character.
nb::object decoded(const Tokenizer& self, nb::handle tokens) {
  const Tensor list = as_tensor(tokens.ptr(), "decode: argument 'tokens'").to(cpu_device).flatten();
  if (is_floating_point(list.dtype()) && list.numel() > 0) {
    throw DTypeError(std::string("decode: tokens are ") + name(list.dtype()) +
                     " (allowed: integers)");
  }
  const std::string text = self.decode(list.to(int64).contiguous().to_vector<std::int64_t>());
  return nb::steal(
      checked(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace")));
}

}  // namespace

void add_tokenizers(nb::module_& module) {
  nb::class_<Tokenizer>(module, "Tokenizer", "Converts text to tokens and back.")
      .def("__len__", &Tokenizer::size)
      .def("encode", encoded, nb::arg("text"), "The tokens of a text, an int64 tensor.")
      .def("decode", decoded, nb::arg("tokens"), "The text of tokens.")
      .def(
          "save", [](const Tokenizer& self, nb::handle path) { self.save(path_of(path)); },
          nb::arg("path"), "Writes a JSON file that load_tokenizer reads.");
  nb::class_<CharacterTokenizer, Tokenizer>(module, "CharacterTokenizer",
                                            "One token for each distinct character of a text.")
      .def(
          "__init__",
          [](CharacterTokenizer* self, const std::string& text) {
            new (self) CharacterTokenizer(text);
          },
          nb::arg("text"));
  nb::class_<BytePairTokenizer, Tokenizer>(module, "BytePairTokenizer",
                                           "Byte-pair encoding: bytes and frequent merges of them.")
      .def_static(
          "train",
          [](const std::string& text, std::int64_t size) {
            const WithoutGil released;
            return BytePairTokenizer::train(text, size);
          },
          nb::arg("text"), nb::arg("size"), "Learns merges until there are `size` tokens.")
      .def_static(
          "load_gpt2",
          [](nb::handle vocabulary, nb::handle merges) {
            return BytePairTokenizer::load_gpt2(path_of(vocabulary), path_of(merges));
          },
          nb::arg("vocabulary"), nb::arg("merges"), "Reads vocab.json and merges.txt of GPT-2.");
  module.def(
      "load_tokenizer",
      [](nb::handle path) {
        return nb::cast(data::load_tokenizer(path_of(path)).release(),
                        nb::rv_policy::take_ownership);
      },
      nb::arg("path"), "Reads a file that Tokenizer.save wrote.");
}

}  // namespace extensor::python
