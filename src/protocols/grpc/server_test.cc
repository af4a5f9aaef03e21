#include "protocols/grpc/server.h"

#include <grpcpp/alarm.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <condition_variable>
#include <fstream>
#include <mutex>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "protocols/grpc/connection.h"
#include "protocols/grpc/protocol.h"
#include "protocols/grpc/status.h"
#include "protocols/grpc/thread.h"
#include "protocols/grpc/unary_call.h"
#include "protocols/net/testing/test_certificates.h"
#include "serving/testing/fake_control.h"

namespace braid {
namespace {

EncodedMessage Message(std::string text) {
  EncodedMessage message;
  message.size = text.size();
  message.text = std::move(text);
  return message;
}

std::string Text(const GrpcMessage& message) {
  std::string text;
  for (const std::string_view segment : message.segments()) text += segment;
  return text;
}

// Echoes the message. Some texts have special responses.
class Echo final : public GrpcUnaryCall {
 public:
  explicit Echo(Setup setup, std::string identity, std::function<void(std::shared_ptr<Echo>)> held)
      : GrpcUnaryCall(std::move(setup)), identity_(std::move(identity)), held_(std::move(held)) {
    EnableCompression();
  }
  void Answer(const std::string& text) { SendAndFinish(Message(text)); }
  std::atomic<bool> cancelled{false};

 private:
  void Handle(GrpcMessage message) override {
    std::string text = Text(message);
    if (text == "throw") throw std::bad_alloc();
    if (text == "fail") {
      Finish(NotFoundError("no 100% \"such\" thing: \xc3\xa4\n"));
    } else if (text == "fail at length") {
      Finish(NotFoundError(std::string(12 << 20, '\n')));
    } else if (text == "identity") {
      Answer(identity_);
    } else if (text == "hold") {
      held_(std::static_pointer_cast<Echo>(shared_from_this()));
    } else {
      Answer(text);
    }
  }
  void OnCancelled() override { cancelled = true; }

  const std::string identity_;  // in its client's certificate
  const std::function<void(std::shared_ptr<Echo>)> held_;
};

// Responds to each message with two copies, as fast as the client takes them.
class Twice final : public GrpcCall {
 public:
  using GrpcCall::GrpcCall;

 private:
  void OnMessage(GrpcMessage message) override {
    Push(Message(Text(message)));
    Send(Message(Text(message)));
    NotifyWhenAtMost({4, 1 << 20});
  }
  void OnSent() override { RequestMessage(); }
  void OnHalfClose() override { Finish(OkStatus()); }
  void OnDrain() override { Finish(UnavailableError("Server exiting")); }
  void OnCancelled() override {}
};

// Takes a message on demand.
class Slow final : public GrpcCall {
 public:
  using GrpcCall::GrpcCall;
  void TakeOne() { RequestMessage(); }
  std::atomic<size_t> taken{0};
  std::atomic<int> cancelled{0};

