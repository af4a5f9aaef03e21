#include "config/model_name.h"

#include <gtest/gtest.h>

#include <string>

namespace braid {
namespace {

using namespace std::string_view_literals;

TEST(ModelName, IsTextWithoutControlCharacters) {
  for (const auto name : {"a"sv, "a b"sv, "..."sv, "model..1"sv, "..my_model"sv, ".hidden"sv, "caf\xc3\xa9"sv,
                          "\xe6\xa8\xa1\xe5\x9e\x8b"sv, "model\\test"sv, "a;b"sv}) {
    EXPECT_TRUE(CheckModelName(name).ok()) << name;
  }
  for (const auto name : {""sv, " "sv, "\t\n"sv}) {
    EXPECT_EQ(CheckModelName(name),
              InvalidArgumentError("Model name cannot be empty. Please enter a valid name to deploy."));
  }
}

TEST(ModelName, WhatIsNoTextIsShownEscaped) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"m\xff", "m\\xff"},          {"caf\xe9", "caf\\xe9"}, {"a\nb", "a\\nb"},
      {"\x1b[31m", "\\x1b[31m"},    {"a\0b"sv, "a\\x00b"},   {"a\xc2\x9b", "a\\u009b"},
      {"a\xe2\x80\xae", "a\\u202e"}};
  for (const auto& [name, shown] : kNames) {
    EXPECT_EQ(CheckModelName(name),
              InvalidArgumentError("invalid model name '" + std::string(shown) +
                                   "', model name must be UTF-8 text without control characters"));
  }
}

TEST(ModelName, IsNoPath) {
  for (const std::string name : {".", "..", "../models", "a/b", "/", "/a"}) {
    EXPECT_EQ(CheckModelName(name),
              InvalidArgumentError("invalid model name '" + name +
                                   "', model name must not contain path traversal characters"));
  }
  EXPECT_TRUE(CheckServableName("org/model").ok());
}

TEST(ModelName, HasRoomInAFolder) {
  EXPECT_TRUE(CheckModelName(std::string(255, 'm')).ok());
  EXPECT_EQ(CheckModelName(std::string(70'000, 'm')),
            InvalidArgumentError("invalid model name '" + std::string(512, 'm') +
                                 "... (70000 bytes)', model name must have at most 255 bytes, got 70000"));
}

TEST(ModelName, SomeCharactersCannotBeLoaded) {
  for (const auto name : {"model\\test", "a;b", "{a}"}) {
    EXPECT_EQ(CheckLoadableName(name),
              InvalidArgumentError("Invalid stub name: contains invalid characters"));
  }
  EXPECT_TRUE(CheckLoadableName("a-b_c.d 1").ok());
}

}  // namespace
}  // namespace braid
