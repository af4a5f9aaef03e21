#include "protocols/grpc/status.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

TEST(PercentEncodedTest, LeavesPrintableAsciiAlone) {
  EXPECT_EQ(PercentEncoded(""), "");
  EXPECT_EQ(PercentEncoded("no \"such\" thing: ~!"), "no \"such\" thing: ~!");
}

TEST(PercentEncodedTest, EncodesAllElse) {
  EXPECT_EQ(PercentEncoded("100%\n\xc3\xa4\x7f"), "100%25%0A%C3%A4%7F");
}

// A field of HTTP/2 that begins or ends with a blank is invalid.
TEST(PercentEncodedTest, EncodesBlanksAtTheEnds) {
  EXPECT_EQ(PercentEncoded(" a b "), "%20a b%20");
  EXPECT_EQ(PercentEncoded(" "), "%20");
  EXPECT_EQ(PercentEncoded("a  "), "a %20");
}

TEST(PercentEncodedTest, CutsWhatBecomesTooLargeBetweenCharacters) {
  const std::string most(kMostGrpcMessage, 'x');
  EXPECT_EQ(PercentEncoded(most), most);
  const std::string cut = PercentEncoded(most + 'x');
  EXPECT_EQ(cut, most.substr(0, cut.size() - 16) + "... (4097 bytes)");
  EXPECT_EQ(cut.size(), kMostGrpcMessage);
  for (const std::string one : {"\xe2\x82\xac", "%", "\n", "\xff", "\xf0\x9f\x98\x80"}) {
    for (const size_t before : {0, 1, 2, 3}) {
      std::string text(before, 'x');
      while (text.size() < 70'000) text += one;
      const std::string encoded = PercentEncoded(text);
      const std::string mark = "... (" + std::to_string(text.size()) + " bytes)";
      ASSERT_LE(encoded.size(), kMostGrpcMessage);
      EXPECT_GT(encoded.size(), kMostGrpcMessage - mark.size() - 12);
      ASSERT_TRUE(encoded.ends_with(mark));
      // As many whole characters as fit.
      const std::string whole = PercentEncoded(one);
      EXPECT_EQ((encoded.size() - mark.size() - before) % whole.size(), 0U) << one;
    }
  }
}

}  // namespace
}  // namespace braid
