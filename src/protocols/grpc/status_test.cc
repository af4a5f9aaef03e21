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

// A field of HTTP/2 that begins or ends with a blank is not valid.
TEST(PercentEncodedTest, EncodesBlanksAtTheEnds) {
  EXPECT_EQ(PercentEncoded(" a b "), "%20a b%20");
  EXPECT_EQ(PercentEncoded(" "), "%20");
  EXPECT_EQ(PercentEncoded("a  "), "a %20");
}

}  // namespace
}  // namespace braid
