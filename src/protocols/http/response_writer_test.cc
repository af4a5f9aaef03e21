#include "protocols/http/response_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

namespace braid {
namespace {

using Progress = ResponseWriter::Progress;

struct Ends {
  ClientSocket server;
  UniqueFd client;
};

Ends Connect() {
  int fds[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
  return {*ClientSocket::Create(UniqueFd(fds[0]), nullptr), UniqueFd(fds[1])};
}

std::string Received(const UniqueFd& client) {
  std::string all;
  std::array<char, 4096> part;
  for (ssize_t got = 0; (got = ::read(client.get(), part.data(), part.size())) > 0;) {
    all.append(part.data(), static_cast<size_t>(got));
  }
  return all;
}

TEST(ResponseWriter, WritesAnAnswerInOnePieceOrInParts) {
  struct Case {
    bool stream;
    bool chunked;
    bool close;
    bool omit_body;
    std::string expected;
  };
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  for (const Case& c : {
           Case{false, false, false, false, ok + "Content-Length: 4\r\n\r\nbody"},
           Case{false, false, true, false, ok + "Content-Length: 4\r\nConnection: close\r\n\r\nbody"},
           Case{false, false, false, true, ok + "Content-Length: 4\r\n\r\n"},
           Case{true, true, false, false, ok + "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"},
           Case{true, false, true, false, ok + "Connection: close\r\n\r\nbody"},
       }) {
    Ends ends = Connect();
    ResponseWriter writer(1 << 20);
    HttpResponse response;
    if (c.stream) {
      writer.BeginStream(response, c.chunked, c.close);
      EXPECT_EQ(writer.closes(), c.close);
      EXPECT_EQ(writer.stream().Append(ends.server, "body"), StreamOutput::Added::kSent);
      EXPECT_EQ(writer.stream().End(ends.server), StreamOutput::Added::kSent);
    } else {
      response.body = "body";
      writer.Set(std::move(response), c.close ? "close" : "", c.omit_body);
    }
    EXPECT_EQ(writer.Send(ends.server), Progress::kDone);
    EXPECT_EQ(Received(ends.client), c.expected);
  }
}

TEST(ResponseWriter, GoesOnWhenTheSocketTakesMore) {
  for (const bool stream : {false, true}) {
    Ends ends = Connect();
    ResponseWriter writer(64 << 20);
    const std::string body(4 << 20, 'b');
    HttpResponse response;
    if (stream) {
      writer.BeginStream(response, false, true);
      EXPECT_EQ(writer.stream().Append(ends.server, body), StreamOutput::Added::kBlocked);
      EXPECT_EQ(writer.stream().End(ends.server), StreamOutput::Added::kWaits);
    } else {
      response.body = body;
      writer.Set(std::move(response), "", false);
    }
    std::string all;
    Progress progress;
    while ((progress = writer.Send(ends.server)) == Progress::kBlocked) all += Received(ends.client);
    EXPECT_EQ(progress, Progress::kDone);
    all += Received(ends.client);
    EXPECT_EQ(all.substr(all.find("\r\n\r\n") + 4), body);
  }
}

TEST(ResponseWriter, FailsWhenTheClientHasGone) {
  for (const bool stream : {false, true}) {
    Ends ends = Connect();
    ends.client.Reset();
    ResponseWriter writer(1 << 20);
    if (stream) {
      writer.BeginStream(HttpResponse(), true, false);
      EXPECT_EQ(writer.stream().Append(ends.server, "body"), StreamOutput::Added::kFailed);
    } else {
      writer.Set(HttpResponse(), "", false);
    }
    EXPECT_EQ(writer.Send(ends.server), Progress::kFailed);
    writer.Clear();
  }
}

}  // namespace
}  // namespace braid
