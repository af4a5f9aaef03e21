#include "http_messages.h"

#include <gtest/gtest.h>

namespace braid::bench {
namespace {

constexpr std::string_view kHead =
    "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\ninference-header-content-length: 7\r\n"
    "CONTENT-LENGTH: 23\r\n\r\n";

TEST(HttpHead, NeedsTheWholeHead) {
  for (size_t length = 0; length < kHead.size(); ++length) {
    const auto head = DecodeHttpHead(kHead.substr(0, length));
    ASSERT_TRUE(head.ok());
    EXPECT_FALSE(head->has_value());
  }
  const auto head = DecodeHttpHead(std::string(kHead) + "body");
  ASSERT_TRUE(head.ok());
  ASSERT_TRUE(head->has_value());
  EXPECT_EQ((*head)->status, 200);
  EXPECT_EQ((*head)->head_bytes, kHead.size());
  EXPECT_EQ((*head)->body_bytes, 23U);
  EXPECT_EQ((*head)->json_bytes, 7U);
  EXPECT_FALSE((*head)->close);
}

TEST(HttpHead, RefusesWhatItCannotRead) {
  for (const char* bad :
       {"HTTP/2 200\r\n\r\n", "nonsense\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nInference-Header-Content-Length: 4\r\n\r\n"}) {
    EXPECT_FALSE(DecodeHttpHead(bad).ok()) << bad;
  }
  EXPECT_FALSE(DecodeHttpHead(std::string(100000, 'x')).ok());
}

TEST(HttpOutputs, FindsBinaryDataBehindTheJson) {
  HttpOutputDecoder decoder;
  const std::string json =
      R"({"outputs":[{"name":"A","datatype":"UINT8","shape":[2],"parameters":{"binary_data_size":2}},)"
      R"({"name":"B","datatype":"UINT8","shape":[3],"parameters":{"binary_data_size":3}}]})";
  for (const char* data : {"12345", "abcde"}) {
    const std::string body = json + data;
    const auto outputs = decoder.Decode(body, json.size());
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    ASSERT_EQ(outputs->size(), 2U);
    EXPECT_EQ((*outputs)[1].name, "B");
    EXPECT_EQ((*outputs)[1].data, Pieces{std::string_view(data).substr(2)});
  }
  EXPECT_FALSE(decoder.Decode(json + "1234", json.size()).ok());
}

TEST(HttpOutputs, ReadsJsonData) {
  HttpOutputDecoder decoder;
  const auto outputs =
      decoder.Decode(R"({"outputs":[{"name":"A","datatype":"INT32","shape":[1,2],"data":[[1,-1]]},)"
                     R"({"name":"B","datatype":"BYTES","shape":[1],"data":["xy"]}]})",
                     0);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  const int32_t numbers[] = {1, -1};
  EXPECT_EQ((*outputs)[0].data, Pieces{std::string_view(reinterpret_cast<const char*>(numbers), 8)});
  EXPECT_EQ((*outputs)[1].data, Pieces{std::string_view("\2\0\0\0xy", 6)});
}

TEST(HttpOutputs, RefusesUnexpectedJson) {
  HttpOutputDecoder decoder;
  for (const char* bad : {"", "{", "[]", "{}", R"({"outputs":[{}]})", R"({"outputs":[{"name":1}]})",
                          R"({"outputs":[{"name":"A","datatype":"FP32","data":["x"]}]})",
                          R"({"outputs":[{"name":"A","parameters":{"binary_data_size":1e30}}]})"}) {
    EXPECT_FALSE(decoder.Decode(bad, 0).ok()) << bad;
  }
}

}  // namespace
}  // namespace braid::bench
