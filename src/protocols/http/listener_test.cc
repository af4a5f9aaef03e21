#include "protocols/http/listener.h"

#include <gtest/gtest.h>

#include <sys/ioctl.h>

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "base/batch.h"
#include "base/clock.h"
#include "protocols/http/testing/test_client.h"
#include "protocols/net/compression.h"
#include "protocols/net/control_pool.h"
#include "protocols/net/testing/test_certificates.h"
#include "protocols/net/testing/tls_client.h"

namespace braid {
namespace {

using namespace std::chrono_literals;

constexpr int64_t kSecond = 1'000'000'000;

// A service with these paths; others are 404:
//
//   /echo      returns the body
//   /split     reads its body after the first 4 bytes into three buffers
//   /hold      is answered by the test
//   /large/{n} returns n bytes
//   /identity  returns the identity in the client's certificate
//   /thread    returns the responding thread
//   /refuse    answers at once without reading its body
class EchoService final : public HttpService {
 public:
  Answer OnRequest(const std::shared_ptr<HttpExchange>& exchange) override {
    const std::string target(ToStd(exchange->head().target()));
    if (target == "/echo") {
      return std::make_shared<WholeBodyCall>(exchange, [](const auto& exchange, std::string body) {
        HttpResponse response;
        response.body = std::move(body);
        exchange->Respond(std::move(response));
      });
    }
    if (target == "/split") return std::make_shared<SplitCall>(exchange);
    if (target == "/hold") {
      return std::make_shared<WholeBodyCall>(exchange, [this](const auto& exchange, std::string body) {
        auto cancellation = std::make_shared<Cancellation>();
        exchange->SetCancellation(cancellation);
        std::lock_guard lock(mutex_);
        held_.push_back({exchange, std::move(body), cancellation});
        cancellation->SetListener([this] {
          std::lock_guard lock(cancel_mutex_);
          ++cancelled_;
          cancel_changed_.notify_all();
        });
        changed_.notify_all();
      });
    }
    if (target.rfind("/large/", 0) == 0) {
      HttpResponse response;
      response.body = "start";
      HeapAllocator heap;
      Buffer buffer = *heap.Allocate(std::stoul(target.substr(7)));
      std::fill_n(buffer.mutable_data(), buffer.size(), std::byte{'x'});
      response.tail.push_back(std::move(buffer));
      return response;
    }
    if (target == "/identity") {
      HttpResponse response;
      response.body = exchange->certificate_identity();
      return response;
    }
    if (target == "/thread") {
      HttpResponse response;
      response.body = std::to_string(::gettid());
      return response;
    }
    if (target == "/refuse") return ErrorResponse(403, "no");
    return ErrorResponse(404, "Not Found");
  }

  struct Held {
    std::shared_ptr<HttpExchange> exchange;
    std::string body;
    std::shared_ptr<Cancellation> cancellation;
  };
  Held Take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !held_.empty(); });
    Held held = std::move(held_.front());
    held_.pop_front();
    return held;
  }
  void WaitForCancelled(int count) {
    std::unique_lock lock(cancel_mutex_);
    cancel_changed_.wait(lock, [&] { return cancelled_ >= count; });
  }

 private:
  class SplitCall final : public HttpCall {
   public:
    explicit SplitCall(std::shared_ptr<HttpExchange> exchange) : exchange_(std::move(exchange)) {}
    size_t front_bytes() const override { return 4; }
    std::optional<HttpResponse> OnFront(std::string_view front, size_t rest,
                                        std::vector<std::span<std::byte>>& destinations) override {
      if (front == "fail") return ErrorResponse(400, "told to fail");
      front_ = front;
      const size_t third = rest / 3;
      for (size_t size : {third, size_t{0}, third, rest - 2 * third}) {
        parts_.emplace_back(size, ' ');
        destinations.push_back(std::as_writable_bytes(std::span(parts_.back())));
      }
      return std::nullopt;
    }
    void OnBody() override {
      HttpResponse response;
      response.body = front_ + "|";
      for (const std::string& part : parts_) response.body += part;
      auto exchange = std::move(exchange_);
      exchange->Respond(std::move(response));
    }

   private:
    std::shared_ptr<HttpExchange> exchange_;
    std::string front_;
    std::deque<std::string> parts_;
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Held> held_;  // guarded by mutex_
  std::mutex cancel_mutex_;
  std::condition_variable cancel_changed_;
  int cancelled_ = 0;  // guarded by cancel_mutex_
};

HttpResponse TextResponse(std::string text) {
  HttpResponse response;
  response.body = std::move(text);
  return response;
}

// With and without TLS.
class Listener : public testing::TestWithParam<bool> {
 protected:
  Listener() {
    options_.address = "127.0.0.1";
    options_.body_limit_hint = " Use --limit.";
    if (!GetParam()) return;
    auto source = TlsSource::Create(certificates_->Server("root.pem"), "http/1.1");
    EXPECT_TRUE(source.ok()) << source.status();
    options_.tls = std::move(source).value();
  }
  static void SetUpTestSuite() { certificates_ = std::make_unique<TestCertificates>(); }
  static void TearDownTestSuite() { certificates_.reset(); }
  void Start() {
    auto listener = HttpListener::Start(options_, service_);
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = std::move(listener).value();
  }
  // `certificate`: name of the client's certificate; empty: none.
  TestClient Connect(const std::string& certificate = "") {
    if (!listener_) Start();
    if (!GetParam()) return TestClient(listener_->port());
    return TestClient(listener_->port(), [&](int fd) {
      TlsClient::Options options{.root_file = certificates_->File("root.pem")};
      if (!certificate.empty()) {
        options.certificate_file = certificates_->File(certificate + ".pem");
        options.key_file = certificates_->File(certificate + ".key");
      }
      auto client = std::make_unique<TlsClient>(fd, options);
      client->Handshake();
      return client;
    });
  }

