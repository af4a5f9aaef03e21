#include "load/http_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "load/messages.h"

namespace braid::load {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ResponseDecoder, FindsOutputsBehindTheJson) {
  ResponseDecoder decoder({});
  const std::string json =
      R"({"model_name":"m","outputs":[{"name":"A","datatype":"INT32","shape":[1],"parameters":{"binary_data_size":4}},)"
      R"({"name":"B","datatype":"INT32","shape":[2],"data":[5,6]}]})";
  const std::string body = json + std::string("\7\0\0\0", 4);
  const Pieces pieces{body};
  const auto response = decoder.Decode({pieces, json.size()});
  ASSERT_TRUE(response.ok()) << response.status().message();
  ASSERT_EQ((*response)->outputs.size(), 2U);
  EXPECT_EQ(JoinPieces((*response)->outputs[0].data), std::string("\7\0\0\0", 4));
  EXPECT_EQ(JoinPieces((*response)->outputs[1].data), std::string("\5\0\0\0\6\0\0\0", 8));
  EXPECT_THAT((*response)->outputs[1].shape, ElementsAre(2));
  const Pieces cut{std::string_view(body).substr(0, body.size() - 1)};
  EXPECT_THAT(decoder.Decode({cut, json.size()}).status().message(), HasSubstr("output A is cut short"));
}

}  // namespace
}  // namespace braid::load
