#include "load/http_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "load/messages.h"

namespace braid::load {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(HttpHead, IsReadWhenItIsWhole) {
  const std::string whole =
      "HTTP/1.1 200 OK\r\ncontent-LENGTH: 30\r\nInference-Header-Content-Length: 20\r\nConnection: "
      "close\r\n\r\n";
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto part = DecodeHttpHead(std::string_view(whole).substr(0, size));
    ASSERT_TRUE(part.ok());
    EXPECT_FALSE(part->has_value());
  }
  const auto head = DecodeHttpHead(whole + "body");
  ASSERT_TRUE(head.ok() && head->has_value());
  EXPECT_EQ((*head)->status, 200);
  EXPECT_EQ((*head)->head_bytes, whole.size());
  EXPECT_EQ((*head)->body_bytes, 30U);
  EXPECT_EQ((*head)->json_bytes, 20U);
  EXPECT_TRUE((*head)->close);
  EXPECT_FALSE(DecodeHttpHead("SSH-2.0-server of another kind\r\n\r\n").ok());
  EXPECT_FALSE(DecodeHttpHead("HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\n").ok());
  EXPECT_FALSE(DecodeHttpHead(std::string(70000, 'a')).ok());
}

TEST(HttpChunks, ArePutTogether) {
  const std::string whole = "3\r\nabc\r\na;x=y\r\n0123456789\r\n0\r\n\r\n";
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto part = JoinChunks(std::string_view(whole).substr(0, size));
    ASSERT_TRUE(part.ok());
    EXPECT_FALSE(part->has_value()) << size;
  }
  EXPECT_EQ(**JoinChunks(whole), "abc0123456789");
  EXPECT_FALSE(JoinChunks("x\r\n").ok());
}

TEST(Address, HasAPortOrTheProtocols) {
  EXPECT_EQ(ParseAddress("host:80", "8000")->authority(), "host:80");
  EXPECT_EQ(ParseAddress("https://host/", "8000")->authority(), "host:8000");
  EXPECT_EQ(ParseAddress("[::1]:9", "8000")->authority(), "[::1]:9");
  for (const char* bad : {"", ":80", "h:x", "[::1", "h:123456"})
    EXPECT_FALSE(ParseAddress(bad, "1").ok()) << bad;
}

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