  static inline std::unique_ptr<const TestCertificates> certificates_;
  HttpListenerOptions options_;
  EchoService service_;
  std::unique_ptr<HttpListener> listener_;
};

TEST_P(Listener, KeepsConnectionsAlive) {
  TestClient client = Connect();
  for (int i = 0; i < 100; ++i) {
    const std::string body(static_cast<size_t>(i) * 37, static_cast<char>('a' + i % 26));
    auto response = client.Request("POST", "/echo", body);
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->body, body);
  }
  EXPECT_EQ(listener_->connection_count(), 1u);
}

TEST_P(Listener, AnswersPipelinedRequestsInOrder) {
  TestClient client = Connect();
  std::string all;
  for (int i = 0; i < 50; ++i) {
    const std::string body = "body " + std::to_string(i);
    all += "POST " + std::string(i % 7 == 0 ? "/hold" : "/echo") +
           " HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  ASSERT_TRUE(client.Send(all));
  for (int i = 0; i < 50; ++i) {
    if (i % 7 == 0) {
      auto held = service_.Take();
      held.exchange->Respond(TextResponse(held.body));
    }
    auto response = client.Read();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->body, "body " + std::to_string(i));
  }
}

TEST_P(Listener, ReadsBodiesToTheirDestinationsHoweverTheyArrive) {
  TestClient client = Connect();
  std::mt19937 random(7);
  for (size_t size : {0u, 3u, 4u, 5u, 1000u, 70'000u, 3'000'000u}) {
    std::string body(size, ' ');
    for (char& c : body) c = static_cast<char>('a' + random() % 26);
    const std::string request =
        "POST /split HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(size) + "\r\n\r\n" + body;
    size_t at = 0;
    while (at < request.size()) {
      const size_t piece = std::min<size_t>(request.size() - at, 1 + random() % (request.size() / 5 + 1));
      ASSERT_TRUE(client.Send(std::string_view(request).substr(at, piece)));
      at += piece;
    }
    auto response = client.Read();
    ASSERT_TRUE(response);
    const size_t front = std::min<size_t>(4, size);
    EXPECT_TRUE(response->body == body.substr(0, front) + "|" + body.substr(front)) << size;
  }
}

TEST_P(Listener, AnswersEarlyAndKeepsTheConnectionForTheNextRequest) {
  TestClient client = Connect();
  auto failed = client.Request("POST", "/split", "fail" + std::string(300'000, 'x'));
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->body, R"({"error":"told to fail"})");
  auto refused = client.Request("POST", "/refuse", std::string(300'000, 'x'));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 403);
  EXPECT_EQ(client.Request("POST", "/echo", "still here")->body, "still here");
}

TEST_P(Listener, TakesChunkedBodies) {
  TestClient client = Connect();
  std::string expected;
  std::string request = "POST /split HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (size_t size : {1u, 2u, 3000u, 70'000u}) {
    char head[32];
    std::snprintf(head, sizeof(head), "%zx;extension=1\r\n", size);
    request += head + std::string(size, 'c') + "\r\n";
    expected += std::string(size, 'c');
  }
  request += "0\r\nTrailer: x\r\n\r\n";
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(client.Send(request));
    auto response = client.Read();
    ASSERT_TRUE(response);
    EXPECT_TRUE(response->body == expected.substr(0, 4) + "|" + expected.substr(4));
  }
}

TEST_P(Listener, RefusesTooManyChunksAndBrokenOnes) {
  options_.max_chunks = 10;
  std::string many = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 20; ++i) many += "1\r\nx\r\n";
  TestClient client = Connect();
  ASSERT_TRUE(client.Send(many));
  EXPECT_EQ(client.Read()->status, 413);
  EXPECT_TRUE(client.AtEnd());
  TestClient broken = Connect();
  ASSERT_TRUE(broken.Send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"));
  EXPECT_EQ(broken.Read()->status, 400);
  // A line without an end must not grow without bound.
  TestClient endless = Connect();
  endless.Send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;" +
               std::string(200'000, 'e'));
  EXPECT_EQ(endless.Read()->status, 400);
}

TEST_P(Listener, SaysContinueOnlyWhenItWantsTheBody) {
  TestClient client = Connect();
  ASSERT_TRUE(
      client.Send("POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"));
  EXPECT_EQ(client.Read()->status, 100);
  ASSERT_TRUE(client.Send("hi"));
  EXPECT_EQ(client.Read()->body, "hi");
  ASSERT_TRUE(
      client.Send("POST /refuse HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"));
  EXPECT_EQ(client.Read()->status, 403);
  EXPECT_TRUE(client.AtEnd());
}

TEST_P(Listener, RefusesLargeBodiesWithTheLimit) {
  options_.max_body_bytes = 1000;
  TestClient client = Connect();
  EXPECT_EQ(client.Request("POST", "/echo", std::string(1000, 'x'))->status, 200);
  auto refused = client.Request("POST", "/echo", std::string(1001, 'x'));
  EXPECT_EQ(refused->status, 413);
  EXPECT_EQ(refused->body,
            "{\"error\":\"request size of 1001 bytes exceeds the maximum allowed input size of 1000 bytes. "
            "Use --limit.\"}");
  EXPECT_EQ(client.Request("POST", "/echo", "ok")->status, 200);
  ASSERT_TRUE(client.Send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" +
                          std::string(1001, 'x')));
  auto chunked = client.Read();
  EXPECT_EQ(chunked->status, 413);
  EXPECT_NE(chunked->body.find("exceeds the maximum allowed input size of 1000 bytes"), std::string::npos);
}

TEST_P(Listener, DecodesCompressedBodiesUpToTheLimit) {
  options_.max_body_bytes = 100'000;
  TestClient client = Connect();
  for (auto coding : {ContentCoding::kGzip, ContentCoding::kDeflate}) {
    const std::string header = "Content-Encoding: " + std::string(ContentCodingName(coding)) + "\r\n";
    const std::string text(100'000, 'z');
    const std::string_view parts[] = {text};
    const std::string small = *Compress(coding, parts);
    auto response = client.Request("POST", "/split", small, header);
    ASSERT_TRUE(response);
    EXPECT_TRUE(response->body == "zzzz|" + text.substr(4));
    EXPECT_EQ(client.Request("POST", "/echo", small.substr(0, small.size() / 2), header)->status, 400);
    EXPECT_EQ(client.Request("POST", "/echo", small + "more", header)->status, 400);
    EXPECT_EQ(client.Request("POST", "/echo", "no such stream", header)->status, 400);
    const std::string bomb(50'000'000, 'z');
    const std::string_view bomb_parts[] = {bomb};
    EXPECT_EQ(client.Request("POST", "/echo", *Compress(coding, bomb_parts), header)->status, 413);
  }
  auto unknown = client.Request("POST", "/echo", "x", "Content-Encoding: br\r\n");
  EXPECT_EQ(unknown->status, 501);
  EXPECT_EQ(unknown->body, R"({"error":"Unsupported compression type"})");
  EXPECT_EQ(unknown->header("Accept-Encoding"), "gzip, deflate");
}

TEST_P(Listener, RefusesMalformedRequests) {
  for (std::string_view text :
       {"GARBAGE\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"}) {
    TestClient client = Connect();
    ASSERT_TRUE(client.Send(text));
    auto response = client.Read();
    ASSERT_TRUE(response) << text;
    EXPECT_EQ(response->status, 400) << text;
    EXPECT_TRUE(client.AtEnd());
  }
  TestClient coded = Connect();
  ASSERT_TRUE(coded.Send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"));
  EXPECT_EQ(coded.Read()->status, 501);
  TestClient large = Connect();
  large.Send("GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(40'000, 'x') + "\r\n\r\n");
  EXPECT_EQ(large.Read()->status, 431);
  TestClient many = Connect();
  std::string fields = "GET / HTTP/1.1\r\nHost: a\r\n";
  for (int i = 0; i < 300; ++i) fields.append("X").append(std::to_string(i)).append(": y\r\n");
  ASSERT_TRUE(many.Send(fields + "\r\n"));
  EXPECT_EQ(many.Read()->status, 431);
}

// Sends pieces, each in its own segment, while the server takes them. Then waits for the response.
std::optional<TestResponse> SendPieces(TestClient& client, const std::vector<std::string>& pieces) {
  for (const std::string& piece : pieces) {
    if (!client.Send(piece)) break;
    std::this_thread::yield();
  }
  return client.Read();
}

TEST_P(Listener, CountsHeadersAcrossReads) {
  // Each piece ends in the middle of a line. Together they have no end and are far beyond each limit.
  std::vector<std::string> many = {"GET / HTTP/1.1\r\nHost: a\r\nA"};
  for (int i = 0; i < 400; ++i) many.push_back(": b\r\nA");
  TestClient fields = Connect();
  auto response = SendPieces(fields, many);
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 431);
  EXPECT_EQ(response->body, R"({"error":"more than 256 header fields"})");
  EXPECT_TRUE(fields.AtEnd());

  std::vector<std::string> large = {"GET / HTTP/1.1\r\nHost: a\r\nA"};
  for (int i = 0; i < 40; ++i) large.push_back(": " + std::string(2000, 'b') + "\r\nA");
  TestClient bytes = Connect();
  response = SendPieces(bytes, large);
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 431);
  EXPECT_TRUE(bytes.AtEnd());

  // The maximum that is allowed, in pieces, on a connection that had such a request before.
  TestClient good = Connect();
  for (int round = 0; round < 3; ++round) {
    std::vector<std::string> pieces = {"GET /none HTTP/1.1\r\nHost: a\r\nA"};
    for (int i = 0; i < 254; ++i) pieces.push_back(": " + std::string(100, 'b') + "\r\nA");
    pieces.emplace_back(": b\r\n\r\n");
    EXPECT_EQ(SendPieces(good, pieces)->status, 404);
  }
}

TEST_P(Listener, CountsWhatStandsBesideChunks) {
  const std::string start = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  std::vector<std::string> extensions = {start};
  for (int i = 0; i < 40; ++i) extensions.push_back("1;x=" + std::string(2000, 'e') + "\r\na\r\n");
  TestClient extended = Connect();
  auto response = SendPieces(extended, extensions);
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 431);
  EXPECT_EQ(response->body, R"({"error":"more than 32768 bytes of chunk extensions"})");

  std::string trailers = start + "1\r\na\r\n0\r\n";
  for (int i = 0; i < 300; ++i) trailers += "T: v\r\n";
  TestClient trailed = Connect();
  ASSERT_TRUE(trailed.Send(trailers + "\r\n"));
  EXPECT_EQ(trailed.Read()->status, 431);

  TestClient good = Connect();
  ASSERT_TRUE(good.Send(start + "1;x=y\r\na\r\n0\r\nT: v\r\n\r\n"));
  EXPECT_EQ(good.Read()->body, "a");
}

TEST_P(Listener, WritesLargeAnswersToSlowReaders) {
  TestClient client = Connect();
  for (size_t size : {size_t{0}, size_t{100}, size_t{30'000'000}}) {
    auto response = client.Request("GET", "/large/" + std::to_string(size));
    ASSERT_TRUE(response);
    EXPECT_EQ(response->body.size(), size + 5);
  }
  // Responds on another thread than the io thread.
  ASSERT_TRUE(client.SendRequest("POST", "/hold", "x"));
  auto held = service_.Take();
  std::thread([&] {
    HttpResponse response;
    HeapAllocator heap;
    for (int i = 0; i < 200; ++i) response.tail.push_back(*heap.Allocate(100'000));
    held.exchange->Respond(std::move(response));
  }).join();
  auto response = client.Read();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->body.size(), 20'000'000u);
  EXPECT_EQ(client.Request("POST", "/echo", "next")->body, "next");
}

// A thread with several responses sends them at the end of its row of work.
TEST_P(Listener, SendsTheResponsesOfABatchAtItsEnd) {
  std::deque<TestClient> clients;
  std::vector<EchoService::Held> held;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(Connect());
    ASSERT_TRUE(clients.back().SendRequest("POST", "/hold", "x"));
    held.push_back(service_.Take());
  }
  std::thread([&] {
    const Batch batch;
    for (size_t i = 0; i < 3; ++i) held[i].exchange->Respond(TextResponse("answer " + std::to_string(i)));
    for (const TestClient& client : clients) {
      int waiting = 0;
      ASSERT_EQ(::ioctl(client.fd(), FIONREAD, &waiting), 0);
      EXPECT_EQ(waiting, 0);
    }
    // Its response can no longer be sent; the others are.
    clients[1].Close();
  }).join();
  for (size_t i : {size_t{0}, size_t{2}}) {
    EXPECT_EQ(clients[i].Read()->body, "answer " + std::to_string(i));
    EXPECT_EQ(clients[i].Request("POST", "/echo", "next")->body, "next");
  }
}

TEST_P(Listener, CancelsWhenTheClientGoesAway) {
  TestClient client = Connect();
  ASSERT_TRUE(client.SendRequest("POST", "/hold", "x"));
  auto held = service_.Take();
  EXPECT_FALSE(held.cancellation->cancelled());
  client.Close();
  service_.WaitForCancelled(1);
  held.exchange->Respond(TextResponse("nobody hears"));
}

// Later input of a pipelining client must not hide that the client goes away.
TEST_P(Listener, CancelsWhenAClientThatPipelinesGoesAway) {
  options_.linger_timeout = 40ms;  // the sweep runs four times in this time
  options_.threads = 1;
  TestClient client = Connect();
  ASSERT_TRUE(client.SendRequest("POST", "/hold", "x"));
  auto held = service_.Take();
  ASSERT_TRUE(client.SendRequest("POST", "/echo", "next"));
  ASSERT_TRUE(client.SendRequest("POST", "/echo", "the one after that"));
  // The thread sees the input before it answers the other client.
  EXPECT_EQ(Connect().Request("POST", "/echo", "x")->status, 200);
  EXPECT_FALSE(held.cancellation->cancelled());
  client.Close();
  service_.WaitForCancelled(1);
  held.exchange->Respond(TextResponse("nobody hears"));
}

// The body is read up to its end, so later bytes remain in TLS.
TEST_P(Listener, ReadsOnBehindABodyThatWasReadToItsPlace) {
  TestClient client = Connect();
  const std::string body(100'000, 'b');
  std::thread sender([&] {
    client.Send("POST /hold HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" + body +
                "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nnext");
  });
  auto held = service_.Take();
  sender.join();
  held.exchange->Respond(TextResponse("first"));
  EXPECT_EQ(client.Read()->body, "first");
  EXPECT_EQ(client.Read()->body, "next");
}

TEST_P(Listener, KnowsWhomTheClientsCertificateNames) {
  EXPECT_EQ(Connect().Request("GET", "/identity")->body, "");
  EXPECT_EQ(Connect("client").Request("GET", "/identity")->body, GetParam() ? "spiffe://test/client" : "");
}

HttpResponse StreamHead(unsigned status = 200) {
  HttpResponse head;
  head.status = status;
  head.content_type = "text/event-stream";
  return head;
}

TEST_P(Listener, SendsPartsAsTheyComeAndKeepsTheConnection) {
  Start();
  TestClient client = Connect();
  for (unsigned status : {200u, 404u}) {
    client.SendRequest("POST", "/hold");
    auto held = service_.Take();
    held.exchange->BeginStream(StreamHead(status));
    EXPECT_EQ(held.exchange->SendPart("first"), HttpExchange::PartResult::kTaken);
    auto head = client.ReadHead();
    ASSERT_TRUE(head);
    EXPECT_EQ(head->status, static_cast<int>(status));
    EXPECT_EQ(head->header("Content-Type"), "text/event-stream");
    EXPECT_EQ(head->header("Content-Length"), "");
    EXPECT_EQ(client.ReadChunk(), "first");
    EXPECT_EQ(held.exchange->SendPart(""), HttpExchange::PartResult::kTaken);
    EXPECT_EQ(held.exchange->SendPart("second"), HttpExchange::PartResult::kTaken);
    EXPECT_EQ(client.ReadChunk(), "second");
    held.exchange->EndStream();
    EXPECT_EQ(client.ReadChunk(), "");
  }
  EXPECT_EQ(client.Request("POST", "/echo", "after")->body, "after");
}

TEST_P(Listener, SendsAStreamWithoutParts) {
  Start();
  TestClient client = Connect();
  client.SendRequest("POST", "/hold");
  client.SendRequest("POST", "/echo", "pipelined");
  auto held = service_.Take();
  held.exchange->BeginStream(StreamHead());
  held.exchange->EndStream();
  EXPECT_EQ(client.Read()->body, "");
  EXPECT_EQ(client.Read()->body, "pipelined");
}

TEST_P(Listener, SendsPartsWithoutChunksToAnOldClient) {
  Start();
  TestClient client = Connect();
  client.Send("POST /hold HTTP/1.0\r\nContent-Length: 0\r\n\r\n");
  auto held = service_.Take();
  held.exchange->BeginStream(StreamHead());
  held.exchange->SendPart("one,");
  held.exchange->SendPart("two");
  held.exchange->EndStream();
  const std::string all = client.ReadToEnd();
  EXPECT_NE(all.find("Connection: close\r\n"), std::string::npos);
  EXPECT_EQ(all.find("chunked"), std::string::npos);
  EXPECT_TRUE(all.ends_with("\r\n\r\none,two")) << all;
}

TEST_P(Listener, KeepsPartsForASlowReader) {
  Start();
  TestClient client = Connect();
  std::string sent;
  client.SendRequest("POST", "/hold");
  auto held = service_.Take();
  held.exchange->BeginStream(StreamHead());
  for (int i = 0; i < 40; ++i) {
    const std::string part(size_t{1} << 20, static_cast<char>('a' + i % 26));
    ASSERT_EQ(held.exchange->SendPart(part), HttpExchange::PartResult::kTaken);
    sent += part;
  }
  held.exchange->EndStream();
  EXPECT_TRUE(client.Read()->body == sent);
  EXPECT_EQ(client.Request("POST", "/echo", "after")->body, "after");
  EXPECT_FALSE(held.cancellation->cancelled());
}

// The io thread is busy while a part waits, the client makes room for it, and the stream ends. The writable
// event then arrives in the middle of the next request.
TEST_P(Listener, ReadsTheNextRequestAfterAPartThatWaited) {
  Start();
  TestClient client = Connect();
  client.SendRequest("POST", "/hold");
  auto held = service_.Take();
  held.exchange->BeginStream(StreamHead());
  std::promise<void> release;
  held.exchange->RunAside([busy = release.get_future().share()] { busy.wait(); });
  const std::string part(size_t{256} << 10, 'x');
  int parts = 0;
  const auto arrived = [&client] {
    int bytes = 0;
    ::ioctl(client.fd(), FIONREAD, &bytes);
    return static_cast<size_t>(bytes);
  };
  for (bool blocked = false; !blocked && parts < 200;) {
    ASSERT_EQ(held.exchange->SendPart(part), HttpExchange::PartResult::kTaken);
    ++parts;
    const int64_t patience = SteadyNowNs() + kSecond / 20;
    while (arrived() < static_cast<size_t>(parts) * part.size() && !blocked)
      blocked = SteadyNowNs() > patience;
  }
  held.exchange->EndStream();
  ASSERT_TRUE(client.ReadHead());
  for (int i = 0; i < parts - 1; ++i) ASSERT_EQ(client.ReadChunk(), part);
  client.Send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab");
  release.set_value();
  EXPECT_EQ(client.ReadChunk(), part);
  EXPECT_EQ(client.ReadChunk(), "");
  client.Send("cde");
  EXPECT_EQ(client.Read()->body, "abcde");
}

TEST_P(Listener, CutsOffAReaderForWhomTooMuchWaits) {
  Start();
  TestClient client = Connect();
  client.SendRequest("POST", "/hold");
  auto held = service_.Take();
  held.exchange->BeginStream(StreamHead());
  const std::string part(size_t{8} << 20, 'x');
  int taken = 0;
  while (held.exchange->SendPart(part) == HttpExchange::PartResult::kTaken) ASSERT_LT(++taken, 100);
  EXPECT_GE(taken, 8);
  EXPECT_EQ(held.exchange->SendPart(part), HttpExchange::PartResult::kGone);
  service_.WaitForCancelled(1);
  held.exchange->EndStream();
  EXPECT_LT(client.ReadToEnd().size(), static_cast<size_t>(taken) * part.size());
}

TEST_P(Listener, CutsOffAReaderThatStalls) {
  options_.write_timeout = 300ms;
  Start();
  TestClient client = Connect();
  client.SendRequest("POST", "/hold");
  auto held = service_.Take();
  held.exchange->BeginStream(StreamHead());
  held.exchange->SendPart(std::string(size_t{32} << 20, 'x'));
  service_.WaitForCancelled(1);
  EXPECT_EQ(held.exchange->SendPart("more"), HttpExchange::PartResult::kGone);
  held.exchange->EndStream();
}

TEST_P(Listener, CancelsAStreamWhoseClientGoesAwayBetweenParts) {
  Start();
  TestClient client = Connect();
  client.SendRequest("POST", "/hold");
  auto held = service_.Take();
  held.exchange->BeginStream(StreamHead());
  held.exchange->SendPart("one");
  EXPECT_TRUE(client.ReadHead());
  client.Close();
  service_.WaitForCancelled(1);
  while (held.exchange->SendPart("x") == HttpExchange::PartResult::kTaken) {
  }
  held.exchange->EndStream();
  EXPECT_EQ(Connect().Request("POST", "/echo", "x")->body, "x");
}

TEST_P(Listener, ShutsDownWithStreamsThatEndAfterwards) {
  Start();
  TestClient client = Connect();
  client.SendRequest("POST", "/hold");
  auto held = service_.Take();
  held.exchange->BeginStream(StreamHead());
  held.exchange->SendPart("one");
  listener_->Shutdown(SteadyNowNs());
  service_.WaitForCancelled(1);
  held.exchange->SendPart("two");
  held.exchange->EndStream();
}

TEST_P(Listener, AnswersAClientThatHasEndedItsSide) {
  TestClient client = Connect();
  ASSERT_TRUE(client.SendRequest("POST", "/hold", "x"));
  client.HalfClose();
  auto held = service_.Take();
  service_.WaitForCancelled(1);
  held.exchange->Respond(TextResponse("late"));
  EXPECT_EQ(client.Read()->body, "late");
  EXPECT_TRUE(client.AtEnd());
}

TEST_P(Listener, ClosesWhenTheClientAsksForIt) {
  TestClient client = Connect();
  auto response = client.Request("POST", "/echo", "bye", "Connection: close\r\n");
  EXPECT_EQ(response->body, "bye");
  EXPECT_EQ(response->header("Connection"), "close");
  EXPECT_TRUE(client.AtEnd());
  TestClient old = Connect();
  ASSERT_TRUE(old.Send("POST /hold HTTP/1.0\r\nContent-Length: 1\r\n\r\nx"));
  auto held = service_.Take();
  held.exchange->Respond(TextResponse("old"));
  EXPECT_EQ(old.Read()->body, "old");
  EXPECT_TRUE(old.AtEnd());
  TestClient head = Connect();
  ASSERT_TRUE(head.Send("HEAD /large/7 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
  EXPECT_FALSE(head.Read());  // announces 12 bytes and sends none
}

TEST_P(Listener, KeepsAnOldClientThatAsksForIt) {
  TestClient client = Connect();
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(client.Send("POST /echo HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx"));
    auto response = client.Read();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->body, "x");
    EXPECT_EQ(response->header("Connection"), "keep-alive");
  }
  // A response without a length lasts until the connection ends.
  ASSERT_TRUE(client.Send("POST /hold HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n"));
  auto held = service_.Take();
  held.exchange->BeginStream({});
  held.exchange->SendPart("part");
  held.exchange->EndStream();
  auto response = client.ReadHead();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->header("Connection"), "close");
  EXPECT_EQ(response->header("Transfer-Encoding"), "");
}

TEST_P(Listener, RefusesHeadsThatCanBeReadInTwoWays) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"HTTP/1.1\r\n", "expected one header 'Host', got 0"},
      {"HTTP/1.1\r\nHost: a\r\nHost: a\r\n", "expected one header 'Host', got 2"},
      {"HTTP/1.0\r\nHost: a\r\nHost: b\r\n", "expected one header 'Host', got 2"},
      {"HTTP/1.1\r\nHost: a/b\r\n", "expected NAME or NAME:PORT in the header 'Host', got 'a/b'"},
      {"HTTP/1.1\r\nHost: a b\r\n", "expected NAME or NAME:PORT in the header 'Host', got 'a b'"},
      {"HTTP/1.1\r\nHost: a:b\r\n", "expected NAME or NAME:PORT in the header 'Host', got 'a:b'"},
      {"HTTP/1.1\r\nHost: [::1\r\n", "expected NAME or NAME:PORT in the header 'Host', got '[::1'"},
      {"HTTP/1.1\r\nHost: u@a\r\n", "expected NAME or NAME:PORT in the header 'Host', got 'u@a'"},
      {"HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\nAuthorization: Bearer y\r\n",
       "expected one header 'Authorization', got 2"},
      {"HTTP/1.0\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n",
       "the header 'Transfer-Encoding' is not allowed in HTTP/1.0"}};
  for (const auto& [head, text] : cases) {
    TestClient client = Connect();
    ASSERT_TRUE(client.Send("POST /echo " + std::string(head) + "\r\n0\r\n\r\n"));
    auto response = client.Read();
    ASSERT_TRUE(response) << head;
    EXPECT_EQ(response->status, 400) << head;
    EXPECT_EQ(response->body, "{\"error\":\"" + std::string(text) + "\"}");
    EXPECT_TRUE(client.AtEnd()) << head;
  }
  TestClient good = Connect();
  for (const std::string_view host :
       {"", "a", "A.b-c_d:", "a:80", "127.0.0.1:8000", "[::1]", "[::1]:8000", "%41"}) {
    ASSERT_TRUE(good.Send("GET /none HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n"));
    EXPECT_EQ(good.Read()->status, 404) << host;
  }
}

