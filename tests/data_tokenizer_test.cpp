// Tokenizers: against a plain reference, by hand, in files, on real text.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "data/words.h"
#include "support/byte_pair_reference.h"
#include "support/data_files.h"
#include "support/files.h"

namespace extensor {
namespace {

using data::BytePairTokenizer;
using data::CharacterTokenizer;
using data::Tokens;
using test_support::Parts;
using test_support::read_file;
using test_support::StringPair;
using test_support::TemporaryDirectory;
using test_support::write_file;

Parts words_of(const std::string& text) {
  Parts words;
  data::each_word(text, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

std::string random_text(std::mt19937& random, std::string_view alphabet, std::size_t size) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) text += alphabet[random() % alphabet.size()];
  return text;
}

std::string random_bytes(std::mt19937& random, std::size_t size) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) text += static_cast<char>(random());
  return text;
}

Tokens reference_tokens(const std::string& text, const Parts& tokens,
                        const std::vector<StringPair>& merges) {
  Tokens result;
  for (const std::string& word : test_support::ascii_words(text)) {
    for (const std::string& part : test_support::join_word(word, merges)) {
      result.push_back(std::ranges::find(tokens, part) - tokens.begin());
    }
  }
  return result;
}

BytePairTokenizer gpt2(const Parts& tokens, const std::vector<StringPair>& merges) {
  const TemporaryDirectory directory;
  write_file(directory / "vocab.json", test_support::gpt2_vocabulary(tokens));
  write_file(directory / "merges.txt", test_support::gpt2_merges(merges));
  return BytePairTokenizer::load_gpt2(directory / "vocab.json", directory / "merges.txt");
}

// ---- words --------------------------------------------------------------------------------------

TEST(Words, AreThoseOfTheExpression) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const std::string text = random_text(random, "ab1. \n\t'sdlrevtm", 1 + random() % 24);
    EXPECT_EQ(words_of(text), test_support::ascii_words(text)) << text;
  }
}

// The split of Python's `regex` with GPT-2's expression.
TEST(Words, KnowUnicode) {
  EXPECT_EQ(words_of("Größe naïve Ωmega Привет, мир!"),
            (Parts{"Größe", " naïve", " Ωmega", " Привет", ",", " мир", "!"}));
  EXPECT_EQ(words_of("東京タワー、２０２４年"), (Parts{"東京タワー", "、", "２０２４", "年"}));
  EXPECT_EQ(words_of("½ ² Ⅷ x²"), (Parts{"½", " ²", " Ⅷ", " x", "²"}));
  EXPECT_EQ(words_of("a\u00a0b\u3000\u2003c"),
            (Parts{"a", "\u00a0", "b", "\u3000", "\u2003", "c"}));
  EXPECT_EQ(words_of("😀 😀x"), (Parts{"😀", " 😀", "x"}));
  EXPECT_EQ(words_of("हिन्दी"), (Parts{"ह", "ि", "न", "्", "द", "ी"}));  // marks are not letters
  EXPECT_EQ(words_of("it's I'LL  end  "), (Parts{"it", "'s", " I", "'", "LL", " ", " end", "  "}));
}

TEST(Words, TakeBytesThatAreNotUtf8ForOtherCharacters) {
  EXPECT_EQ(words_of("a\xff\xfe"
                     "b \xc3"),
            (Parts{"a", "\xff\xfe", "b", " \xc3"}));
  EXPECT_EQ(words_of(std::string("a\0b", 3)), (Parts{"a", std::string(1, '\0'), "b"}));
}

// ---- training

TEST(BytePairTraining, ByHand) {
  // aa occurs 4 times; then ab and (aa)a twice each, and ab has the lower number; then (aa)(ab).
  const auto tokenizer = BytePairTokenizer::train("aaabdaaabac", 1000);
  EXPECT_EQ(tokenizer.size(), 259);
  EXPECT_EQ(tokenizer.decode({256}), "aa");
  EXPECT_EQ(tokenizer.decode({257}), "ab");
  EXPECT_EQ(tokenizer.decode({258}), "aaab");
  EXPECT_EQ(tokenizer.encode("aaabdaaabac"), (Tokens{258, 'd', 258, 'a', 'c'}));
  EXPECT_EQ(tokenizer.encode("aaa"), (Tokens{256, 'a'}));
}

TEST(BytePairTraining, StopsAtTheSize) {
  const auto tokenizer = BytePairTokenizer::train("aaabdaaabac", 257);
  EXPECT_EQ(tokenizer.size(), 257);
  EXPECT_EQ(tokenizer.encode("aaab"), (Tokens{256, 'a', 'b'}));
  EXPECT_EQ(BytePairTokenizer::train("aaabdaaabac", 256).size(), 256);
  EXPECT_EQ(BytePairTokenizer::train("", 300).size(), 256);
}

TEST(BytePairTraining, JoinsNothingAcrossWords) {
  const auto tokenizer = BytePairTokenizer::train("x1x1x1x1", 1000);
  EXPECT_EQ(tokenizer.size(), 256);
}

