#include "serving/parameters.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

TEST(Parameters, AreAnObjectInTheOrderGiven) {
  EXPECT_EQ(ParametersToJson({}), "{}");
  EXPECT_EQ(ParametersToJson({{"z", true}, {"a", int64_t{-3}}, {"m", 0.5}, {"t", std::string("x\"y\n")}}),
            R"({"z":true,"a":-3,"m":0.5,"t":"x\"y\n"})");
}

TEST(Parameters, KeepLargeNumbers) {
  EXPECT_EQ(ParametersToJson({{"u", UINT64_MAX}, {"i", INT64_MIN}}),
            R"({"u":18446744073709551615,"i":-9223372036854775808})");
}

TEST(Parameters, ReplaceBytesThatAreNotUtf8) {
  EXPECT_EQ(ParametersToJson({{"b", std::string("a\xff"
                                                "b")}}),
            "{\"b\":\"a\xef\xbf\xbd"
            "b\"}");
}

}  // namespace
}  // namespace braid
