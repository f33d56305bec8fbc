// Characters as tokens, files of text, and windows of tokens.
#include <gtest/gtest.h>

#include "support/child_process.h"
#include "support/files.h"

namespace extensor {
namespace {

using data::CharacterTokenizer;
using data::TextDataset;
using data::Tokens;
using test_support::expect_error;
using test_support::expect_same;
using test_support::TemporaryDirectory;
using test_support::write_file;

// ---- characters ---------------------------------------------------------------------------------

TEST(CharacterTokenizer, NumbersCharactersInTheirOrder) {
  const CharacterTokenizer tokenizer("hello, wörld €😀 hello");
  // ' ' ',' d e h l o r w ö € 😀
  EXPECT_EQ(tokenizer.size(), 12);
  EXPECT_EQ(tokenizer.encode("hello"), (Tokens{4, 3, 5, 5, 6}));
  EXPECT_EQ(tokenizer.encode(" ,ö€😀"), (Tokens{0, 1, 9, 10, 11}));
  EXPECT_EQ(tokenizer.decode({11, 10, 9, 2}), "😀€öd");
  EXPECT_EQ(tokenizer.encode(""), Tokens{});
  EXPECT_EQ(tokenizer.decode({}), "");
}

TEST(CharacterTokenizer, RoundTripsTheEdgesOfUtf8) {
  const std::string text("\0\x7f\u0080\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff", 26);
  const CharacterTokenizer tokenizer(text);
  EXPECT_EQ(tokenizer.size(), 10);
  EXPECT_EQ(tokenizer.encode(text), (Tokens{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST(CharacterTokenizer, MayKnowNothing) {
  const CharacterTokenizer tokenizer("");
  EXPECT_EQ(tokenizer.size(), 0);
  EXPECT_EQ(tokenizer.encode(""), Tokens{});
  expect_error<ValueError>([&] { tokenizer.encode("a"); }, {"'a'", "byte 0"});
  expect_error<IndexError>([&] { tokenizer.decode({0}); }, {"0 at position 0"});
}

TEST(CharacterTokenizer, SaysWhatItDoesNotKnow) {
  const CharacterTokenizer tokenizer("abc");
  expect_error<ValueError>([&] { tokenizer.encode("ab€c"); },
                           {"CharacterTokenizer::encode", "'€'", "byte 2"});
  expect_error<ValueError>([&] { tokenizer.encode("abc\xff"); }, {"'\\xff'", "byte 3", "UTF-8"});
  expect_error<ValueError>([] { CharacterTokenizer("a\xc3"); },
                           {"CharacterTokenizer", "byte 1", "UTF-8"});
  expect_error<IndexError>(
      [&] {
        tokenizer.decode({0, 3});
      },
      {"CharacterTokenizer::decode", "3 at position 1", "below 3"});
  expect_error<IndexError>([&] { tokenizer.decode({-1}); }, {"-1 at position 0"});
}

// ---- files --------------------------------------------------------------------------------------

TEST(LoadText, IsTheWholeFile) {
  const TemporaryDirectory directory;
  const std::string text("Größe\r\n\0€\n", 14);
  for (const std::string& content : {text, std::string(), std::string(3 << 20, 'x')}) {
    write_file(directory / "x.txt", content);
    EXPECT_EQ(data::load_text(directory / "x.txt"), content);
  }
}

TEST(LoadText, NamesTheByteThatIsNotUtf8) {
  const TemporaryDirectory directory;
  const auto path = directory / "x.txt";
  const auto refused = [&](const std::string& content, const std::string& at) {
    write_file(path, content);
    expect_error<FormatError>([&] { data::load_text(path); },
                              {"load_text", path.string(), "at byte " + at + " ", "UTF-8"});
  };
  refused("abc\xff", "3");
  refused("€\xe2\x82", "3");           // truncated
  refused("a\xc0\x80", "1");           // an overlong encoding
  refused("\xed\xa0\x80", "0");        // half of a surrogate pair
  refused("ab\xf4\x90\x80\x80", "2");  // beyond U+10FFFF
}

// ---- windows ------------------------------------------------------------------------------------

TEST(TextDataset, GivesWindowsAndWhatFollows) {
  const TextDataset windows(arange(10) * 10, 3);
  EXPECT_EQ(windows.size(), 7);
  const std::vector<std::int64_t> indices = {0, 6, 2, 2};
  const data::Batch batch = windows.batch({indices});
  expect_same(batch.inputs, tensor({{0, 10, 20}, {60, 70, 80}, {20, 30, 40}, {20, 30, 40}}, int64));
  expect_same(batch.targets,
              tensor({{10, 20, 30}, {70, 80, 90}, {30, 40, 50}, {30, 40, 50}}, int64));
  EXPECT_EQ(batch.indices, indices);
  EXPECT_EQ(batch.size(), 4);
}

TEST(TextDataset, TakesStridedTokensAndNoExamples) {
  const TextDataset windows(arange(10).slice(0, {}, {}, -3), 3);  // 9 6 3 0
  EXPECT_EQ(windows.size(), 1);
  const std::vector<std::int64_t> first = {0};
  expect_same(windows.batch({first}).inputs, tensor({{9, 6, 3}}, int64));
  expect_same(windows.batch({first}).targets, tensor({{6, 3, 0}}, int64));
  const data::Batch none = windows.batch({});
  EXPECT_EQ(none.inputs.shape(), (Shape{0, 3}));
  EXPECT_EQ(none.targets.shape(), (Shape{0, 3}));
}

TEST(TextDataset, RefusesWhatHasNoWindows) {
  const Tensor tokens = arange(4);
  expect_error<ValueError>([&] { TextDataset(tokens, 4); },
                           {"TextDataset", "block is 4", "4 tokens"}, {tokens});
  expect_error<ValueError>([&] { TextDataset(tokens, 0); }, {"block is 0"});
  expect_error<ValueError>([&] { TextDataset(tokens, INT64_MIN); }, {"block is"});
  expect_error<ValueError>([&] { TextDataset(tokens, INT64_MAX); }, {"block is"});
  expect_error<ShapeError>([&] { TextDataset(tokens.reshape({2, 2}), 1); }, {"[2, 2]"});
  expect_error<DTypeError>([&] { TextDataset(tokens.to(int32), 1); }, {"int32"});
  expect_error<ValueError>([&] { TextDataset(Tensor(), 1); }, {});
  const TextDataset windows(tokens, 2);
  for (const std::int64_t bad : {std::int64_t{2}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    const std::vector<std::int64_t> indices = {0, bad};
    expect_error<IndexError>([&] { windows.batch({indices}); },
                             {"TextDataset::batch", std::to_string(bad), "2 examples"});
  }
}

}  // namespace
}  // namespace extensor