TEST(BytePairTraining, IsThatOfTheReference) {
  std::mt19937 random(2);
  for (int i = 0; i < 60; ++i) {
    const std::string alphabet = i % 3 == 0 ? "ab" : i % 3 == 1 ? "abc " : "abcdef .";
    const std::string text = random_text(random, alphabet, 50 + random() % 400);
    const auto learnt = test_support::learn_pairs(test_support::ascii_words(text), 300);
    const auto tokenizer = BytePairTokenizer::train(text, 300);
    ASSERT_EQ(tokenizer.size(), static_cast<std::int64_t>(learnt.tokens.size()));
    for (std::size_t k = 0; k < learnt.tokens.size(); ++k) {
      ASSERT_EQ(tokenizer.decode({static_cast<std::int64_t>(k)}), learnt.tokens[k]);
    }
    for (int j = 0; j < 5; ++j) {
      const std::string other = random_text(random, alphabet, 60);
      EXPECT_EQ(tokenizer.encode(other), reference_tokens(other, learnt.tokens, learnt.merges));
    }
  }
}

TEST(BytePairTraining, MakesNoTokenLongerThanALimit) {
  const auto tokenizer = BytePairTokenizer::train(std::string(100'000, 'a'), 1000);
  EXPECT_EQ(tokenizer.size(), 256 + 10);  // 2, 4, … 1024
  EXPECT_EQ(tokenizer.decode({265}).size(), 1024U);
  EXPECT_EQ(tokenizer.encode(std::string(2048 + 3, 'a')), (Tokens{265, 265, 256, 'a'}));
}

TEST(BytePairTraining, RefusesFewerTokensThanBytes) {
  EXPECT_THROW(BytePairTokenizer::train("text", 255), ValueError);
  EXPECT_THROW(BytePairTokenizer::train("text", -1), ValueError);
}

// ---- encoding -----------------------------------------------------------------------------------

TEST(BytePairEncoding, RoundTripsAnyBytes) {
  std::mt19937 random(3);
  const std::string bytes = random_bytes(random, 3000);
  const auto tokenizer = BytePairTokenizer::train(bytes + bytes + "the the theme", 400);
  EXPECT_EQ(tokenizer.size(), 400);
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  for (const std::string& text :
       {std::string(), all, all + all, bytes, std::string(70, '\0'), std::string("\xf0\x9f\x98"),
        std::string("a\xc3"), std::string(" \xe2\x82 ")}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
  for (int i = 0; i < 500; ++i) {
    const std::string text = random_bytes(random, random() % 100);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

TEST(BytePairEncoding, TakesAWordOfAMillionBytes) {
  const auto tokenizer = BytePairTokenizer::train("ababab abab ab", 260);
  std::string text;
  for (int i = 0; i < 1 << 19; ++i) text += i % 5 == 0 ? "ba" : "ab";
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST(BytePairEncoding, SaysWhatIsNoToken) {
  const auto tokenizer = BytePairTokenizer::train("", 256);
  EXPECT_THROW(tokenizer.decode({0, 256}), IndexError);
  EXPECT_THROW(tokenizer.decode({-1}), IndexError);
}

// ---- GPT-2's files ------------------------------------------------------------------------------

// The beginning of GPT-2's own files, and its last token, with the well-known numbers.
TEST(Gpt2Files, ByHand) {
  Parts tokens = test_support::gpt2_bytes();
  const std::vector<StringPair> merges = {{" ", "t"}, {" ", "a"}, {"h", "e"},  {"i", "n"},
                                          {"r", "e"}, {"o", "n"}, {" t", "he"}};
  for (const auto& [left, right] : merges) tokens.push_back(left + right);
  tokens.emplace_back("<|endoftext|>");
  const auto tokenizer = gpt2(tokens, merges);
  EXPECT_EQ(tokenizer.size(), 264);
  EXPECT_EQ(tokenizer.encode("!"), (Tokens{0}));
  EXPECT_EQ(tokenizer.encode("a"), (Tokens{64}));
  EXPECT_EQ(tokenizer.encode("\n"), (Tokens{198}));
  EXPECT_EQ(tokenizer.encode(" "), (Tokens{220}));
  EXPECT_EQ(tokenizer.encode("the in the"), (Tokens{83, 258, 220, 259, 262}));
  EXPECT_EQ(tokenizer.encode(" on are"), (Tokens{220, 261, 257, 260}));
  EXPECT_EQ(tokenizer.decode({263, 262}), "<|endoftext|> the");
  const std::string end = "<|endoftext|>";
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(end)), end);
  EXPECT_GT(tokenizer.encode(end).size(), 1U);
}

// Pairs whose tokens can be formed in several ways, or by a later pair: the order must be GPT-2's.
TEST(Gpt2Files, EncodeAsTheReference) {
  std::mt19937 random(4);
  for (int i = 0; i < 60; ++i) {
    std::vector<std::string> parts = {"a", "b", "c"};
    std::vector<StringPair> merges;
    while (merges.size() < 12) {
      const StringPair pair = {parts[random() % parts.size()], parts[random() % parts.size()]};
      if (pair.first.size() + pair.second.size() > 6) continue;
      if (std::ranges::find(merges, pair) != merges.end()) continue;
      merges.push_back(pair);
      const std::string both = pair.first + pair.second;
      if (std::ranges::find(parts, both) == parts.end()) parts.push_back(both);
    }
    if (i % 2 == 1) std::ranges::shuffle(merges, random);
    Parts tokens = test_support::gpt2_bytes();
    tokens.insert(tokens.end(), parts.begin() + 3, parts.end());
    const auto tokenizer = gpt2(tokens, merges);
    for (int j = 0; j < 40; ++j) {
      const std::string text = random_text(random, "aabbc", 1 + random() % 40);
      EXPECT_EQ(tokenizer.encode(text), reference_tokens(text, tokens, merges)) << text;
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    }
  }
}

TEST(Gpt2Files, AreReadWithoutAVersionAndFromWindows) {
  const TemporaryDirectory directory;
  Parts tokens = test_support::gpt2_bytes();
  tokens.emplace_back("ab");
  write_file(directory / "vocab.json", test_support::gpt2_vocabulary(tokens));
  for (const char* merges : {"a b\n", "#version: 0.2\r\na b\r\n"}) {
    write_file(directory / "merges.txt", merges);
    const auto tokenizer =
        BytePairTokenizer::load_gpt2(directory / "vocab.json", directory / "merges.txt");
    EXPECT_EQ(tokenizer.encode("cab"), (Tokens{66, 256}));
  }
}

// ---- our file format

TEST(TokenizerFiles, RoundTrip) {
  const TemporaryDirectory directory;
  std::mt19937 random(5);
  const std::string text = random_text(random, "the quick brown fox. 12", 2000);
  const auto trained = BytePairTokenizer::train(text + random_bytes(random, 1000), 350);
  trained.save(directory / "t.json");
  const auto loaded = data::load_tokenizer(directory / "t.json");
  EXPECT_EQ(loaded->size(), trained.size());
  EXPECT_EQ(loaded->to_json(), trained.to_json());
  EXPECT_EQ(loaded->encode(text), trained.encode(text));
  EXPECT_LT(trained.encode(text).size(), text.size());
  EXPECT_NE(dynamic_cast<const BytePairTokenizer*>(loaded.get()), nullptr);

  const CharacterTokenizer characters(std::string_view("\0\"\\b\n€😀 a\x7f", 15));
  characters.save(directory / "t.json");
  const auto again = data::load_tokenizer(directory / "t.json");
  EXPECT_EQ(again->to_json(), characters.to_json());
  EXPECT_EQ(again->decode(again->encode("😀€\n")), "😀€\n");
  EXPECT_EQ(directory.names(), std::vector<std::string>{"t.json"});
}

TEST(TokenizerFiles, AreTheseBytes) {
  const TemporaryDirectory directory;
  CharacterTokenizer("ba\nä").save(directory / "t.json");
  EXPECT_EQ(read_file(directory / "t.json"),
            "{\"format\":\"extensor.tokenizer\",\"version\":1,\"kind\":\"character\","
            "\"tokens\":[\"\\n\",\"a\",\"b\",\"ä\"]}\n");
  const std::string json = BytePairTokenizer::train("abab", 300).to_json();
  EXPECT_TRUE(
      json.starts_with("{\"format\":\"extensor.tokenizer\",\"version\":1,"
                       "\"kind\":\"byte_pair\",\"tokens\":[\"Ā\",\"ā\","));
  EXPECT_TRUE(json.ends_with(",\"þ\",\"ÿ\",\"ab\"],\"merges\":[[97,98]]}"));
}

TEST(TokenizerFiles, KeysMayComeInAnyOrder) {
  const TemporaryDirectory directory;
  write_file(directory / "t.json",
             "{ \"tokens\": [\"a\", \"\\u00e4\"],\n\"kind\": \"character\", \"version\": 1,"
             "\"format\": \"extensor.tokenizer\" }\n\n");
  EXPECT_EQ(data::load_tokenizer(directory / "t.json")->encode("äa"), (Tokens{1, 0}));
}

// ---- real text ----------------------------------------------------------------------------------

TEST(BytePairTraining, LearnsShakespeare) {
  const std::filesystem::path directory = test_support::data_directory("text");
  if (directory.empty()) GTEST_SKIP() << test_support::missing_data;
  const std::string text = data::load_text(directory / "tinyshakespeare.txt");
  const BytePairTokenizer tokenizer = BytePairTokenizer::train(text, 1024);
  const Tokens tokens = tokenizer.encode(text);
  EXPECT_EQ(tokenizer.size(), 1024);
  EXPECT_EQ(tokenizer.decode(tokens), text);
  EXPECT_LT(tokens.size(), text.size() / 2);
  EXPECT_EQ(CharacterTokenizer(text).size(), 65);
}

}  // namespace
}  // namespace extensor
