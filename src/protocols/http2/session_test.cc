#include "protocols/http2/session.h"

#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>
#include <sys/uio.h>

#include <array>
#include <map>

namespace braid {
namespace {

// The client's side in memory, by nghttp2.
class Client {
 public:
  struct Answer {
    std::map<std::string, std::string> fields;
    std::string body;
    bool closed = false;
    uint32_t error = 0;
  };

  Client() {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(
        callbacks, [](nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name, size_t name_size,
                      const uint8_t* value, size_t value_size, uint8_t, void* self) {
          Of(self).answers[frame->hd.stream_id].fields[{reinterpret_cast<const char*>(name), name_size}] = {
              reinterpret_cast<const char*>(value), value_size};
          return 0;
        });
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
        callbacks, [](nghttp2_session*, uint8_t, int32_t id, const uint8_t* bytes, size_t size, void* self) {
          Of(self).answers[id].body.append(reinterpret_cast<const char*>(bytes), size);
          return 0;
        });
    nghttp2_session_callbacks_set_on_stream_close_callback(
        callbacks, [](nghttp2_session*, int32_t id, uint32_t error, void* self) {
          Of(self).answers[id].closed = true;
          Of(self).answers[id].error = error;
          return 0;
        });
    nghttp2_session_callbacks_set_on_frame_recv_callback(
        callbacks, [](nghttp2_session*, const nghttp2_frame* frame, void* self) {
          if (frame->hd.type == NGHTTP2_GOAWAY) Of(self).goaway = frame->goaway.error_code;
          return 0;
        });
    nghttp2_session_client_new(&session, callbacks, this);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, nullptr, 0);
  }
  ~Client() { nghttp2_session_del(session); }

  static Client& Of(void* self) { return *static_cast<Client*>(self); }

  // Begins a request with the body `body`. `open`: the body does not end.
  int32_t Request(std::vector<std::pair<std::string, std::string>> fields, std::string body,
                  bool open = false) {
    std::vector<nghttp2_nv> all;
    const std::vector<std::pair<std::string, std::string>> first = {
        {":method", "POST"}, {":scheme", "http"}, {":path", "/x"}, {":authority", "a"}};
    fields.insert(fields.begin(), first.begin(), first.end());
    for (auto& [name, value] : fields) {
      all.push_back({reinterpret_cast<uint8_t*>(name.data()), reinterpret_cast<uint8_t*>(value.data()),
                     name.size(), value.size(), NGHTTP2_NV_FLAG_NONE});
    }
    auto& sent = bodies.emplace_back(std::make_unique<Body>(Body{std::move(body), open}));
    nghttp2_data_provider provider{};
    provider.source.ptr = sent.get();
    provider.read_callback = [](nghttp2_session*, int32_t, uint8_t* to, size_t most, uint32_t* flags,
                                nghttp2_data_source* source, void*) -> ssize_t {
      auto& from = *static_cast<Body*>(source->ptr);
      const size_t part = std::min(most, from.bytes.size());
      if (part == 0 && from.open) return NGHTTP2_ERR_DEFERRED;
      std::copy_n(from.bytes.data(), part, to);
      from.bytes.erase(0, part);
      if (from.bytes.empty() && !from.open) *flags |= NGHTTP2_DATA_FLAG_EOF;
      return static_cast<ssize_t>(part);
    };
    return nghttp2_submit_request(session, nullptr, all.data(), all.size(), &provider, nullptr);
  }

  struct Body {
    std::string bytes;
    bool open;
  };
  nghttp2_session* session = nullptr;
  std::map<int32_t, Answer> answers;
  std::vector<std::unique_ptr<Body>> bodies;
  std::optional<uint32_t> goaway;
};

// The server's side: records the request and sends the test's response.
struct Stream : Http2Stream {
  void OnData(const Buffer&, std::string_view bytes) override { body += bytes; }
  void OnEnd() override { ended = true; }
  void OnClosed(bool reset) override { closed = reset ? 2 : 1; }
  size_t sendable() const override { return answer.size(); }
  bool complete() const override { return finished; }
  void Take(size_t bytes, OutgoingBytes& to) override {
    to.Append(std::string_view(answer).substr(0, bytes));
    answer.erase(0, bytes);
  }
  void AppendTrailers(boost::container::small_vector_base<Http2Field>& fields) override {
    fields.push_back({"grpc-status", "7"});
    if (!message.empty()) fields.push_back({"grpc-message", message});
  }

