#include "base/utf8.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

using namespace std::string_view_literals;

// Sequences that Unicode's table of well-formed bytes excludes.
constexpr std::string_view kNoText[] = {
    "\xff"sv,         "\x80"sv,         "\xc0\x80"sv,         "\xc3"sv,
    "\xe0\x80\x80"sv, "\xed\xa0\x80"sv, "\xf4\x90\x80\x80"sv, "\xe2\x82"sv};
constexpr std::string_view kText[] = {""sv, "a\0b"sv, "caf\xc3\xa9"sv, "\xe2\x82\xac"sv,
                                      "\xf0\x9f\x98\x80"sv};

TEST(Utf8, TellsTextFromBytes) {
  for (const auto text : kText) {
    EXPECT_TRUE(IsUtf8(text));
    EXPECT_EQ(ToUtf8(text), text);
  }
  for (const auto text : kNoText) {
    EXPECT_FALSE(IsUtf8(text));
    EXPECT_TRUE(IsUtf8(ToUtf8(text)));
  }
  EXPECT_EQ(ToUtf8("caf\xe9!"), "caf\xef\xbf\xbd!");
  EXPECT_EQ(ToUtf8("\xe2\x82"), "\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(Utf8, TakesCharactersOff) {
  std::string_view text = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xff";
  EXPECT_EQ(TakeCharacter(text), U'a');
  EXPECT_EQ(TakeCharacter(text), char32_t{0xe9});
  EXPECT_EQ(TakeCharacter(text), char32_t{0x20ac});
  EXPECT_EQ(TakeCharacter(text), char32_t{0x1f600});
  EXPECT_EQ(TakeCharacter(text), std::nullopt);
  EXPECT_TRUE(text.empty());
}

TEST(Utf8, LeavesOutCredentials) {
  EXPECT_EQ(WithoutCredentials("'s3://key:s3cret@host/a' is remote"), "'s3://***@host/a' is remote");
  EXPECT_EQ(WithoutCredentials("s3://key:with/slash@host"), "s3://***@host");
  EXPECT_EQ(WithoutCredentials("http://only@host, a:b@host:1"), "http://***@host, ***@host:1");
  for (const char* text : {"", "@", "/models/a@b is missing", "http://host/x, me@home", "http://@host"}) {
    EXPECT_EQ(WithoutCredentials(text), text);
  }
}

TEST(Utf8, RepeatsTheBeginningOfALongText) {
  EXPECT_EQ(Shortened(""), "");
  EXPECT_EQ(Shortened(std::string(kMostRepeated, 'x')), std::string(kMostRepeated, 'x'));
  EXPECT_EQ(Shortened(std::string(70'000, 'x')), std::string(kMostRepeated, 'x') + "... (70000 bytes)");
  // Characters stay whole; invalid UTF-8 is cut anywhere.
  EXPECT_EQ(Shortened("a\xe2\x82\xac", 3), "a... (4 bytes)");
  EXPECT_EQ(Shortened("\xf0\x9f\x98\x80", 3), "... (4 bytes)");
  EXPECT_EQ(Shortened("\x80\x80\x80\x80\x80\x80", 5), "\x80\x80... (6 bytes)");
}

TEST(Utf8, KnowsWhatDoesNotPrint) {
  for (const char32_t c : {0x00, 0x0a, 0x1b, 0x7f, 0x9b, 0x2028, 0x202e, 0x2066}) {
    EXPECT_TRUE(IsControlCharacter(c)) << static_cast<uint32_t>(c);
  }
  for (const char32_t c : {0x20, 0x7e, 0xa0, 0xe9, 0x20ac, 0x1f600}) {
    EXPECT_FALSE(IsControlCharacter(c)) << static_cast<uint32_t>(c);
  }
}

TEST(ShellQuoted, IsOneWord) {
  EXPECT_EQ(ShellQuoted("a b"), "'a b'");
  EXPECT_EQ(ShellQuoted("it's $HOME"), R"('it'\''s $HOME')");
  EXPECT_EQ(ShellQuoted(""), "''");
}

}  // namespace
}  // namespace braid
