#include "protocols/http/body_reader.h"

#include <gtest/gtest.h>

#include <boost/asio/buffer.hpp>
#include <cstring>

namespace braid {
namespace {

// A call that receives the rest of its body in two buffers.
class Split final : public HttpCall {
 public:
  explicit Split(size_t front) : front_(front) {}
  size_t front_bytes() const override { return front_; }
  std::optional<HttpResponse> OnFront(std::string_view front, size_t rest,
                                      std::vector<std::span<std::byte>>& destinations) override {
    if (front == "no") return ErrorResponse(403, "no");
    said = front;
    places[0].resize(rest / 2);
    places[1].resize(rest - rest / 2);
    for (std::string& place : places) destinations.push_back(std::as_writable_bytes(std::span(place)));
    return std::nullopt;
  }
  void OnBody() override {}

  std::string said;
  std::string places[2];

 private:
  const size_t front_;
};

// Reads a body that arrives in pieces. Returns "front|first buffer|second buffer", or the refusal.
std::string Read(const HttpListenerOptions& options, const std::string& head, std::string_view body,
                 size_t front, size_t piece) {
  BodyReader::Parser parser;
  parser.body_limit(std::numeric_limits<uint64_t>::max());
  const std::string text = "POST / HTTP/1.1\r\nHost: h\r\n" + head + "\r\n\r\n";
  boost::system::error_code error;
  parser.put(boost::asio::buffer(text), error);
  EXPECT_TRUE(parser.is_header_done()) << error.message();
  BodyReader reader(options);
  InputBuffer input;
  Split call(front);
  BodyReader::Decision decision;
  const auto receive = [&](std::span<char> room) {
    const size_t bytes = std::min({room.size(), piece, body.size()});
    std::memcpy(room.data(), body.data(), bytes);
    body.remove_prefix(bytes);
    return bytes;
  };
  const auto more = [&] {
    if (body.empty()) return false;
    input.Add(receive(input.Room()));
    return true;
  };
  reader.Begin(parser);
  if (reader.Start(call, input)) {
    HttpResponse refused;
    BodyReader::Whole taken;
    while ((taken = reader.TakeWhole(input, refused)) == BodyReader::Whole::kInput) {
      if (!more()) return "waits";
    }
    if (taken == BodyReader::Whole::kRefused) return refused.body;
    reader.OfferWhole(call, decision);
    if (decision.refused) return decision.refused->body;
  } else {
    while (!reader.front(input)) {
      if (const auto room = reader.FrontRoom(); !room.empty()) {
        reader.AddToFront(receive(room));
      } else if (!more()) {
        return "waits";
      }
    }
    reader.OfferFront(call, input, decision);
    reader.EndFront(input);
    if (decision.refused) return decision.refused->body;
    reader.set_destinations(std::move(decision.destinations));
    while (!reader.TakeRest(input)) {
      if (body.empty()) return "waits";
      iovec vectors[1];
      const auto room = reader.RestRoom(vectors);
      reader.AddToRest(receive({static_cast<char*>(room[0].iov_base), room[0].iov_len}));
    }
  }
  EXPECT_EQ(reader.left(), 0u);
  EXPECT_EQ(input.size() + body.size(), 0u);
  return call.said + "|" + call.places[0] + "|" + call.places[1];
}

TEST(BodyReader, TellsFrontAndRestHoweverABodyComes) {
  HttpListenerOptions options;
  options.limits = std::make_shared<ClientLimits>();
  options.max_body_bytes = 200'000;
  options.max_chunks = 3;
  const std::string large(150'000, 'a');
  const std::string chunked = "Transfer-Encoding: chunked";
  struct Case {
    std::string head;
    std::string body;
    size_t front;
    std::string result;
  };
  for (const Case& c : {
           Case{"Content-Length: 0", "", 4, "||"},
           Case{"X: y", "", HttpCall::kWholeBody, "||"},
           Case{"Content-Length: 9", "frontrest", 5, "front|re|st"},
           Case{"Content-Length: 9", "frontrest", HttpCall::kWholeBody, "frontrest||"},
           Case{"Content-Length: 9", "frontrest", 0, "|fron|trest"},
           Case{"Content-Length: 9", "front", 9, "waits"},
           Case{"Content-Length: 9", "front", 4, "waits"},
           Case{"Content-Length: 2", "no", 2, R"({"error":"no"})"},
           Case{"Content-Length: 150000", large, HttpCall::kWholeBody, large + "||"},
           Case{"Content-Length: 150000", large, 140'000,
                large.substr(0, 140'000) + "|" + large.substr(0, 5000) + "|" + large.substr(0, 5000)},
           Case{chunked, "5\r\nfront\r\n4\r\nrest\r\n0\r\n\r\n", 5, "front|re|st"},
           Case{chunked, "0\r\n\r\n", 5, "||"},
           Case{chunked, "5\r\nfro", 5, "waits"},
           Case{chunked, "2\r\nno\r\n0\r\n\r\n", 5, R"({"error":"no"})"},
           Case{chunked, "1\r\na\r\n1\r\nb\r\n1\r\nc\r\n1\r\nd\r\n0\r\n\r\n", 5,
                R"({"error":"too many chunks"})"},
           Case{chunked, "30d41\r\n" + std::string(200'001, 'a'), 5,
                R"({"error":"request size exceeds the maximum allowed input size of 200000 bytes."})"},
       }) {
    for (const size_t piece : {size_t{1}, size_t{7}, size_t{4096}, InputBuffer::kBytes}) {
      if (piece == 1 && c.body.size() > 1000) continue;
      EXPECT_EQ(Read(options, c.head, c.body, c.front, piece), c.result)
          << c.head << " in pieces of " << piece;
    }
  }
}

TEST(BodyReader, ThrowsTheRestOfABodyAway) {
  HttpListenerOptions options;
  options.limits = std::make_shared<ClientLimits>();
  BodyReader::Parser parser;
  boost::system::error_code error;
  parser.put(boost::asio::buffer(std::string_view("POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n")), error);
  BodyReader reader(options);
  InputBuffer input;
  reader.Begin(parser);
  for (const auto& [text, over] : {std::pair("abc", false), std::pair("deGET", true)}) {
    const std::string_view bytes = text;
    std::memcpy(input.Room().data(), bytes.data(), bytes.size());
    input.Add(bytes.size());
    EXPECT_EQ(reader.Discard(input), over);
  }
  EXPECT_EQ(input.text(), "GET");
}

}  // namespace
}  // namespace braid
