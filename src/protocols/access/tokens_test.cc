#include "protocols/access/tokens.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

std::string Who(const Tokens& tokens, std::string_view token) {
  const std::string* identity = tokens.Find(token);
  return identity == nullptr ? "" : *identity;
}

TEST(Tokens, StandForIdentities) {
  // The digest of "test" (FIPS 180-2).
  const auto tokens = Tokens::Parse(
      "# who  token\n"
      "alice  mF_9.B5f-4.1JqM\n"
      "\n"
      "alice\tsecond~/+==\r\n"
      "  ci/build@host:1  "
      "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n"
      "bob  last");
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_EQ((*tokens).size(), 4u);
  EXPECT_EQ(Who(*tokens, "mF_9.B5f-4.1JqM"), "alice");
  EXPECT_EQ(Who(*tokens, "second~/+=="), "alice");
  EXPECT_EQ(Who(*tokens, "test"), "ci/build@host:1");
  EXPECT_EQ(Who(*tokens, "last"), "bob");
  for (const char* other : {"", "Test", "tes", "test ", "mF_9.B5f-4.1Jq",
                            "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}) {
    EXPECT_EQ(Who(*tokens, other), "") << other;
  }
}

TEST(Tokens, MayBeNone) {
  EXPECT_EQ(Tokens::Parse("").value().size(), 0u);
  EXPECT_EQ(Tokens::Parse("\n# none yet\n").value().size(), 0u);
}

TEST(Tokens, FaultsNameTheLineAndNotTheToken) {
  const auto fault = [](std::string_view text) { return Tokens::Parse(text).status().message(); };
  EXPECT_EQ(fault("a b\nalice\n"), "line 2: expected an identity and a token");
  EXPECT_EQ(fault("alice secret more"), "line 1: expected an identity and a token");
  EXPECT_EQ(fault("anonymous secret"), "line 1: 'anonymous' is reserved for requests without a token");
  EXPECT_EQ(fault("al*ce secret"),
            "line 1: an identity can contain only letters, digits and . _ - : / @ + =");
  EXPECT_EQ(fault("alice s\"cret"),
            "line 1: a bearer token can contain only letters, digits and - . _ ~ + / =");
  EXPECT_EQ(fault("alice sha256:9f86"), "line 1: expected 64 hexadecimal digits after 'sha256:'");
  EXPECT_EQ(fault("alice sha256:" + std::string(63, 'a') + "g"),
            "line 1: expected 64 hexadecimal digits after 'sha256:'");
  EXPECT_EQ(fault("alice same\nalice same\n\nbob same"), "line 4: duplicate token, already used for 'alice'");
}

}  // namespace
}  // namespace braid
