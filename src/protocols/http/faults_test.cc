// An exception in a service ends one request, and nothing else.
#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <stdexcept>
#include <thread>

#include "base/clock.h"
#include "protocols/http/listener.h"
#include "protocols/http/testing/test_client.h"

namespace braid {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

[[noreturn]] void Throw(std::string_view what) {
  if (what == "memory") throw std::bad_alloc();
  throw std::runtime_error("it broke");
}

// /STAGE/WHAT throws at that stage of the request; /ok responds.
class ThrowingService final : public HttpService {
 public:
  Answer OnRequest(const std::shared_ptr<HttpExchange>& exchange) override {
    const std::string target(ToStd(exchange->head().target()));
    if (target == "/ok") return JsonResponse("{}");
    const size_t slash = target.find('/', 1);
    const std::string stage = target.substr(1, slash - 1);
    const std::string what = target.substr(slash + 1);
    if (stage == "request") Throw(what);
    return std::make_shared<Call>(exchange, stage, what);
  }

 private:
  class Call final : public HttpCall {
   public:
    Call(std::shared_ptr<HttpExchange> exchange, std::string stage, std::string what)
        : exchange_(std::move(exchange)), stage_(std::move(stage)), what_(std::move(what)) {}
    std::optional<HttpResponse> OnFront(std::string_view, size_t,
                                        std::vector<std::span<std::byte>>&) override {
      if (stage_ == "front") Throw(what_);
      return std::nullopt;
    }
    void OnBody() override {
      if (stage_ == "body") Throw(what_);
      const auto exchange = exchange_;
      const std::string what = what_;
      if (stage_ == "answered") {
        exchange->Respond(JsonResponse("{\"first\":1}"));
        Throw(what);
      }
      exchange->RunAside([exchange, what] {
        exchange->Respond(MakeResponse([&]() -> Result<HttpResponse> { Throw(what); }));
      });
    }

   private:
    const std::shared_ptr<HttpExchange> exchange_;
    const std::string stage_;
    const std::string what_;
  };
};

class HttpFaults : public testing::TestWithParam<std::string> {
 protected:
  HttpFaults() {
    HttpListenerOptions options;
    options.address = "127.0.0.1";
    listener_ = std::move(HttpListener::Start(options, service_)).value();
  }
  ~HttpFaults() override { listener_->Shutdown(SteadyNowNs() + 10 * kSecond); }

  void ExpectServing() {
    TestClient client(listener_->port());
    ASSERT_TRUE(client.SendRequest("GET", "/ok"));
    const auto answer = client.Read();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 200);
  }

  ThrowingService service_;
  std::unique_ptr<HttpListener> listener_;
};

TEST_P(HttpFaults, CostOneRequestItsAnswer) {
  TestClient client(listener_->port());
  ASSERT_TRUE(client.SendRequest("POST", "/" + GetParam() + "/memory", "body"));
  auto answer = client.Read();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 429);
  EXPECT_EQ(answer->body, "{\"error\":\"out of memory\"}");
  ExpectServing();

  TestClient other(listener_->port());
  ASSERT_TRUE(other.SendRequest("POST", "/" + GetParam() + "/other", "body"));
  answer = other.Read();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 500);
  EXPECT_EQ(answer->body, "{\"error\":\"internal server error: it broke\"}");
  ExpectServing();
}

INSTANTIATE_TEST_SUITE_P(Stages, HttpFaults, testing::Values("request", "front", "body", "writing"));

TEST_F(HttpFaults, WhatComesBehindTheAnswerIsDropped) {
  TestClient client(listener_->port());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.SendRequest("POST", "/answered/memory", "body"));
    const auto answer = client.Read();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 200);
    EXPECT_EQ(answer->body, "{\"first\":1}");
  }
  ExpectServing();
}

}  // namespace
}  // namespace braid
