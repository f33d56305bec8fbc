// Malformed tokenizer files and text.
#include <sys/stat.h>

#include "data/tokenizer_files.h"
#include "support/allocations.h"
#include "support/byte_pair_reference.h"
#include "support/child_process.h"
#include "support/faulty_files.h"
#include "support/files.h"

namespace {

using namespace extensor;
using data::BytePairTokenizer;
using data::CharacterTokenizer;
using test_support::expect_error;
using test_support::FaultyFiles;
using test_support::Parts;
using test_support::TemporaryDirectory;
using test_support::write_file;

std::unique_ptr<data::Tokenizer> read_json(const std::string& file) {
  return data::read_tokenizer(
      io::MemorySource("load_tokenizer: 'file'", std::as_bytes(std::span(file))));
}

BytePairTokenizer read_gpt2(const std::string& vocabulary, const std::string& merges) {
  return data::read_gpt2(
      io::MemorySource("load_gpt2: 'vocabulary'", std::as_bytes(std::span(vocabulary))),
      io::MemorySource("load_gpt2: 'merges'", std::as_bytes(std::span(merges))));
}

void expect_json_error(const std::string& file, std::vector<std::string> parts) {
  parts.emplace_back("load_tokenizer: 'file'");
  expect_error<FormatError>([&] { read_json(file); }, parts);
}

void expect_gpt2_error(const std::string& vocabulary, const std::string& merges,
                       const std::vector<std::string>& parts) {
  expect_error<FormatError>([&] { read_gpt2(vocabulary, merges); }, parts);
}

// ---- files in memory ----------------------------------------------------------------------------

std::string json(const std::string& rest) {
  return "{\"format\":\"extensor.tokenizer\",\"version\":1," + rest + "}";
}
std::string characters(const std::string& tokens) {
  return json("\"kind\":\"character\",\"tokens\":" + tokens);
}

// "Ā","ā",…: the 256 bytes.
const std::string& all_bytes() {
  static const std::string list = [] {
    const std::string file = BytePairTokenizer::train("", 256).to_json();
    const std::size_t begin = file.find('[') + 1;
    return file.substr(begin, file.find("],\"merges\"") - begin);
  }();
  return list;
}
std::string byte_pairs(const std::string& more_tokens, const std::string& merges) {
  return json("\"kind\":\"byte_pair\",\"tokens\":[" + all_bytes() + more_tokens +
              "],\"merges\":" + merges);
}

Parts with_bytes(const Parts& more) {
  Parts tokens = test_support::gpt2_bytes();
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}
const std::string vocabulary = test_support::gpt2_vocabulary(with_bytes({"ab", "abc"}));
const std::string merges = "#version: 0.2\na b\nab c\n";

// ---- the tests

CHILD_TEST(BadInputTokenizers, Item80TruncationAtEveryByte) {
  for (const std::string& file : {CharacterTokenizer("abä\n").to_json(),
                                  BytePairTokenizer::train("abababab abc", 260).to_json()}) {
    EXPECT_NO_THROW(read_json(file));
    for (std::size_t size = 0; size < file.size(); ++size) {
      EXPECT_THROW(read_json(file.substr(0, size)), FormatError) << size;
    }
  }
  EXPECT_NO_THROW(read_gpt2(vocabulary, merges));
  for (std::size_t size = 0; size < vocabulary.size(); ++size) {
    EXPECT_THROW(read_gpt2(vocabulary.substr(0, size), merges), FormatError) << size;
  }
  // A prefix of whole lines is a valid file with fewer pairs.
  for (std::size_t size = 0; size < merges.size(); ++size) {
    const std::string cut = merges.substr(0, size);
    if (cut.empty() || cut.back() == '\n') {
      EXPECT_NO_THROW(read_gpt2(vocabulary, cut));
    } else {
      EXPECT_THROW(read_gpt2(vocabulary, cut), FormatError) << size;
    }
  }
}

CHILD_TEST(BadInputTokenizers, Item80EveryByteFlipped) {
  const std::string json_file = BytePairTokenizer::train("abababab abc", 260).to_json();
  int refused = 0, read = 0;
  const auto try_all = [&](const std::string& right, auto&& call) {
    for (std::size_t at = 0; at < right.size(); ++at) {
      for (const int change : {0x01, 0x02, 0x08, 0x20, 0x80, 0xff}) {
        std::string file = right;
        file[at] = static_cast<char>(file[at] ^ change);
        try {
          call(file);
          ++read;
        } catch (const FormatError&) {
          ++refused;
        }
      }
    }
  };
  const std::string text("any \0 \xff text abc", 17);
  try_all(json_file, [&](const std::string& file) {
    const auto tokenizer = read_json(file);
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  });
  try_all(vocabulary, [&](const std::string& file) {
    const auto tokenizer = read_gpt2(file, merges);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  });
  try_all(merges, [&](const std::string& file) {
    const auto tokenizer = read_gpt2(vocabulary, file);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  });
  EXPECT_GT(refused, 5000);
  EXPECT_GT(read, 5);
}

CHILD_TEST(BadInputTokenizers, Item82NestedDeeply) {
  const std::size_t depth = 100'000;
  const std::string open(depth, '['), close(depth, ']');
  std::string objects;
  for (std::size_t i = 0; i < depth; ++i) objects += "{\"tokens\":";
  expect_json_error(objects, {"tokens", "an object"});
  expect_json_error(open, {"begins with", "an object"});
  expect_json_error(characters(open + close), {"token 0", "an array", "a string"});
  expect_json_error(byte_pairs("", open + close), {"pair 1", "an array"});
  expect_json_error(json("\"kind\":" + open + close), {"kind", "an array", "a string"});
  expect_gpt2_error(objects, "", {"'vocabulary'", "'tokens'", "an object"});
  expect_gpt2_error("{\"a\":" + open + close + "}", "", {"'vocabulary'", "'a'", "an array"});
  expect_gpt2_error(open + close, "", {"'vocabulary'", "begins with"});
}

CHILD_TEST(BadInputTokenizers, Item83DuplicateKeys) {
  expect_json_error(json("\"kind\":\"character\",\"tokens\":[],\"tokens\":[]"),
                    {"'tokens'", "twice"});
  expect_json_error(json("\"version\":1,\"kind\":\"character\",\"tokens\":[]"),
                    {"'version'", "twice"});
  expect_json_error(characters("[\"a\",\"a\"]"), {"token 1", "'a'", "ascend"});
  expect_json_error(characters("[\"b\",\"a\"]"), {"token 1", "'a'", "ascend"});
  expect_json_error(byte_pairs(",\"ab\",\"ab\"", "[]"), {"256 and 257", "'ab'", "once"});
  expect_json_error(byte_pairs(",\"\\u0061\"", "[]"), {"97 and 256", "'a'"});
  expect_json_error(byte_pairs(",\"ab\"", "[[97,98],[97,98]]"), {"pair 2", "97 and 98", "pair 1"});
  std::string twice = vocabulary;
  expect_gpt2_error(twice.replace(twice.rfind("\"abc\""), 5, "\"ab\""), merges,
                    {"'vocabulary'", "'ab'", "256 and 257"});
  expect_gpt2_error(vocabulary, merges + "a b\n", {"'merges': line 4", "already", "pair 1"});
}

// Required keys, and no others.
CHILD_TEST(BadInputTokenizers, Item84MissingUnknownOrOther) {
  EXPECT_EQ(read_json(characters("[]"))->size(), 0);
  expect_json_error("", {"begins with ''"});
  expect_json_error("{}", {"format is missing"});
  expect_json_error("\xef\xbb\xbf" + characters("[]"), {"begins with"});
  expect_json_error(characters("[]") + std::string("\0", 1), {"NUL"});
  expect_json_error(characters("[]") + "x", {"JSON"});
  expect_json_error(characters("[]").substr(1), {"begins with"});
  expect_json_error("{\"version\":1,\"kind\":\"character\",\"tokens\":[]}", {"format is missing"});
  expect_json_error(json("\"tokens\":[]"), {"kind is missing"});
  expect_json_error(json("\"kind\":\"character\""), {"tokens is missing"});
  expect_json_error(json("\"kind\":\"character\",\"tokens\":[],\"merges\":[]"),
                    {"merges are there", "'character'"});
  expect_json_error(json("\"kind\":\"byte_pair\",\"tokens\":[" + all_bytes() + "]"),
                    {"merges are missing"});
  expect_json_error(json("\"kind\":\"word\",\"tokens\":[]"), {"'word'", "'byte_pair'"});
  expect_json_error(json("\"kind\":\"character\",\"tokens\":[],\"x\":1"), {"unknown key 'x'"});
  expect_json_error("{\"format\":\"other\"}", {"'other'", "'extensor.tokenizer'"});
  expect_json_error("{\"format\":1}", {"format is the number 1", "a string"});
  expect_json_error("{\"version\":2}", {"version is 2", "allowed: 1"});
  expect_json_error("{\"version\":-1}", {"version is the number -1"});
  expect_json_error("{\"version\":1.0}", {"version is the number '1.0'"});
  expect_json_error("{\"version\":\"1\"}", {"version is the string '1'"});
  expect_json_error("{\"tokens\":{}}", {"tokens is an object", "an array"});
  expect_json_error("{\"tokens\":null}", {"tokens is null"});
}

CHILD_TEST(BadInputTokenizers, Item85TokensThatAreNone) {
  expect_json_error(characters("[\"ab\"]"), {"token 0", "'ab'", "one character"});
  expect_json_error(characters("[\"\"]"), {"token 0", "0 bytes"});
  expect_json_error(characters("[\"a\",1]"), {"token 1", "the number 1", "a string"});
  expect_json_error(characters("[\"a\",true]"), {"token 1", "a boolean"});
  expect_json_error(characters("[\"\\ud800\"]"), {"JSON"});
  expect_json_error(characters("[\"\xff\"]"), {"JSON"});
  expect_json_error(characters("[\"" + std::string(5000, 'a') + "\"]"), {"token 0", "5000 bytes"});
  expect_json_error(byte_pairs(",\"" + std::string(1025, 'a') + "\"", "[]"),
                    {"token 256", "1025 bytes", "1024"});
  EXPECT_NO_THROW(read_json(byte_pairs(",\"" + std::string(1024, 'a') + "\"", "[]")));
  expect_json_error(byte_pairs(",\"a b\"", "[]"), {"token 256", "'a b'", "no byte"});
  expect_json_error(byte_pairs(",\"€\"", "[]"), {"token 256", "'€'", "no byte"});
  // Every byte but 'a'.
  std::string file = byte_pairs("", "[]");
  expect_json_error(file.replace(file.find("\"a\""), 4, ""), {"byte 97", "'a'"});
  expect_json_error(byte_pairs(",\"ab\"", "[[97,99]]"), {"pair 1", "'ac'", "no token"});
  expect_json_error(byte_pairs(",\"ab\"", "[[97,98],[256,257]]"), {"pair 2", "257", "0 to 256"});
  expect_json_error(byte_pairs("", "[[97]]"), {"pair 1", "1 numbers"});
  expect_json_error(byte_pairs("", "[[97,98,99]]"), {"pair 1", "more than 2"});
  expect_json_error(byte_pairs("", "[[]]"), {"pair 1", "0 numbers"});
  expect_json_error(byte_pairs("", "[97]"), {"pair 1", "the number 97"});
  expect_json_error(byte_pairs("", "[[97,-1]]"), {"pair 1", "-1"});
  expect_json_error(byte_pairs("", "[[97,1e3]]"), {"pair 1", "1e3"});
  expect_json_error(byte_pairs("", "[[97,\"b\"]]"), {"pair 1", "'b'"});
  expect_json_error(byte_pairs("", "[[97,4294967296]]"), {"pair 1", "4294967296"});
  expect_json_error(byte_pairs("", "[[97,99999999999999999999]]"), {"pair 1", "9999"});
  expect_json_error(byte_pairs("", "[[{}]]"), {"pair 1", "an object"});
}

CHILD_TEST(BadInputTokenizers, Item85Gpt2FilesThatDoNotFit) {
  const auto numbered = [&](const std::string& last) {
    return vocabulary.substr(0, vocabulary.rfind(' ') + 1) + last + "}";
  };
  EXPECT_NO_THROW(read_gpt2(numbered("257"), merges));
  expect_gpt2_error(numbered("256"), merges, {"'vocabulary'", "'ab' and 'abc'", "256"});
  expect_gpt2_error(numbered("258"), merges, {"'vocabulary'", "'abc'", "258 of 258", "gap"});
  expect_gpt2_error(numbered("4294967295"), merges, {"'abc'", "4294967295"});
  expect_gpt2_error(numbered("4294967296"), merges, {"'abc'", "4294967296"});
  expect_gpt2_error(numbered("18446744073709551616"), merges, {"'abc'", "18446744073709551616"});
  expect_gpt2_error(numbered("-1"), merges, {"'abc'", "-1"});
  expect_gpt2_error(numbered("1.5"), merges, {"'abc'", "1.5"});
  expect_gpt2_error(numbered("\"257\""), merges, {"'abc'", "'257'"});
  expect_gpt2_error(numbered("null"), merges, {"'abc'", "null"});
  expect_gpt2_error(numbered("257,\"\":258"), merges, {"''", "0 bytes"});
  expect_gpt2_error(numbered("257,\"a b\":258"), merges, {"'a b'", "no byte"});
  expect_gpt2_error(numbered("257,\"\\u0000\":258"), merges, {"'\\x00'", "no byte"});
  expect_gpt2_error("{}", "", {"'vocabulary'", "byte 0"});
  expect_gpt2_error(test_support::gpt2_vocabulary({"a", "b"}), "", {"'vocabulary'", "byte 0"});

  EXPECT_NO_THROW(read_gpt2(vocabulary, ""));
  const auto line = [&](const std::string& text, const std::vector<std::string>& parts) {
    std::vector<std::string> all = parts;
    all.emplace_back("'merges': line 2");
    expect_gpt2_error(vocabulary, "#version: 0.2\n" + text + "\nab c\n", all);
  };
  line("a c", {"'ac'", "no token"});
  line("a €", {"'€'", "vocabulary"});
  line("abcd a", {"'abcd'", "vocabulary"});
  line("ab", {"'ab'", "a space"});
  line("", {"''", "a space"});
  line(" ab", {"' ab'"});
  line("ab ", {"'ab '"});
  line("a  b", {"'a  b'"});
  line("a b c", {"'a b c'"});
  line("a \xff", {"'\\xff'"});
  line(std::string("a\0b", 3), {"'a\\x00b'"});
  line("#version: 0.2", {"'#version:'", "vocabulary"});
  expect_gpt2_error(vocabulary, "a b", {"'merges': line 1", "newline"});
}

// Memory is bounded by the size of the file, whatever it claims.
CHILD_TEST(BadInputTokenizers, TakesNoMoreMemoryThanTheFileIsWorth) {
  std::string many_tokens, many_pairs = "[[0,0]", many_names = "{\"\xc4\x80\":0";
  for (int i = 0; i < 400'000; ++i) {
    many_tokens += ",\"";
    for (const int shift : {0, 5, 10, 15})
      many_tokens += static_cast<char>('0' + (i >> shift) % 32);
    many_tokens += '"';
    many_pairs += ",[0,0]";
    many_names += ",\"" + std::to_string(i) + "\":0";
  }
  const auto check = [](std::size_t size, auto&& call) {
    test_support::largest_allocation = 0;
    call();
    EXPECT_LE(test_support::largest_allocation, 2 * size + (1 << 20));
  };
  const std::string tokens = byte_pairs(many_tokens, "[]");
  check(tokens.size(), [&] { EXPECT_EQ(read_json(tokens)->size(), 400'256); });
  for (const std::string& file :
       {byte_pairs("", many_pairs + "]"), byte_pairs("", many_pairs),
        characters("[\"" + std::string(3 << 20, 'a') + "\"]"), "{\"" + std::string(3 << 20, 'a'),
        characters("[" + std::string(3 << 20, ' ') + "]") + "x"}) {
    check(file.size(), [&] { EXPECT_THROW(read_json(file), FormatError); });
  }
  for (const std::string& file : {many_names + "}", many_names, std::string(3 << 20, '{')}) {
    check(file.size(), [&] { EXPECT_THROW(read_gpt2(file, ""), FormatError); });
  }
  const std::string lines(3 << 20, '\n');
  check(lines.size(), [&] { EXPECT_THROW(read_gpt2(vocabulary, lines), FormatError); });
}

CHILD_TEST(BadInputTokenizers, Item89LargerThanAnyTokenizer) {
  const TemporaryDirectory directory;
  write_file(directory / "x", "{");
  std::filesystem::resize_file(directory / "x", (std::uint64_t{256} << 20) + 1);
  expect_error<FormatError>([&] { data::load_tokenizer(directory / "x"); },
                            {"load_tokenizer", "268435457 bytes", "at most"});
  // A sparse file larger than any machine's memory.
  std::error_code error;
  std::filesystem::resize_file(directory / "x", std::uint64_t{1} << 43, error);
  if (error) return;
  expect_error<OutOfMemoryError>([&] { data::load_text(directory / "x"); },
                                 {"load_text", "8796093022208 bytes"});
}

CHILD_TEST(BadInputTokenizers, Item90ShrunkWhileBeingRead) {
  const TemporaryDirectory directory;
  const auto path = directory / "x";
  CharacterTokenizer("abc").save(path);
  FaultyFiles files;
  files.before_pread = [&] { std::filesystem::resize_file(path, 5); };
  expect_error<IoError>([&] { data::read_tokenizer(io::FileSource("load", path, files)); },
                        {"load", path.string(), "ended at byte"});
}

CHILD_TEST(BadInputTokenizers, Item91NotARegularFile) {
  const TemporaryDirectory directory;
  const auto fifo = directory / "fifo", folder = directory / "folder", good = directory / "good";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  std::filesystem::create_directory(folder);
  write_file(good, vocabulary);
  const std::vector<std::pair<std::filesystem::path, std::string>> places = {
      {fifo, "a FIFO"},
      {folder, "a directory"},
      {"/dev/zero", "a device"},
      {directory / "none", "No such file or directory"}};
  for (const auto& [place, kind] : places) {
    const auto& path = place;
    const std::string name = path.string();
    expect_error<IoError>([&] { data::load_text(path); }, {"load_text", name, kind});
    expect_error<IoError>([&] { data::load_tokenizer(path); }, {"load_tokenizer", name, kind});
    expect_error<IoError>([&] { BytePairTokenizer::load_gpt2(path, good); },
                          {"load_gpt2", name, kind});
    expect_error<IoError>([&] { BytePairTokenizer::load_gpt2(good, path); },
                          {"load_gpt2", name, kind});
    if (kind == "No such file or directory") continue;
    expect_error<IoError>([&] { CharacterTokenizer("a").save(path); },
                          {"Tokenizer::save", name, kind});
  }
}

CHILD_TEST(BadInputTokenizers, Item92And95NowhereToWrite) {
  const TemporaryDirectory directory;
  const CharacterTokenizer tokenizer("a");
  expect_error<IoError>([&] { tokenizer.save(directory / "none/t.json"); },
                        {"Tokenizer::save", "none/t.json", "No such file or directory"});
  expect_error<IoError>([&] { tokenizer.save("/proc/t.json"); }, {"'/proc/t.json'"});
  if (std::filesystem::exists("/dev/full")) {
    expect_error<IoError>([&] { tokenizer.save("/dev/full"); }, {"/dev/full", "a device"});
  }
  EXPECT_TRUE(directory.names().empty());
}

CHILD_TEST(BadInputTokenizers, Item96PathThatIsNotUtf8) {
  const TemporaryDirectory directory;
  const auto path = directory / "\xff\xfe\n.json";
  expect_error<IoError>([&] { data::load_tokenizer(path); }, {"\\xff\\xfe\\x0a.json'"});
  CharacterTokenizer("ab").save(path);
  EXPECT_EQ(data::load_tokenizer(path)->size(), 2);
  EXPECT_EQ(data::load_text(path), CharacterTokenizer("ab").to_json() + "\n");
  expect_error<FormatError>([&] { BytePairTokenizer::load_gpt2(path, path); },
                            {"load_gpt2", "\\xff\\xfe"});
  expect_error<ValueError>([&] { data::load_text(directory / std::string_view("a\0b", 3)); },
                           {"load_text", "NUL"});
}

}  // namespace
