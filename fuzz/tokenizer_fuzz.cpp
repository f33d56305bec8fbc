// The first byte selects the input: a tokenizer file, or GPT-2's two files. In a file, the byte 1
// stands for all 256 bytes as tokens, which every byte-pair tokenizer needs and few mutations would
// contain; the byte 2 separates GPT-2's files.
#include "fuzz/tokenizer.h"

#include "data/byte_symbols.h"
#include "data/tokenizer_files.h"

namespace {

using namespace extensor;

constexpr char every_byte = 1, between_files = 2;

// "Ā","ā",… or, with numbers, "Ā":0,"ā":1,…
std::string list_of_bytes(bool numbers) {
  std::string text;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string symbol = data::symbols_of(std::string(1, static_cast<char>(byte)));
    text += byte == 0 ? "\"" : ",\"";
    if (symbol == "\"" || symbol == "\\") text += '\\';
    text += symbol + '"';
    if (numbers) text += ':' + std::to_string(byte);
  }
  return text;
}

// Expands the first placeholder only: more of them would only make the text longer.
std::string expanded(std::string_view file, bool numbers) {
  static const std::string lists[] = {list_of_bytes(false), list_of_bytes(true)};
  std::string text(file);
  const std::size_t at = text.find(every_byte);
  return at == std::string::npos ? text : text.replace(at, 1, lists[numbers ? 1 : 0]);
}

// The tokenizer that the bytes describe. Error if they describe none.
std::unique_ptr<data::Tokenizer> made_of(std::uint8_t kind, std::string_view rest) {
  if (kind % 2 == 0) {
    const std::string file = expanded(rest, false);
    const fuzz::AllocationLimit limit(file.size());
    return data::read_tokenizer(fuzz::source("fuzz", file));
  }
  const std::size_t cut = std::min(rest.find(between_files), rest.size());
  const std::string vocabulary = expanded(rest.substr(0, cut), true);
  const std::string_view merges = rest.substr(std::min(cut + 1, rest.size()));
  const fuzz::AllocationLimit limit(vocabulary.size() + merges.size());
  return std::make_unique<data::BytePairTokenizer>(
      data::read_gpt2(fuzz::source("vocabulary", vocabulary), fuzz::source("merges", merges)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  std::unique_ptr<data::Tokenizer> tokenizer;
  try {
    tokenizer = made_of(bytes[0], rest);
  } catch (const Error&) {
    return 0;
  }
  // Not for every input, because it takes longer than reading.
  if (bytes[0] >= 192) fuzz::check_tokenizer(*tokenizer, rest);
  if (bytes[0] >= 240) fuzz::check_file(*tokenizer);
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  static const std::vector<fuzz::File> files = [] {
    const std::string head = "{\"format\":\"extensor.tokenizer\",\"version\":1,\"kind\":";
    std::vector<fuzz::File> list;
    for (const std::string& text :
         {'\0' + head +
              "\"byte_pair\",\"tokens\":[\1,\"ab\",\"abc\"],\"merges\":[[97,98],[256,99]]}",
          '\0' + head + "\"character\",\"tokens\":[\"\\n\",\"a\",\"ä\"]}",
          std::string("\1{\1,\"ab\":256,\"abab\":257}\2#version: 0.2\na b\nab ab\n")}) {
      const auto bytes = std::as_bytes(std::span(text));
      list.emplace_back(bytes.begin(), bytes.end());
    }
    return list;
  }();
  return fuzz::mutate(data, size, most, seed, files);
}
