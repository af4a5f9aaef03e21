#include "commands/health.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

std::string Read(std::string_view text) {
  const Result<ServerUrl> url = ParseServerUrl(text);
  if (!url.ok()) return url.status().message();
  return (url->tls ? "tls " : "") + url->host + " " + url->port;
}

TEST(ServerUrl, HasAHostAPortAndAScheme) {
  EXPECT_EQ(Read("http://127.0.0.1:8000"), "127.0.0.1 8000");
  EXPECT_EQ(Read("https://models.example:8443/"), "tls models.example 8443");
  EXPECT_EQ(Read("localhost"), "localhost 8000");
  EXPECT_EQ(Read("localhost:1"), "localhost 1");
  EXPECT_EQ(Read("[::1]:65535"), "::1 65535");
  EXPECT_EQ(Read("[::1]"), "::1 8000");
  EXPECT_EQ(Read("unix:/run/braid/http.sock"), "/run/braid/http.sock ");
  EXPECT_EQ(Read("unix:///run/braid/http.sock"), "/run/braid/http.sock ");
}

TEST(ServerUrl, RefusesWhatIsNone) {
  for (const char* text : {"", "http://", "ftp://host:1", "host:", "host:0", "host:65536", "host:8000x",
                           "::1", "http://host:8000/v2", "user@host:1", "a b:1"}) {
    EXPECT_EQ(Read(text), "'" + std::string(text) + "' must have the form http://HOST:PORT");
  }
}

TEST(Health, OfAPortThatNothingListensOnIsUnavailable) {
  // The system refuses connections to port 1 of the loopback interface at once.
  const Status status = AskHealth({false, "127.0.0.1", "1"}, "/v2/health/ready", 5'000'000'000);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "Connection refused");
}

}  // namespace
}  // namespace braid
