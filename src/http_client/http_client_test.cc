#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "base/unique_fd.h"
#include "http_client/ask.h"
#include "http_client/http_head.h"

namespace braid::client {
namespace {

// Accepts one connection, on a port that the system chooses.
class OneCallServer {
 public:
  explicit OneCallServer(std::function<void(int)> serve) : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    socklen_t size = sizeof address;
    getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = std::to_string(ntohs(address.sin_port));
    EXPECT_EQ(listen(listener_.get(), 1), 0);
    thread_ = std::thread([this, serve = std::move(serve)] {
      const UniqueFd call(accept(listener_.get(), nullptr, nullptr));
      serve(call.get());
    });
  }
  ~OneCallServer() { thread_.join(); }

  // Returns the status, or the error.
  std::string Ask(const HttpQuestion& question, int64_t timeout_ns = 20'000'000'000) const {
    const auto dialer = Dialer::Make({"127.0.0.1", port_}, {}).value();
    const Result<int> status = AskHttp(*dialer, question, timeout_ns);
    return status.ok() ? std::to_string(*status) : status.status().message();
  }
  const std::string& port() const { return port_; }

 private:
  UniqueFd listener_;
  std::string port_;
  std::thread thread_;
};

// Reads until the text ends with `end`, or the connection ends.
std::string ReadUntil(int fd, std::string_view end) {
  std::string all;
  char piece[4096];
  while (!all.ends_with(end)) {
    const ssize_t size = recv(fd, piece, sizeof piece, 0);
    if (size <= 0) break;
    all.append(piece, static_cast<size_t>(size));
  }
  return all;
}

void Write(int fd, std::string_view text) { send(fd, text.data(), text.size(), MSG_NOSIGNAL); }

TEST(AskHttp, SendsAHeadAndABody) {
  const std::string body = std::string(3'000'000, 'x') + "the end";
  std::string received;
  std::string port;
  {
    OneCallServer server([&](int fd) {
      received = ReadUntil(fd, "the end");
      Write(fd, "HTTP/1.1 20");
      Write(fd, "2 Accepted\r\nContent-Length: 5\r\n\r\n");
    });
    port = server.port();
    EXPECT_EQ(server.Ask({.method = "POST", .target = "/a/b", .content_type = "text/plain", .body = body}),
              "202");
  }
  EXPECT_EQ(received, "POST /a/b HTTP/1.1\r\nHost: 127.0.0.1:" + port +
                          "\r\nUser-Agent: braid\r\nConnection: close\r\nContent-Type: text/plain\r\n"
                          "Content-Length: 3000007\r\n\r\n" +
                          body);
}

TEST(AskHttp, NeedsNoBody) {
  std::string received;
  {
    OneCallServer server([&](int fd) {
      received = ReadUntil(fd, "\r\n\r\n");
      Write(fd, "HTTP/1.0 503 Not now\r\n\r\n");
    });
    EXPECT_EQ(server.Ask({.method = "GET", .target = "/"}), "503");
  }
  EXPECT_EQ(received.find("Content-"), std::string::npos);
}

TEST(AskHttp, TakesTheAnswerOfAServerThatRefusesABody) {
  const std::string body(30'000'000, 'x');
  OneCallServer server([](int fd) {
    ReadUntil(fd, "x");
    Write(fd, "HTTP/1.1 413 Too large\r\n\r\n");
    shutdown(fd, SHUT_WR);
    ReadUntil(fd, "never");
  });
  EXPECT_EQ(server.Ask({.method = "POST", .target = "/", .content_type = "text/plain", .body = body}), "413");
}

TEST(AskHttp, EndsWithTheConnectionAmidABody) {
  const std::string body(30'000'000, 'x');
  // A connection that is closed before its bytes are read is reset.
  OneCallServer server([](int fd) { ReadUntil(fd, "x"); });
  EXPECT_EQ(server.Ask({.method = "POST", .target = "/", .content_type = "text/plain", .body = body}),
            "the server closed the connection");
}

TEST(AskHttp, SaysWhyThereIsNoAnswer) {
  const HttpQuestion question{.method = "GET", .target = "/"};
  const auto nowhere = Dialer::Make({"127.0.0.1", "1"}, {}).value();
  EXPECT_EQ(AskHttp(*nowhere, question, 5'000'000'000).status(), UnavailableError("Connection refused"));
  OneCallServer closing([](int fd) { ReadUntil(fd, "\r\n\r\n"); });
  EXPECT_EQ(closing.Ask(question), "the server closed the connection");
  OneCallServer silent([](int fd) { ReadUntil(fd, "never"); });
  EXPECT_EQ(silent.Ask(question, 50'000'000), "no answer in time");
  OneCallServer other([](int fd) {
    ReadUntil(fd, "\r\n\r\n");
    Write(fd, "220 of another kind\r\n\r\n");
  });
  EXPECT_EQ(other.Ask(question), "the server does not speak HTTP/1.1");
}

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

TEST(HttpHead, TellsAStreamOfEvents) {
  const auto events = [](const std::string& type) {
    return DecodeHttpHead("HTTP/1.1 200 OK\r\nContent-Type: " + type + "\r\n\r\n").value()->events;
  };
  EXPECT_TRUE(events("text/event-stream"));
  EXPECT_TRUE(events("Text/Event-Stream; charset=utf-8"));
  EXPECT_FALSE(events("application/json"));
}

TEST(HttpChunks, AreTakenWhereverTheBytesAreCut) {
  const std::string whole = "3\r\nabc\r\na;x=y\r\n0123456789\r\n0\r\n\r\n";
  for (size_t size = 0; size <= whole.size(); ++size) {
    std::string body;
    std::string_view bytes = std::string_view(whole).substr(0, size);
    const auto ended = TakeChunks(bytes, body);
    ASSERT_TRUE(ended.ok());
    EXPECT_EQ(*ended, size == whole.size());
    const std::string rest(bytes);
    const std::string later = rest + whole.substr(size);
    bytes = later;
    EXPECT_TRUE(TakeChunks(bytes, body).value());
    EXPECT_EQ(body, "abc0123456789");
  }
  std::string body;
  std::string_view bytes = "x\r\n";
  EXPECT_FALSE(TakeChunks(bytes, body).ok());
}

TEST(Address, HasAPortOrTheProtocols) {
  EXPECT_EQ(ParseAddress("host:80", "8000")->authority(), "host:80");
  EXPECT_EQ(ParseAddress("https://host/", "8000")->authority(), "host:8000");
  EXPECT_EQ(ParseAddress("[::1]:9", "8000")->authority(), "[::1]:9");
  const Address tcp = *ParseServerAddress("host:80", "8000");
  EXPECT_EQ(tcp.name(), "host:80");
  EXPECT_EQ(tcp.http_host(), "host:80");
  const Address file = *ParseServerAddress("unix:///run/http.sock", "8000");
  EXPECT_EQ(file.host, "/run/http.sock");
  EXPECT_EQ(file.name(), "unix:/run/http.sock");
  EXPECT_EQ(file.http_host(), "localhost");
  // An answer of another program must not lead to a file.
  EXPECT_FALSE(ParseAddress("unix:/run/http.sock", "8000").ok());
  for (const char* bad : {"", ":80", "h:x", "[::1", "h:123456"})
    EXPECT_FALSE(ParseAddress(bad, "1").ok()) << bad;
}

}  // namespace
}  // namespace braid::client
