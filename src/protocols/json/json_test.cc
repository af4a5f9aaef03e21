#include "protocols/json/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace braid {
namespace {

TEST(Json, ReadsNumbersThatAreNotFinite) {
  simdjson::dom::parser parser;
  const std::string text = R"({"data":[NaN,-NaN , Infinity,-Infinity,
      Inf,-Inf,1e-300,-2],"text":["NaN","x\",Infinity,\\",NaN]})";
  const auto root = ParseJsonCopy(parser, text);
  ASSERT_TRUE(root.ok()) << root.status();
  std::vector<double> numbers;
  for (const auto element : (*root)["data"].get_array()) {
    numbers.emplace_back();
    ASSERT_TRUE(JsonDouble(element, numbers.back()));
  }
  ASSERT_EQ(numbers.size(), 8u);
  EXPECT_TRUE(std::isnan(numbers[0]));
  EXPECT_TRUE(std::isnan(numbers[1]));
  for (const size_t i : {2, 4}) EXPECT_EQ(numbers[i], INFINITY);
  for (const size_t i : {3, 5}) EXPECT_EQ(numbers[i], -INFINITY);
  EXPECT_EQ(numbers[6], 1e-300);
  EXPECT_EQ(numbers[7], -2);
  const auto texts = (*root)["text"].get_array().value();
  EXPECT_EQ(texts.at(0).get_string().value(), "NaN");
  EXPECT_EQ(texts.at(1).get_string().value(), "x\",Infinity,\\");
  EXPECT_TRUE(texts.at(2).is_double());
  double number = 0;
  EXPECT_FALSE(JsonDouble(texts.at(0).value(), number));
  const auto parameter = JsonParameter("p", (*root)["data"].at(2).value());
  ASSERT_TRUE(parameter.ok());
  EXPECT_EQ(std::get<double>(*parameter), INFINITY);
}

TEST(Json, RefusesWhatIsNoNumberAllTheSame) {
  simdjson::dom::parser parser;
  for (const char* text :
       {"[nan]", "[NaNs]", "[+Infinity]", "[1NaN]", "[Infinit]", "[NaN", "NaN", "{NaN:1}", "[-]"}) {
    const auto root = ParseJsonCopy(parser, text);
    ASSERT_FALSE(root.ok()) << text;
    EXPECT_EQ(root.status().message().find("failed to parse the request JSON buffer: "), 0u) << root.status();
  }
}

}  // namespace
}  // namespace braid
