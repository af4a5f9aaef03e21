#include "load/grpc_connection.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "base/unique_fd.h"
#include "load/testing/loopback_listener.h"

namespace braid::load {
namespace {

class Given final : public Exchange {
 public:
  void OnMessage(const ReceivedMessage&) override {}
  void OnEnd(const Status&) override {}
};

// A server with large flow control windows; it reads only when told to.
class SlowServer {
 public:
  const std::string& port() const { return listener_.port(); }

  void Accept() {
    client_ = listener_.Accept();
    // SETTINGS with an initial window of 2^31 - 1, and WINDOW_UPDATE of the connection.
    const std::string frames("\0\0\6\4\0\0\0\0\0\0\4\x7f\xff\xff\xff\0\0\4\x8\0\0\0\0\0\x7f\xff\0\0", 28);
    EXPECT_EQ(::send(client_.get(), frames.data(), frames.size(), 0), static_cast<ssize_t>(frames.size()));
  }

  // Returns the unread bytes that have arrived.
  std::string Read() {
    std::string all;
    std::string part(1 << 20, ' ');
    ssize_t size = 0;
    while ((size = ::recv(client_.get(), part.data(), part.size(), MSG_DONTWAIT)) > 0) {
      all.append(part, 0, static_cast<size_t>(size));
    }
    return all;
  }

 private:
  const LoopbackListener listener_;
  UniqueFd client_;
};

TEST(GrpcConnection, SendsNothingOfAMessageThatItsOwnerHasBack) {
  SlowServer server;
  auto dialer = Dialer::Make({"127.0.0.1", server.port()}, {});
  ASSERT_TRUE(dialer.ok());
  auto connection = Connection::Open(Protocol::kGrpc, **dialer, 5, {});
  ASSERT_TRUE(connection.ok());
  server.Accept();
  (*connection)->Receive(true);

  Given given;
  OutgoingMessage message{"/s/M", std::string(64 << 20, 'x')};
  (*connection)->Start(given, message, false);
  (*connection)->Flush();
  ASSERT_TRUE((*connection)->wants_to_write());  // the socket is full, in the middle of a frame
  (*connection)->Cancel(given);
  message.bytes.assign(message.bytes.size(), 'y');

  std::string received = server.Read();
  for (int i = 0; i < 1000 && (*connection)->wants_to_write(); ++i) {
    (*connection)->Flush();
    received += server.Read();
  }
  EXPECT_FALSE((*connection)->wants_to_write());
  EXPECT_GT(received.size(), size_t{16} << 10);
  EXPECT_EQ(received.find("yyyyyyyy"), std::string::npos);
}

TEST(GrpcConnection, EndsItsSideOfACallThatStaysOpen) {
  SlowServer server;
  // These outlive the connection, whose destructor ends the call.
  Given given;
  const OutgoingMessage message{"/s/M", "the only one"};
  auto dialer = Dialer::Make({"127.0.0.1", server.port()}, {});
  ASSERT_TRUE(dialer.ok());
  auto connection = Connection::Open(Protocol::kGrpc, **dialer, 5, {});
  ASSERT_TRUE(connection.ok());
  server.Accept();
  (*connection)->Receive(true);

  (*connection)->Start(given, message, true);
  (*connection)->Flush();
  EXPECT_TRUE(server.Read().ends_with("the only one"));
  (*connection)->EndSending(given);
  (*connection)->Flush();
  // The empty DATA frame that ends the first stream.
  EXPECT_EQ(server.Read(), std::string("\0\0\0\0\1\0\0\0\1", 9));
}

}  // namespace
}  // namespace braid::load
