#include "load/http_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "load/messages.h"
#include "load/testing/loopback_listener.h"

namespace braid::load {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A server that sends what a test tells it to.
class ToldServer {
 public:
  ToldServer() {
    auto dialer = Dialer::Make({"127.0.0.1", listener_.port()}, {});
    connection_ = Connection::Open(Protocol::kHttp, **dialer, 5, {}).value();
    client_ = listener_.Accept();
  }

  Connection& connection() { return *connection_; }

  void Ask(Exchange& exchange) {
    connection_->Start(exchange, message_, false);
    connection_->Flush();
  }

  // Sends a text, and lets the connection read until `done`.
  template <class Done>
  void Say(std::string_view text, const Done& done) {
    EXPECT_EQ(::send(client_.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
    for (int i = 0; i < 100 && !done(); ++i) connection_->Receive(true);
    EXPECT_TRUE(done());
  }
  void Close() { client_.Reset(); }

 private:
  const LoopbackListener listener_;
  UniqueFd client_;
  const OutgoingMessage message_{"/", "POST / HTTP/1.1\r\n\r\n"};
  std::unique_ptr<Connection> connection_;
};

class Kept final : public Exchange {
 public:
  void OnMessage(const ReceivedMessage& message) override { messages.push_back(JoinPieces(message.body)); }
  void OnEnd(const Status& status) override { end = status; }

  std::vector<std::string> messages;
  std::optional<Status> end;
};

constexpr char kEvents[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

TEST(HttpConnection, GivesEachEventWhenItArrives) {
  Kept kept;
  ToldServer server;
  server.Ask(kept);
  server.Say(std::string(kEvents) + "b\r\ndata: one\n\n\r\n", [&] { return kept.messages.size() == 1; });
  // An event in two chunks, the second of them cut; a comment; an event with two lines.
  server.Say("7\r\ndata: t\r\n4\r\nwo", [] { return true; });
  server.Say("\n\n\r\n8\r\n: ping\n\n\r\n", [&] { return kept.messages.size() == 2; });
  server.Say("13\r\ndata:a\r\ndata: b\r\n\r\n\r\n", [&] { return kept.messages.size() == 3; });
  EXPECT_FALSE(kept.end);
  server.Say("0\r\n\r\n", [&] { return kept.end.has_value(); });
  EXPECT_TRUE(kept.end->ok());
  EXPECT_THAT(kept.messages, ElementsAre("one", "two", "a\nb"));
  EXPECT_TRUE(server.connection().alive());

  Kept whole;
  server.Ask(whole);
  server.Say(
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 18\r\n\r\ndata: 1\n\ndata: "
      "2\n\n",
      [&] { return whole.end.has_value(); });
  EXPECT_THAT(whole.messages, ElementsAre("1", "2"));

  Kept chunked;
  server.Ask(chunked);
  server.Say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
             [&] { return chunked.end.has_value(); });
  EXPECT_THAT(chunked.messages, ElementsAre("abcde"));

  Kept refused;
  server.Ask(refused);
  server.Say(
      "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 31\r\n\r\n{\"error\":{\"message\":\"is full\"}}",
      [&] { return refused.end.has_value(); });
  EXPECT_EQ(refused.end->message(), "HTTP 429: is full");
  EXPECT_EQ(refused.end->code(), StatusCode::kUnavailable);

  Kept cut;
  server.Ask(cut);
  server.Say(std::string(kEvents) + "b\r\ndata: one\n\n\r\n", [&] { return cut.messages.size() == 1; });
  server.Close();
  server.connection().Receive(true);
  ASSERT_TRUE(cut.end);
  EXPECT_FALSE(cut.end->ok());
}

TEST(ErrorText, IsInTheWordsOfTheServer) {
  EXPECT_EQ(ErrorText(R"({"error": "a"})"), "a");
  EXPECT_EQ(ErrorText(R"({"error": {"message": "b", "code": null}})"), "b");
  EXPECT_EQ(ErrorText(R"({"message": "c"})"), "c");
  EXPECT_EQ(ErrorText("d"), "d");
  EXPECT_EQ(ErrorText(R"({"error": {"message": 7}})"), R"({"error": {"message": 7}})");
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
