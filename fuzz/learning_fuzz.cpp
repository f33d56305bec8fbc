// Tokenizers trained on arbitrary text; the first byte selects the kind and the number of tokens.
#include "fuzz/tokenizer.h"

namespace {

using namespace extensor;

std::unique_ptr<data::Tokenizer> learned(std::uint8_t kind, std::string_view text) {
  if (kind % 2 == 0) return std::make_unique<data::CharacterTokenizer>(text);
  return std::make_unique<data::BytePairTokenizer>(
      data::BytePairTokenizer::train(text, 256 + kind / 8));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  std::unique_ptr<data::Tokenizer> tokenizer;
  try {
    tokenizer = learned(bytes[0], rest.substr(0, rest.size() / 2));
  } catch (const Error&) {
    return 0;
  }
  fuzz::check_tokenizer(*tokenizer, rest);
  if (bytes[0] >= 240) fuzz::check_file(*tokenizer);
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  static const std::vector<fuzz::File> files = {
      fuzz::file_of("\x81the theme of the thesis that they thought of"),
      fuzz::file_of(std::string(1, '\0') + "Größe, größer")};
  return fuzz::mutate(data, size, most, seed, files);
}
