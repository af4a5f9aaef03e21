#include "protocols/http/gate.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

using boost::beast::http::verb;

class HttpGateTest : public ::testing::Test {
 protected:
  // Returns the status of the refusal; 0 if the request may pass.
  unsigned Ask(verb method, std::string_view host, std::vector<std::string> origins = {}) {
    HttpHead head;
    head.method(method);
    if (!host.empty()) head.insert("Host", boost::core::string_view(host.data(), host.size()));
    for (const std::string& origin : origins) head.insert("Origin", origin);
    const auto refusal = HttpGate(options_).Refuse(head);
    text_ = refusal ? refusal->body : "";
    return refusal ? refusal->status : 0;
  }

  HttpGate::Options options_;
  std::string text_;
};

TEST_F(HttpGateTest, PagesOfOthersChangeNothing) {
  for (const verb method : {verb::post, verb::put, verb::delete_, verb::patch}) {
    EXPECT_EQ(Ask(method, "127.0.0.1:8000"), 0u);
    EXPECT_EQ(Ask(method, "127.0.0.1:8000", {"http://127.0.0.1:8000"}), 0u);
    EXPECT_EQ(Ask(method, "Braid.example", {"https://braid.EXAMPLE"}), 0u);
    for (const char* origin :
         {"http://evil.example", "null", "http://127.0.0.1", "http://127.0.0.1:8001", "", "x"}) {
      EXPECT_EQ(Ask(method, "127.0.0.1:8000", {origin}), 403u) << origin;
      EXPECT_EQ(Ask(method, "127.0.0.1:8000", {"http://127.0.0.1:8000", origin}), 403u) << origin;
    }
    EXPECT_EQ(Ask(method, "", {"http://evil.example"}), 403u);
  }
  EXPECT_EQ(
      text_,
      R"({"error":"Requests from origin 'http://evil.example' are refused; allow it with --allow-origin"})");
  // The browser does not let the page read the response.
  EXPECT_EQ(Ask(verb::get, "127.0.0.1:8000", {"http://evil.example"}), 0u);
  EXPECT_EQ(Ask(verb::head, "127.0.0.1:8000", {"http://evil.example"}), 0u);
}

TEST_F(HttpGateTest, SomeOriginsAreAllowed) {
  options_.allowed_origins = {"https://ui.example", "http://other:1234"};
  EXPECT_EQ(Ask(verb::post, "h", {"https://UI.example"}), 0u);
  EXPECT_EQ(Ask(verb::post, "h", {"http://other:1234"}), 0u);
  EXPECT_EQ(Ask(verb::post, "h", {"http://ui.example"}), 403u);
  EXPECT_EQ(Ask(verb::post, "h", {"null"}), 403u);
  options_.allowed_origins = {"*"};
  EXPECT_EQ(Ask(verb::post, "h", {"null"}), 0u);
}

TEST_F(HttpGateTest, OnLoopbackTheNameIsAskedFor) {
  options_.loopback = true;
  for (const char* host : {"", "localhost", "LocalHost:8000", "localhost.", "a.localhost:1", "127.0.0.1",
                           "127.0.0.1:8000", "10.1.2.3:1", "[::1]:8000", "[::1]"}) {
    EXPECT_EQ(Ask(verb::get, host), 0u) << host;
  }
  for (const char* host : {"evil.example", "evil.example:8000", "notlocalhost", "localhost.evil.example",
                           "127.0.0.1.evil.example", "1", "[evil]", ":8000"}) {
    EXPECT_EQ(Ask(verb::get, host), 403u) << host;
    EXPECT_EQ(Ask(verb::post, host), 403u) << host;
  }
  EXPECT_EQ(Ask(verb::get, "evil.example:8000"), 403u);
  EXPECT_EQ(
      text_,
      R"({"error":"Host 'evil.example' is not allowed on a loopback-only server; allow it with --allow-host"})");
  options_.allowed_hosts = {"braid.internal"};
  EXPECT_EQ(Ask(verb::get, "Braid.internal:8000"), 0u);
  EXPECT_EQ(Ask(verb::get, "other.internal"), 403u);
  options_.allowed_hosts = {"*"};
  EXPECT_EQ(Ask(verb::get, "other.internal"), 0u);
  options_.loopback = false;
  options_.allowed_hosts.clear();
  EXPECT_EQ(Ask(verb::get, "braid.example"), 0u);
}

TEST_F(HttpGateTest, OriginsAreWrittenAsBrowsersDo) {
  for (const char* text : {"*", "null", "http://a", "https://a.b:1", "http://[::1]:80", "app://x"}) {
    EXPECT_TRUE(IsOrigin(text)) << text;
  }
  for (const char* text :
       {"", "a", "http://", "http://a/", "http://a/b", "://a", "http://u@a", "http://a b"}) {
    EXPECT_FALSE(IsOrigin(text)) << text;
  }
}

TEST_F(HttpGateTest, AnyNamePassesOverAUnixSocket) {
  options_.loopback = true;
  HttpHead head;
  head.method(verb::get);
  head.insert("Host", "braid.example");
  EXPECT_EQ(HttpGate(options_).Refuse(head, false)->status, 403u);
  EXPECT_FALSE(HttpGate(options_).Refuse(head, true));
  // The origin counts: a proxy may forward requests of pages.
  head.method(verb::post);
  head.insert("Origin", "http://evil.example");
  EXPECT_EQ(HttpGate(options_).Refuse(head, true)->status, 403u);
}

}  // namespace
}  // namespace braid