// Trailer fields arrive after the request was accepted by its head.
TEST_P(Listener, FieldsBehindABodyAreNotThoseOfTheRequest) {
  TestClient client = Connect();
  ASSERT_TRUE(
      client.Send("POST /hold HTTP/1.1\r\nHost: a\r\nX: front\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "1\r\nx\r\n0\r\nX: behind\r\nAuthorization: Bearer x\r\n\r\n"));
  auto held = service_.Take();
  const HttpHead& head = held.exchange->head();
  EXPECT_EQ(head.count("X"), 1U);
  EXPECT_EQ(FindHeader(head, "X"), "front");
  EXPECT_FALSE(FindHeader(head, "Authorization"));
  held.exchange->Respond(TextResponse(held.body));
  EXPECT_EQ(client.Read()->body, "x");
}

// Some clients send a line end after a body.
TEST_P(Listener, SkipsAnEmptyLineBeforeARequest) {
  TestClient client = Connect();
  const std::string request = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx";
  ASSERT_TRUE(client.Send("\r\n" + request + "\r\n" + request));
  EXPECT_EQ(client.Read()->body, "x");
  EXPECT_EQ(client.Read()->body, "x");
  for (const std::string_view piece : {"\r", "\n"}) {
    ASSERT_TRUE(client.Send(piece));
    std::this_thread::yield();
  }
  ASSERT_TRUE(client.Send(request));
  EXPECT_EQ(client.Read()->body, "x");
  TestClient many = Connect();
  ASSERT_TRUE(many.Send("\r\n\r\n" + request));
  EXPECT_EQ(many.Read()->status, 400);
  EXPECT_TRUE(many.AtEnd());
}

TEST_P(Listener, EndsSilentAndSlowConnections) {
  // Long enough for a handshake on a slow machine. The connections wait for their timeouts at the same time.
  options_.idle_timeout = options_.header_timeout = options_.body_timeout = options_.linger_timeout = 1s;
  TestClient idle = Connect();
  TestClient slow = Connect();
  ASSERT_TRUE(slow.Send("POST /echo HTTP/1.1\r\nHost"));
  // Lines that end with their segments leave the buffer empty, but have begun a request.
  TestClient lines = Connect();
  ASSERT_TRUE(lines.Send("POST /echo HTTP/1.1\r\nHost: a\r\nA: b\r\n"));
  TestClient body = Connect();
  ASSERT_TRUE(body.Send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc"));
  // A running request has no timeout.
  TestClient running = Connect();
  ASSERT_TRUE(running.SendRequest("POST", "/hold", "x"));
  auto held = service_.Take();
  TestClient last = Connect();
  for (TestClient* silent : {&idle, &slow, &lines, &body, &last}) EXPECT_TRUE(silent->AtEnd());
  held.exchange->Respond(TextResponse("in time"));
  EXPECT_EQ(running.Read()->body, "in time");
}

TEST_P(Listener, ShutsDownGracefully) {
  TestClient idle = Connect();
  EXPECT_EQ(idle.Request("POST", "/echo", "x")->status, 200);
  TestClient busy = Connect();
  ASSERT_TRUE(busy.SendRequest("POST", "/hold", "x"));
  auto held = service_.Take();
  // Two more idle connections, one on each thread. When they are closed, both threads know of the shutdown.
  TestClient second_idle = Connect();
  TestClient third_idle = Connect();
  EXPECT_EQ(third_idle.Request("POST", "/echo", "x")->status, 200);
  std::thread stopper([&] { listener_->Shutdown(SteadyNowNs() + 30 * kSecond); });
  EXPECT_TRUE(idle.AtEnd());
  EXPECT_TRUE(second_idle.AtEnd());
  EXPECT_TRUE(third_idle.AtEnd());
  held.exchange->Respond(TextResponse("last"));
  auto response = busy.Read();
  EXPECT_EQ(response->body, "last");
  EXPECT_EQ(response->header("Connection"), "close");
  busy.Close();
  stopper.join();
  EXPECT_EQ(listener_->connection_count(), 0u);
}

TEST_P(Listener, CutsOffWhatRunsPastTheDeadline) {
  TestClient busy = Connect();
  ASSERT_TRUE(busy.SendRequest("POST", "/hold", "x"));
  auto held = service_.Take();
  listener_->Shutdown(SteadyNowNs());
  EXPECT_TRUE(held.cancellation->cancelled());
  EXPECT_TRUE(busy.AtEnd());
  listener_.reset();
  held.exchange->RunAside([] { FAIL(); });
  held.exchange->Respond(TextResponse("too late"));
}

TEST_P(Listener, TellsWhenThePortIsTaken) {
  Start();
  options_.port = listener_->port();
  auto second = HttpListener::Start(options_, service_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().message(),
            "Socket '127.0.0.1:" + std::to_string(options_.port) + "' already in use");
  options_.address = "no address";
  EXPECT_EQ(HttpListener::Start(options_, service_).status().code(), StatusCode::kInvalidArgument);
}

TEST_P(Listener, SpreadsConnectionsOverTheThreadsThatItIsTold) {
  for (const int threads : {1, 3}) {
    options_.threads = threads;
    Start();
    std::set<std::string> seen;
    for (int i = 0; i < 6; ++i) {
      TestClient client = Connect();
      seen.insert(client.Request("GET", "/thread", "")->body);
    }
    EXPECT_EQ(std::ssize(seen), threads);
  }
}

TEST_P(Listener, LimitsConnections) {
  options_.limits =
      std::make_shared<ClientLimits>(ClientLimits::Options{.connections = {1, 1}, .memory_bytes = SIZE_MAX});
  TestClient first = Connect();
  EXPECT_EQ(first.Request("POST", "/echo", "x")->status, 200);
  TestClient second = Connect();
  EXPECT_TRUE(second.AtEnd());
}

// Clients connect and disconnect at random while another thread responds. For the sanitizers.
TEST_P(Listener, SurvivesClientsThatAreCutAtRandom) {
  Start();
  std::thread responder([&] {
    while (true) {
      auto held = service_.Take();
      const bool last = held.body == "last";
      held.exchange->Respond(TextResponse(std::string(held.body == "large" ? 1'000'000 : 10, 'r')));
      if (last) return;
    }
  });
  std::vector<std::thread> clients;
  for (unsigned seed = 0; seed < 4; ++seed) {
    clients.emplace_back([this, seed] {
      std::mt19937 random(seed);
      for (int i = 0; i < 60; ++i) {
        TestClient client = Connect();
        for (int j = 0; j < 4; ++j) {
          client.SendRequest("POST", random() % 3 ? "/hold" : "/echo", random() % 4 ? "small" : "large");
          if (random() % 2 == 0) client.Read();
          if (random() % 5 == 0) break;
          if (random() % 5 == 0) {
            client.Send("POST /hold HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\npart");
            break;
          }
        }
      }
    });
  }
  for (auto& client : clients) client.join();
  TestClient last = Connect();
  ASSERT_TRUE(last.SendRequest("POST", "/hold", "last"));
  EXPECT_EQ(last.Read()->status, 200);
  responder.join();
}

// Large bodies are passed to their calls on other threads.
class ListenerWithPool : public Listener {
 protected:
  ListenerWithPool() { options_.large_pool = std::make_shared<ControlPool>(2, "test-read", 1000); }
  ~ListenerWithPool() override {
    listener_.reset();
    options_.large_pool->Stop();
  }
  // Returns a request with one of four kinds of body, and the expected response.
  static std::pair<std::string, std::string> Request(unsigned kind, size_t size) {
    std::string body(size, ' ');
    for (size_t i = 0; i < size; ++i) body[i] = static_cast<char>('a' + i % 23);
    const auto head = [](std::string_view target, std::string_view fields) {
      return "POST " + std::string(target) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(fields) +
             "\r\n";
    };
    const auto length = [](const std::string& text) {
      return "Content-Length: " + std::to_string(text.size()) + "\r\n";
    };
    const std::string_view parts[] = {body};
    const std::string small = *Compress(ContentCoding::kGzip, parts);
    char chunk[32];
    std::snprintf(chunk, sizeof(chunk), "%zx\r\n", body.size());
    switch (kind % 4) {
      case 0:
        return {head("/echo", length(body)) + body, body};
      case 1:
        return {head("/echo", length(small) + "Content-Encoding: gzip\r\n") + small, body};
      case 2:
        return {head("/echo", "Transfer-Encoding: chunked\r\n") + chunk + body + "\r\n0\r\n\r\n", body};
      default:
        return {head("/split", length(small) + "Content-Encoding: gzip\r\n") + small,
                body.substr(0, 4) + "|" + body.substr(4)};
    }
  }
};

TEST_P(ListenerWithPool, AnswersInOrder) {
  TestClient client = Connect();
  std::string all;
  std::vector<std::string> answers;
  for (unsigned i = 0; i < 16; ++i) {
    auto [request, answer] = Request(i, i % 3 == 0 ? 100 : 400'000 + i);
    all += request;
    answers.push_back(std::move(answer));
  }
  std::thread sender([&] { EXPECT_TRUE(client.Send(all)); });
  for (const std::string& answer : answers) {
    const auto response = client.Read();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, 200);
    EXPECT_TRUE(response->body == answer);
  }
  sender.join();
}

TEST_P(ListenerWithPool, SaysWhatIsWrongWithBodies) {
  options_.max_body_bytes = 500'000;
  TestClient client = Connect();
  const std::string gzip = "Content-Encoding: gzip\r\n";
  const std::string bomb(50'000'000, 'z');
  const std::string_view parts[] = {bomb};
  EXPECT_EQ(client.Request("POST", "/echo", *Compress(ContentCoding::kGzip, parts), gzip)->status, 413);
  EXPECT_EQ(client.Request("POST", "/echo", std::string(5000, 'x'), gzip)->status, 400);
  EXPECT_EQ(client.Request("POST", "/echo", "still here")->body, "still here");
}

TEST_P(ListenerWithPool, RefusesWhatDoesNotFitIntoTheBudget) {
  options_.limits = std::make_shared<ClientLimits>(
      ClientLimits::Options{.connections = {}, .memory_bytes = MemoryUse() + (size_t{4} << 20)});
  TestClient client = Connect();
  const auto refused = client.Request("POST", "/echo", std::string(500'000, 'x'));
  EXPECT_EQ(refused->status, 429);
  EXPECT_EQ(refused->header("Retry-After"), "1");
  EXPECT_EQ(client.Request("POST", "/echo", std::string(200'000, 'x'))->status, 200);
  EXPECT_EQ(options_.limits->refusals.count(Limit::kMemory), 1u);
}

TEST_P(ListenerWithPool, SurvivesClientsThatAreCutAtRandom) {
  Start();
  std::vector<std::thread> clients;
  for (unsigned seed = 0; seed < 4; ++seed) {
    clients.emplace_back([this, seed] {
      std::mt19937 random(seed);
      for (int i = 0; i < 40; ++i) {
        TestClient client = Connect();
        const auto [request, answer] = Request(static_cast<unsigned>(random()), 300'000);
        client.Send(request);
        if (random() % 2 == 0) continue;
        const auto response = client.Read();
        EXPECT_TRUE(response && response->body == answer);
      }
    });
  }
  for (auto& client : clients) client.join();
  // Some bodies are still being read at the end.
  std::deque<TestClient> last;
  for (unsigned i = 0; i < 20; ++i) last.emplace_back(Connect()).Send(Request(i, 1'000'000).first);
  listener_->Shutdown(SteadyNowNs());
}

std::string WithTls(const testing::TestParamInfo<bool>& info) { return info.param ? "Tls" : "Plain"; }
INSTANTIATE_TEST_SUITE_P(, Listener, testing::Bool(), WithTls);
INSTANTIATE_TEST_SUITE_P(, ListenerWithPool, testing::Bool(), WithTls);

class ListenerWithTls : public Listener {};
INSTANTIATE_TEST_SUITE_P(, ListenerWithTls, testing::Values(true), WithTls);

TEST_P(ListenerWithTls, ClosesOnAClientWithoutIt) {
  Start();
  TestClient plain(listener_->port());
  plain.SendRequest("GET", "/identity");
  EXPECT_EQ(plain.ReadToEnd().find("HTTP/"), std::string::npos);
  EXPECT_EQ(Connect().Request("POST", "/echo", "x")->body, "x");
}

TEST_P(ListenerWithTls, RefusesACertificateThatItDoesNotKnow) {
  EXPECT_FALSE(Connect("stranger").Request("GET", "/identity"));
  EXPECT_EQ(Connect("plain").Request("GET", "/identity")->body, "plain client");
}

TEST_P(ListenerWithTls, EndsHandshakesThatDoNotEnd) {
  options_.header_timeout = 1s;
  TestClient whole = Connect();
  EXPECT_EQ(whole.Request("POST", "/echo", "x")->body, "x");
  TestClient silent(listener_->port());
  TestClient slow(listener_->port());
  slow.Send("\x16\x03\x01");  // the start of a record
  EXPECT_TRUE(silent.AtEnd());
  EXPECT_TRUE(slow.AtEnd());
  // The time between requests is longer.
  EXPECT_EQ(whole.Request("POST", "/echo", "y")->body, "y");
}

// The io thread is busy while a body arrives in small records. The connection's turn ends before the last
// record, which TLS has read, so that no event follows.
TEST_P(ListenerWithTls, ReadsOnAfterItsTurn) {
  options_.threads = 1;
  TestClient busy = Connect();
  TestClient client = Connect();
  EXPECT_EQ(client.Request("POST", "/echo", "x")->body, "x");
  busy.SendRequest("POST", "/hold");
  auto held = service_.Take();
  std::promise<void> release;
  held.exchange->RunAside([released = release.get_future().share()] { released.wait(); });
  const std::string record(1000, 'r');
  constexpr size_t kRecords = 1050;  // a connection's turn is 1 MiB
  auto sent = std::async(std::launch::async, [&] {
    client.Send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(kRecords * 1000) +
                "\r\n\r\n");
    for (size_t i = 0; i < kRecords; ++i) client.Send(record);
  });
  sent.wait_for(1s);  // as much as the socket takes
  release.set_value();
  EXPECT_EQ(client.Read()->body.size(), kRecords * 1000);
  held.exchange->Respond(TextResponse("done"));
}

TEST_P(ListenerWithTls, SaysThatItEnds) {
  TlsClient* tls = nullptr;
  Start();
  TestClient client(listener_->port(), [&](int fd) {
    auto made = std::make_unique<TlsClient>(fd, TlsClient::Options{certificates_->File("root.pem")});
    tls = made.get();
    return made;
  });
  EXPECT_EQ(client.Request("POST", "/echo", "bye", "Connection: close\r\n")->body, "bye");
  char byte = 0;
  EXPECT_EQ(tls->Receive({&byte, 1}), 0);
}

}  // namespace
}  // namespace braid