 private:
  void OnMessage(GrpcMessage) override { ++taken; }
  void OnHalfClose() override { Finish(OkStatus()); }
  void OnCancelled() override { ++cancelled; }
};

class TestProtocol final : public GrpcProtocol {
 public:
  std::vector<std::string> ServiceNames() const override { return {"test.Test"}; }
  std::vector<GrpcRoute> Routes(GrpcThread&, std::unique_ptr<ThreadState>&) override {
    std::vector<GrpcRoute> routes;
    routes.push_back({"/test.Test/Echo", Api::kInference, [this](GrpcThread&, GrpcCall::Setup setup) {
                        std::string identity(setup.connection->certificate_identity());
                        return Result<std::shared_ptr<GrpcCall>>(std::make_shared<Echo>(
                            std::move(setup), std::move(identity), [this](std::shared_ptr<Echo> call) {
                              const std::lock_guard lock(mutex);
                              held.push_back(std::move(call));
                              changed.notify_all();
                            }));
                      }});
    routes.push_back({"/test.Test/Twice", Api::kInference, [](GrpcThread&, GrpcCall::Setup setup) {
                        return Result<std::shared_ptr<GrpcCall>>(std::make_shared<Twice>(std::move(setup)));
                      }});
    routes.push_back({"/test.Test/Slow", Api::kInference, [this](GrpcThread&, GrpcCall::Setup setup) {
                        const std::lock_guard lock(mutex);
                        slow = std::make_shared<Slow>(std::move(setup));
                        return Result<std::shared_ptr<GrpcCall>>(slow);
                      }});
    return routes;
  }
  std::shared_ptr<Slow> WaitForSlow() {
    while (true) {
      {
        const std::lock_guard lock(mutex);
        if (slow != nullptr) return slow;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  std::shared_ptr<Echo> WaitForHeld(size_t count = 1) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return held.size() >= count; });
    return held[count - 1];
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::shared_ptr<Echo>> held;
  std::shared_ptr<Slow> slow;
};

// With and without TLS.
class GrpcTransportTest : public ::testing::TestWithParam<bool> {
 protected:
  static void SetUpTestSuite() { certificates = std::make_unique<TestCertificates>(); }
  static void TearDownTestSuite() { certificates.reset(); }
  GrpcTransportTest() {
    options.address = "127.0.0.1";
    options.port = 0;
    options.infer_threads = 2;
  }
  void Start() {
    Logger::Options quiet;
    auto log = Logger::Create(quiet);
    log_ = *std::move(log);
    if (GetParam()) {
      auto tls = TlsSource::Create(certificates->Server("root.pem"), "h2");
      ASSERT_TRUE(tls.ok()) << tls.status();
      options.tls = *std::move(tls);
    }
    auto started = GrpcServer::Start({catalog, control, *log_, access}, {&protocol}, options);
    ASSERT_TRUE(started.ok()) << started.status();
    server = *std::move(started);
    Connect();
  }
  // `certificate`: name of the client's certificate; empty: none.
  void Connect(const std::string& certificate = "") {
    std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
    if (GetParam()) {
      grpc::SslCredentialsOptions shown;
      shown.pem_root_certs = Content("root.pem");
      if (!certificate.empty()) {
        shown.pem_cert_chain = Content(certificate + ".pem");
        shown.pem_private_key = Content(certificate + ".key");
      }
      credentials = grpc::SslCredentials(shown);
    }
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel = grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(server->bound_port()), credentials,
                                        arguments);
  }
  static std::string Content(const std::string& name) {
    std::ifstream file(certificates->File(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }

  struct Answer {
    grpc::Status status;
    std::string text;
    bool later = false;  // the response says when the call may be retried
  };
  Answer Call(const std::string& text, const std::string& path = "/test.Test/Echo",
              const std::function<void(grpc::ClientContext&)>& prepare = {}) {
    grpc::ClientContext context;
    if (prepare) prepare(context);
    grpc::GenericStub stub(channel);
    grpc::CompletionQueue queue;
    const grpc::Slice slice(text);
    const grpc::ByteBuffer message(&slice, 1);
    auto call = stub.PrepareUnaryCall(&context, path, message, &queue);
    call->StartCall();
    grpc::ByteBuffer answer;
    Answer result;
    call->Finish(&answer, &result.status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    result.later = context.GetServerTrailingMetadata().contains("grpc-retry-pushback-ms");
    std::vector<grpc::Slice> slices;
    if (result.status.ok()) {
      EXPECT_TRUE(answer.Dump(&slices).ok());
    }
    for (const grpc::Slice& one : slices)
      result.text.append(reinterpret_cast<const char*>(one.begin()), one.size());
    return result;
  }

  // Whether the server ends a connection on which the client sends only `bytes`.
  bool Ends(std::string_view bytes) const {
    const UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(server->bound_port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::send(client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), std::ssize(bytes));
    pollfd ended{client.get(), POLLIN, 0};
    char answer[256];
    ssize_t got = 1;
    // The server may send its settings before the end.
    while (got > 0 && ::poll(&ended, 1, 30'000) == 1) got = ::recv(client.get(), answer, sizeof(answer), 0);
    return got <= 0;
  }

  static inline std::unique_ptr<const TestCertificates> certificates;
  GrpcServer::Options options;
  Catalog catalog;
  FakeControl control;
  AccessPolicy access{AccessPolicy::Wire::kGrpc};
  TestProtocol protocol;
  std::unique_ptr<Logger> log_;
  std::unique_ptr<GrpcServer> server;
  std::shared_ptr<grpc::Channel> channel;
};

TEST_P(GrpcTransportTest, AnswersMessagesOfAnySize) {
  Start();
  for (const size_t size :
       {0, 1, 4, 5, 100, 16379, 16384, 65535, 65536, 65537, 1 << 20, (5 << 20) + 3, 40 << 20}) {
    std::string text(size, '\0');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31 >> 4);
    const Answer answer = Call(text);
    ASSERT_TRUE(answer.status.ok()) << size << answer.status.error_message();
    EXPECT_TRUE(answer.text == text) << size;
  }
}

TEST_P(GrpcTransportTest, KnowsWhomTheClientsCertificateNames) {
  Start();
  EXPECT_EQ(Call("identity").text, "");
  Connect("client");
  EXPECT_EQ(Call("identity").text, GetParam() ? "spiffe://test/client" : "");
  Connect("stranger");
  EXPECT_EQ(Call("identity").status.error_code(),
            GetParam() ? grpc::StatusCode::UNAVAILABLE : grpc::StatusCode::OK);
}

TEST_P(GrpcTransportTest, CarriesErrorsWhole) {
  Start();
  const Answer failed = Call("fail");
  EXPECT_EQ(failed.status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(failed.status.error_message(), "no 100% \"such\" thing: \xc3\xa4\n");
  EXPECT_FALSE(failed.later);
  const Answer exhausted = Call("throw");
  EXPECT_EQ(exhausted.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(exhausted.later);
  EXPECT_EQ(Call("x", "/test.Test/Other").status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(Call("still there").text, "still there");
}

// Trailers of more than 64 KiB would never be sent.
TEST_P(GrpcTransportTest, CutsErrorsThatAreTooLong) {
  Start();
  const Answer failed = Call("fail at length");
  EXPECT_EQ(failed.status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_TRUE(failed.status.error_message().starts_with("\n\n\n"));
  EXPECT_TRUE(failed.status.error_message().ends_with("\n... (12582912 bytes)"));
  EXPECT_LT(failed.status.error_message().size(), kMostGrpcMessage);
}

TEST_P(GrpcTransportTest, RefusesWhoMayNotCallBeforeTheBody) {
  ASSERT_TRUE(access.AddRestriction("inference:secret=42").ok());
  Start();
  const std::string large(64 << 20, 'x');
  EXPECT_EQ(Call(large).status.error_message(),
            "This protocol is restricted, expecting header 'triton-grpc-protocol-secret'");
  const auto with = [](grpc::ClientContext& context) {
    context.AddMetadata("triton-grpc-protocol-secret", "42");
  };
  EXPECT_EQ(Call("in", "/test.Test/Echo", with).text, "in");
}

TEST_P(GrpcTransportTest, RefusesMessagesBeyondTheLimitByTheirLength) {
  options.max_input_bytes = 1000;
  Start();
  EXPECT_TRUE(Call(std::string(1000, 'x')).status.ok());
  const Answer refused = Call(std::string(1001, 'x'));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(
      refused.status.error_message(),
      "Received message larger than max (1001 vs. 1000). Use --grpc-max-input-size to increase the limit.");
  EXPECT_FALSE(refused.later);
}

TEST_P(GrpcTransportTest, TakesAndGivesCompressedMessages) {
  options.infer_response_compression = GrpcServer::Compression::kLow;
  options.max_input_bytes = 2 << 20;
  Start();
  for (const grpc_compression_algorithm algorithm :
       {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_NONE}) {
    const auto with = [&](grpc::ClientContext& context) { context.set_compression_algorithm(algorithm); };
    const std::string text(1 << 20, 'y');
    const Answer answer = Call(text, "/test.Test/Echo", with);
    ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
    EXPECT_TRUE(answer.text == text);
  }
  const auto gzip = [](grpc::ClientContext& context) {
    context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  };
  const Answer bomb = Call(std::string(3 << 20, 'y'), "/test.Test/Echo", gzip);
  EXPECT_EQ(bomb.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_FALSE(bomb.later);
}

TEST_P(GrpcTransportTest, TellsACallThatItsClientHasGone) {
  Start();
  grpc::ClientContext context;
  std::thread client([&] {
    Call("hold", "/test.Test/Echo", [&](grpc::ClientContext& its) {
      its.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(500));
    });
  });
  const auto call = protocol.WaitForHeld();
  client.join();
  while (!call->cancelled) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  call->Answer("too late");
  EXPECT_EQ(Call("next").text, "next");
}

TEST_P(GrpcTransportTest, EndsACallAtItsDeadlineByItself) {
  Start();
  // Connects first, because the deadline leaves no time for it.
  EXPECT_EQ(Call("connected").text, "connected");
  Answer answer;
  std::thread client([&] {
    answer = Call("hold", "/test.Test/Echo", [](grpc::ClientContext& context) {
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(500));
    });
  });
  client.join();
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  const auto call = protocol.WaitForHeld();
  while (!call->cancelled) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST_P(GrpcTransportTest, RunsManyCallsOfManyThreadsOnOneConnection) {
  Start();
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const std::string text =
            std::string(static_cast<size_t>(i * 37 % 70000), 'a') + std::to_string(t * 1000 + i);
        if (Call(text).text == text) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 1600);
}

TEST_P(GrpcTransportTest, AnswersFromOtherThreadsInAnyOrder) {
  Start();
  constexpr size_t kCalls = 50;
  std::vector<std::thread> clients;
  std::atomic<int> right{0};
  for (size_t i = 0; i < kCalls; ++i) {
    clients.emplace_back([&] {
      if (Call("hold").text == "held") ++right;
    });
  }
  protocol.WaitForHeld(kCalls);
  std::vector<std::thread> answers;
  for (size_t t = 0; t < 5; ++t) {
    answers.emplace_back([&, t] {
      for (size_t i = t; i < kCalls; i += 5) protocol.held[kCalls - 1 - i]->Answer("held");
    });
  }
  for (std::thread& thread : answers) thread.join();
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(right, 50);
}

TEST_P(GrpcTransportTest, StreamsBothWays) {
  Start();
  grpc::ClientContext context;
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  auto call = stub.PrepareCall(&context, "/test.Test/Twice", &queue);
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(nullptr);
  queue.Next(&tag, &ok);
  constexpr int kMessages = 200;
  std::thread writer;
  int written = 0;
  int got = 0;
  size_t bytes = 0;
  grpc::ByteBuffer incoming;
  const auto write = [&] {
    const grpc::Slice slice(std::string(static_cast<size_t>(written * 997 % 100000), 'm'));
    call->Write(grpc::ByteBuffer(&slice, 1), reinterpret_cast<void*>(1));
    ++written;
  };
  write();
  call->Read(&incoming, reinterpret_cast<void*>(2));
  size_t expected = 0;
  for (int i = 0; i < kMessages; ++i) expected += 2 * static_cast<size_t>(i * 997 % 100000);
  while (queue.Next(&tag, &ok)) {
    if (tag == reinterpret_cast<void*>(1)) {
      if (written < kMessages) {
        write();
      } else {
        call->WritesDone(reinterpret_cast<void*>(3));
      }
    } else if (tag == reinterpret_cast<void*>(2)) {
      if (!ok) break;
      ++got;
      bytes += incoming.Length();
      call->Read(&incoming, reinterpret_cast<void*>(2));
    }
  }
  grpc::Status status;
  call->Finish(&status, reinterpret_cast<void*>(4));
  while (queue.Next(&tag, &ok) && tag != reinterpret_cast<void*>(4)) {
  }
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(got, 2 * kMessages);
  EXPECT_EQ(bytes, expected);
}

TEST_P(GrpcTransportTest, TakesNoMoreThanTheCallHasTakenAndAWindow) {
  Start();
  grpc::ClientContext context;
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  auto call = stub.PrepareCall(&context, "/test.Test/Slow", &queue);
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(nullptr);
  queue.Next(&tag, &ok);
  constexpr size_t kMessage = size_t{64} << 10;
  const grpc::Slice slice(std::string(kMessage, 'm'));
  // Writes until a write does not complete for some time, because there is no more room.
  size_t written = 0;
  bool writing = false;
  const auto fill = [&](std::chrono::milliseconds patience) {
    while (true) {
      if (!std::exchange(writing, true)) call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
      const auto deadline = std::chrono::system_clock::now() + patience;
      if (queue.AsyncNext(&tag, &ok, deadline) != grpc::CompletionQueue::GOT_EVENT) return;
      writing = false;
      ++written;
    }
  };
  fill(std::chrono::seconds(1));
  const auto slow = protocol.WaitForSlow();
  const size_t before = written;
  constexpr size_t kTaken = 20;
  for (size_t i = 0; i < kTaken; ++i) {
    slow->TakeOne();
    fill(std::chrono::milliseconds(50));
  }
  EXPECT_EQ(slow->taken, 1 + kTaken);
  // The window is extended in steps of half its size.
  EXPECT_LE(written - before, kTaken + (size_t{4} << 20) / kMessage / 2 + 1);
  context.TryCancel();
  while (slow->cancelled == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  grpc::Status status;
  call->Finish(&status, reinterpret_cast<void*>(4));
  while (queue.Next(&tag, &ok) && tag != reinterpret_cast<void*>(4)) {
  }
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(slow->cancelled, 1);
}

TEST_P(GrpcTransportTest, EndsConnectionsThatNeverSpeakHttp2) {
  // Long enough for a client's handshake under a sanitizer.
  options.handshake_timeout_ms = 2000;
  Start();
  EXPECT_EQ(Call("first").text, "first");
  // Half of a preface, or of a TLS record.
  EXPECT_TRUE(Ends(GetParam() ? "\x16\x03\x01" : "PRI"));
  EXPECT_EQ(Call("last").text, "last");
  EXPECT_EQ(channel->GetState(false), GRPC_CHANNEL_READY);
}

TEST_P(GrpcTransportTest, EndsConnectionsThatSpeakSomethingElseAtOnce) {
  options.handshake_timeout_ms = 600'000;
  Start();
  EXPECT_TRUE(Ends("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
}

TEST_P(GrpcTransportTest, LetsCallsEndWhenItShutsDownAndCancelsTheOthers) {
  Start();
  Answer first;
  Answer second;
  std::thread one([&] { first = Call("hold"); });
  protocol.WaitForHeld(1);
  std::thread two([&] { second = Call("hold"); });
  protocol.WaitForHeld(2);
  std::thread stop([&] { server->Shutdown(SteadyNowNs() + 400'000'000); });
  protocol.held[0]->Answer("in time");
  one.join();
  EXPECT_EQ(first.text, "in time");
  stop.join();
  two.join();
  EXPECT_FALSE(second.status.ok());
  EXPECT_TRUE(protocol.held[1]->cancelled);
  protocol.held[1]->Answer("after the end");
}

// The thread sanitizer reports false races in the TLS of gRPC's clients, whose libraries are built without
// it.
#ifdef _GLIBCXX_TSAN
const auto kWays = testing::Values(false);
#else
const auto kWays = testing::Bool();
#endif
INSTANTIATE_TEST_SUITE_P(, GrpcTransportTest, kWays,
                         [](const auto& info) { return info.param ? "Tls" : "Plain"; });

}  // namespace
}  // namespace braid