  Http2Head head;
  Status fault;
  std::string body;
  bool ended = false;
  int closed = 0;  // 1: complete, 2: reset
  std::string answer;
  bool finished = false;
  std::string message;  // in the trailers
};

class Http2SessionTest : public ::testing::Test, protected Http2Session::Owner {
 protected:
  explicit Http2SessionTest(const Http2Session::Limits& limits = {}) : session(*this, limits) {}

  std::shared_ptr<Http2Stream> OnRequest(int32_t id, Http2Head head, const Status& fault) override {
    auto stream = std::make_shared<Stream>();
    stream->head = std::move(head);
    stream->fault = fault;
    streams[id] = stream;
    if (refuse) {
      const Http2Field fields[] = {{":status", "200"}, {"grpc-status", "12"}};
      session.RespondAtOnce(id, fields);
      return nullptr;
    }
    return stream;
  }

  void OnFault(uint32_t, std::string_view text) override { fault = text; }

  // Passes bytes both ways until neither has more.
  void Talk() {
    for (bool more = true; more;) {
      more = false;
      const uint8_t* bytes = nullptr;
      for (ssize_t size = 0; (size = nghttp2_session_mem_send(client.session, &bytes)) > 0;) {
        const Buffer block =
            CopyToHeap({reinterpret_cast<const std::byte*>(bytes), static_cast<size_t>(size)});
        received = session.Receive(block, block.text());
        more = true;
      }
      OutgoingBytes outgoing;
      EXPECT_TRUE(session.Stage(outgoing, most_staged).ok());
      while (!outgoing.empty()) {
        std::array<iovec, 4> pieces;
        outgoing.Gather(pieces);
        nghttp2_session_mem_recv(client.session, static_cast<const uint8_t*>(pieces[0].iov_base),
                                 pieces[0].iov_len);
        outgoing.Consume(pieces[0].iov_len);
        more = true;
      }
    }
  }
  void Respond(int32_t id) {
    const Http2Field fields[] = {{":status", "200"}, {"content-type", "application/grpc"}};
    session.Respond(id, fields);
  }

  bool refuse = false;
  size_t most_staged = size_t{1} << 20;
  std::map<int32_t, std::shared_ptr<Stream>> streams;
  Status received;
  std::string fault;
  Http2Session session;
  Client client;
};

TEST_F(Http2SessionTest, GivesARequestAndSendsTheAnswerWithItsTrailers) {
  const int32_t id = client.Request({{"x-name", "value"}}, "question");
  Talk();
  ASSERT_TRUE(streams.contains(id));
  Stream& stream = *streams[id];
  EXPECT_EQ(stream.head.Find(":path"), "/x");
  EXPECT_EQ(stream.head.Find("x-name"), "value");
  EXPECT_EQ(stream.body, "question");
  EXPECT_TRUE(stream.ended);
  stream.answer = "answer";
  stream.finished = true;
  Respond(id);
  Talk();
  EXPECT_EQ(client.answers[id].body, "answer");
  EXPECT_EQ(client.answers[id].fields["grpc-status"], "7");
  EXPECT_EQ(client.answers[id].error, NGHTTP2_NO_ERROR);
  EXPECT_EQ(stream.closed, 1);
}

TEST_F(Http2SessionTest, SendsAsThereIsMoreAndEndsWhenItIsComplete) {
  const int32_t id = client.Request({}, "q");
  Talk();
  Stream& stream = *streams[id];
  Respond(id);
  Talk();
  EXPECT_EQ(client.answers[id].fields[":status"], "200");
  for (const char* part : {"one", "two"}) {
    stream.answer += part;
    session.Resume(id);
    Talk();
  }
  EXPECT_EQ(client.answers[id].body, "onetwo");
  EXPECT_FALSE(client.answers[id].closed);
  stream.finished = true;
  session.Resume(id);
  Talk();
  EXPECT_TRUE(client.answers[id].closed);
  EXPECT_EQ(client.answers[id].fields["grpc-status"], "7");
}

TEST_F(Http2SessionTest, SendsLargeAnswersPieceByPiece) {
  nghttp2_session_set_local_window_size(client.session, NGHTTP2_FLAG_NONE, 0, 1 << 28);
  const int32_t id = client.Request({}, "q");
  Talk();
  std::string large(3 << 20, '\0');
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 7 >> 3);
  streams[id]->answer = large;
  streams[id]->finished = true;
  most_staged = 10000;
  Respond(id);
  Talk();
  EXPECT_TRUE(client.answers[id].body == large);
  EXPECT_EQ(client.answers[id].fields["grpc-status"], "7");
}

TEST_F(Http2SessionTest, RefusesByAHeadAloneAndStopsTheBody) {
  refuse = true;
  const int32_t id = client.Request({}, std::string(100, 'x'), true);
  Talk();
  EXPECT_EQ(client.answers[id].fields["grpc-status"], "12");
  EXPECT_TRUE(client.answers[id].closed);
  EXPECT_EQ(client.answers[id].error, NGHTTP2_NO_ERROR);
}

// nghttp2 does not send heads of more than 64 KiB. Without a reset the client would wait, and the stream
// would stay open.
TEST_F(Http2SessionTest, AStreamWhoseTrailersCannotBeSentIsReset) {
  const int32_t id = client.Request({}, "q");
  const int32_t other = client.Request({}, "q");
  Talk();
  for (const int32_t stream : {id, other}) {
    streams[stream]->answer = "answer";
    streams[stream]->finished = true;
    if (stream == id) streams[stream]->message.assign(70'000, 'x');
    Respond(stream);
  }
  Talk();
  EXPECT_TRUE(client.answers[id].closed);
  EXPECT_EQ(client.answers[id].error, NGHTTP2_INTERNAL_ERROR);
  EXPECT_EQ(streams[id]->closed, 2);
  EXPECT_EQ(client.answers[other].fields["grpc-status"], "7");
  EXPECT_EQ(streams[other]->closed, 1);
  EXPECT_FALSE(client.goaway);
}

TEST_F(Http2SessionTest, AStreamWhoseHeadCannotBeSentIsReset) {
  const int32_t body = client.Request({}, "q");
  const int32_t at_once = client.Request({}, "q", true);
  Talk();
  const std::string large(70'000, 'x');
  const Http2Field fields[] = {{":status", "200"}, {"x", large}};
  session.Respond(body, fields);
  session.RespondAtOnce(at_once, fields);
  Talk();
  for (const int32_t id : {body, at_once}) {
    EXPECT_EQ(client.answers[id].error, NGHTTP2_INTERNAL_ERROR);
    EXPECT_EQ(streams[id]->closed, 2);
  }
  EXPECT_FALSE(session.has_streams());
}

TEST_F(Http2SessionTest, GivesTheWindowBackOnlyForWhatIsConsumed) {
  const int32_t id = client.Request({}, std::string(size_t{8} << 20, 'x'));
  Talk();
  Stream& stream = *streams[id];
  EXPECT_EQ(stream.body.size(), Http2Session::Limits{}.stream_window);
  session.Consume(id, stream.body.size());
  Talk();
  EXPECT_EQ(stream.body.size(), size_t{8} << 20);
  EXPECT_TRUE(stream.ended);
}

TEST_F(Http2SessionTest, TellsOfAClientThatTakesItsRequestBack) {
  const int32_t id = client.Request({}, "q", true);
  Talk();
  nghttp2_submit_rst_stream(client.session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
  Talk();
  EXPECT_EQ(streams[id]->closed, 2);
  Respond(id);  // nothing happens
  Talk();
}

// gRPC's C core sends RST_STREAM if a deadline expires before the call's head was sent.
TEST_F(Http2SessionTest, LooksAwayFromResetsOfStreamsThatWereNeverOpened) {
  const int32_t first = client.Request({}, "q");
  Talk();
  const std::string reset("\0\0\4\3\0\0\0\0\x09\0\0\0\x08", 13);
  const Buffer block = CopyToHeap(std::as_bytes(std::span(reset)));
  EXPECT_TRUE(session.Receive(block, block.text()).ok());
  const int32_t second = client.Request({}, "q");
  Talk();
  EXPECT_FALSE(client.goaway.has_value());
  for (const int32_t id : {first, second}) {
    streams.at(id)->finished = true;
    Respond(id);
  }
  Talk();
  EXPECT_EQ(client.answers[first].fields["grpc-status"], "7");
  EXPECT_EQ(client.answers[second].fields["grpc-status"], "7");
}

TEST_F(Http2SessionTest, ClosesAllThatIsOpen) {
  const int32_t first = client.Request({}, "q", true);
  const int32_t second = client.Request({}, "q");
  Talk();
  session.CloseAll();
  EXPECT_EQ(streams[first]->closed, 2);
  EXPECT_EQ(streams[second]->closed, 2);
  EXPECT_FALSE(session.has_streams());
}

TEST_F(Http2SessionTest, SaysWhichLimitAHeadIsBeyond) {
  const int32_t bytes = client.Request({{"a", std::string(20000, 'x')}, {"b", std::string(20000, 'y')}}, "");
  std::vector<std::pair<std::string, std::string>> many(300, {"n", "v"});
  const int32_t fields = client.Request(many, "");
  Talk();
  EXPECT_EQ(streams[bytes]->fault.message(), "the metadata of the call has more than 32768 bytes");
  EXPECT_EQ(streams[fields]->fault.message(), "the metadata of the call has more than 256 fields");
}

TEST_F(Http2SessionTest, EndsTheConnectionForAHeadFarBeyondItsLimit) {
  Talk();
  // A field of 3,000 bytes enters HPACK's table and is then repeated 200 times with one byte each.
  const std::string head = "\x40\x01x\x7f\xb9\x16" + std::string(3000, 'y') + std::string(200, '\xbe');
  const auto size = static_cast<unsigned>(head.size());
  const std::string sent = std::string{'\0', static_cast<char>(size >> 8), static_cast<char>(size & 0xff)} +
                           std::string("\1\4\0\0\0\1", 6) + head;
  const Buffer block = CopyToHeap(std::as_bytes(std::span(sent)));
  EXPECT_EQ(session.Receive(block, block.text()).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(streams.empty());
  Talk();
  EXPECT_EQ(client.goaway, NGHTTP2_ENHANCE_YOUR_CALM);
  EXPECT_EQ(fault, "ENHANCE_YOUR_CALM: the metadata of a call far exceeds the limit");
}

TEST_F(Http2SessionTest, RefusesWhatIsNoHttp2) {
  const std::string text = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  const Buffer block = CopyToHeap(std::as_bytes(std::span(text)));
  EXPECT_EQ(session.Receive(block, block.text()).code(), StatusCode::kInvalidArgument);
}

class FewResets : public Http2SessionTest {
 protected:
  FewResets() : Http2SessionTest({.reset_burst = 10, .resets_per_second = 1}) {}
};

TEST_F(FewResets, SendsAClientAwayThatTakesTooManyRequestsBack) {
  for (int i = 0; i < 100 && !client.goaway; ++i) {
    const int32_t id = client.Request({}, "q", true);
    Talk();
    nghttp2_submit_rst_stream(client.session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
    Talk();
  }
  ASSERT_TRUE(client.goaway.has_value());
  EXPECT_LT(streams.size(), 30u);
  EXPECT_EQ(fault, nghttp2_http2_strerror(*client.goaway));
}

TEST_F(FewResets, SendsAClientAwayThatHasTooManyOfItsRequestsReset) {
  for (int i = 0; i < 100 && !client.goaway; ++i) {
    const int32_t id = client.Request({}, "q", true);
    Talk();
    // A window beyond HTTP/2's maximum is a fault of this stream only.
    const std::string sent = std::string("\0\0\4\x8\0\0\0\0", 8) + static_cast<char>(id) + "\x7f\xff\xff\xff";
    const Buffer block = CopyToHeap(std::as_bytes(std::span(sent)));
    ASSERT_TRUE(session.Receive(block, block.text()).ok());
    Talk();
    EXPECT_EQ(client.answers[id].error, NGHTTP2_FLOW_CONTROL_ERROR);
  }
  ASSERT_TRUE(client.goaway.has_value());
  EXPECT_EQ(streams.size(), 11u);
  EXPECT_EQ(fault, nghttp2_http2_strerror(NGHTTP2_INTERNAL_ERROR));
}

class FewStreams : public Http2SessionTest {
 protected:
  FewStreams() : Http2SessionTest({.streams = 3}) {}
};

TEST_F(FewStreams, TakesSoManyRequestsAtATime) {
  std::vector<int32_t> ids;
  Talk();  // the client knows the limit from here on
  for (int i = 0; i < 5; ++i) ids.push_back(client.Request({}, "q"));
  Talk();
  EXPECT_EQ(streams.size(), 3u);
  for (const int32_t id : std::vector(ids.begin(), ids.begin() + 3)) {
    streams[id]->finished = true;
    Respond(id);
  }
  Talk();
  EXPECT_EQ(streams.size(), 5u);
}

}  // namespace
}  // namespace braid
