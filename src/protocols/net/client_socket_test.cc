#include "protocols/net/client_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <future>
#include <random>
#include <thread>

#include "protocols/net/testing/test_certificates.h"
#include "protocols/net/testing/tls_client.h"

namespace braid {
namespace {

using testing::HasSubstr;

iovec Piece(std::string_view text) { return {const_cast<char*>(text.data()), text.size()}; }

std::string Noise(size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string text(size, ' ');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

void WaitFor(const ClientSocket& socket, short events) {
  pollfd wait{socket.fd(), events, 0};
  ASSERT_EQ(::poll(&wait, 1, 30'000), 1) << "nothing happens";
}

// Receives up to `size` bytes, or to the end.
std::string ReceiveAll(ClientSocket& socket, size_t size) {
  std::string all(size, ' ');
  size_t have = 0;
  while (have < size) {
    const ssize_t got = socket.Receive(std::span(all).subspan(have));
    if (got > 0) {
      have += static_cast<size_t>(got);
    } else if (got < 0 && errno == EAGAIN) {
      WaitFor(socket, POLLIN);
    } else {
      break;
    }
  }
  return all.substr(0, have);
}

std::string ReceiveAll(TestEncryption& client, size_t size) {
  std::string all(size, ' ');
  size_t have = 0;
  while (have < size) {
    const ssize_t got = client.Receive(std::span(all).subspan(have));
    if (got <= 0) break;
    have += static_cast<size_t>(got);
  }
  return all.substr(0, have);
}

class ClientSocketTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { certificates_ = std::make_unique<TestCertificates>(); }
  static void TearDownTestSuite() { certificates_.reset(); }
  static std::string File(const std::string& name) { return certificates_->File(name); }

  static std::shared_ptr<TlsSource> Source(const std::string& root = "", bool mutual = false) {
    auto source = TlsSource::Create(certificates_->Server(root, mutual), "http/1.1");
    EXPECT_TRUE(source.ok()) << source.status();
    return std::move(source).value();
  }
  static TlsClient::Options Options(const std::string& certificate = "") {
    TlsClient::Options options{.root_file = File("root.pem")};
    if (!certificate.empty()) {
      options.certificate_file = File(certificate + ".pem");
      options.key_file = File(certificate + ".key");
    }
    return options;
  }

  // Connects server_ and client_fd_. `narrow`: the server's buffers are as small as possible.
  void Connect(const std::shared_ptr<TlsSource>& source, bool narrow = false) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    client_fd_ = UniqueFd(ends[0]);
    UniqueFd server_fd(ends[1]);
    ASSERT_EQ(::fcntl(server_fd.get(), F_SETFL, O_NONBLOCK), 0);
    timeval patience{30, 0};
    ::setsockopt(client_fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    const int least = 1;
    if (narrow) ::setsockopt(server_fd.get(), SOL_SOCKET, SO_SNDBUF, &least, sizeof(least));
    auto server = ClientSocket::Create(std::move(server_fd), source);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = std::make_unique<ClientSocket>(std::move(server).value());
  }
  // Whether the handshake succeeds on both sides, and the client's "hello" arrives.
  bool Greet(const TlsClient::Options& options) {
    client_ = std::make_unique<TlsClient>(client_fd_.get(), options);
    std::thread client([this] {
      if (!client_->Send("hello")) client_fd_.Reset();
    });
    const bool greeted = ReceiveAll(*server_, 5) == "hello";
    if (!greeted) ::shutdown(server_->fd(), SHUT_RDWR);
    client.join();
    return greeted && server_->handshake_done();
  }
  void ConnectEncrypted(bool narrow = false) {
    Connect(Source(), narrow);
    ASSERT_TRUE(Greet(Options()));
  }

  static inline std::unique_ptr<const TestCertificates> certificates_;
  UniqueFd client_fd_;
  std::unique_ptr<ClientSocket> server_;
  std::unique_ptr<TlsClient> client_;
};

TEST_F(ClientSocketTest, CarriesBytesWithoutTls) {
  Connect(nullptr);
  EXPECT_FALSE(server_->encrypted());
  EXPECT_TRUE(server_->handshake_done());
  EXPECT_FALSE(server_->has_pending());
  EXPECT_EQ(server_->certificate_identity(), "");
  char byte = 0;
  EXPECT_EQ(server_->Receive({&byte, 1}), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(server_->Look(), ClientSocket::Sight::kNothing);

  ASSERT_EQ(::send(client_fd_.get(), "abcdef", 6, 0), 6);
  EXPECT_EQ(server_->Look(), ClientSocket::Sight::kInput);
  std::string first(2, ' '), second(3, ' ');
  const iovec into[] = {Piece(first), Piece(second)};
  EXPECT_EQ(server_->Receive(into), 5);
  EXPECT_EQ(first + second, "abcde");
  EXPECT_EQ(ReceiveAll(*server_, 1), "f");

  const iovec pieces[] = {Piece("one "), Piece(""), Piece("two")};
  EXPECT_EQ(server_->Send(pieces), 7);
  EXPECT_TRUE(server_->EndSending());
  char text[16];
  EXPECT_EQ(::recv(client_fd_.get(), text, sizeof(text), MSG_WAITALL), 7);
  EXPECT_EQ(std::string_view(text, 7), "one two");
  client_fd_.Reset();
  EXPECT_EQ(server_->Look(), ClientSocket::Sight::kGone);
  EXPECT_EQ(server_->Receive({&byte, 1}), 0);
  // Does not raise SIGPIPE.
  EXPECT_EQ(server_->Send(pieces), -1);
}

TEST_F(ClientSocketTest, ReceivesWhatIsEncrypted) {
  ConnectEncrypted();
  EXPECT_TRUE(server_->encrypted());
  const std::string sent = Noise(300'000, 1);
  std::thread sender([&] { EXPECT_TRUE(client_->Send(sent)); });
  EXPECT_TRUE(ReceiveAll(*server_, sent.size()) == sent);
  sender.join();

  // Pieces, some of which end within a record.
  EXPECT_TRUE(client_->Send("abcdefgh"));
  std::string first(2, ' '), second(3, ' '), third(10, ' ');
  const iovec into[] = {Piece(first), Piece(""), Piece(second), Piece(third)};
  WaitFor(*server_, POLLIN);
  EXPECT_EQ(server_->Receive(into), 8);
  EXPECT_EQ(first + second + third.substr(0, 3), "abcdefgh");
  char byte = 0;
  EXPECT_EQ(server_->Receive({&byte, 1}), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(ClientSocketTest, TellsOfBytesThatNoWaitTellsOf) {
  ConnectEncrypted();
  EXPECT_FALSE(server_->has_pending());
  EXPECT_TRUE(client_->Send("abcdef"));
  EXPECT_EQ(ReceiveAll(*server_, 2), "ab");
  EXPECT_EQ(server_->Look(), ClientSocket::Sight::kNothing);
  EXPECT_TRUE(server_->has_pending());
  EXPECT_EQ(ReceiveAll(*server_, 4), "cdef");
  EXPECT_FALSE(server_->has_pending());
}

TEST_F(ClientSocketTest, SendsSmallPiecesInOneRecord) {
  ConnectEncrypted();
  const iovec few[] = {Piece("one "), Piece(""), Piece("two "), Piece("three")};
  EXPECT_EQ(server_->Send(few), 13);
  std::string record(100'000, ' ');
  EXPECT_EQ(client_->Receive(record), 13);
  EXPECT_EQ(record.substr(0, 13), "one two three");

  // After a record has begun a large piece, the rest is sent from its place, without a copy.
  const std::string large = Noise(40'000, 2);
  const iovec mixed[] = {Piece("head "), Piece(large), Piece(" end")};
  EXPECT_EQ(server_->Send(mixed), 40'009);
  EXPECT_EQ(client_->Receive(record), 16'384);
  EXPECT_TRUE(record.starts_with("head " + large.substr(0, 16'379)));
  EXPECT_EQ(client_->Receive(record), 16'384);
  EXPECT_EQ(client_->Receive(record), 40'009 - 2 * 16'384);
  EXPECT_TRUE(record.substr(0, 40'009 - 2 * 16'384).ends_with(" end"));

  EXPECT_EQ(server_->Send({}), 0);
  const iovec nothing[] = {Piece(""), Piece("")};
  EXPECT_EQ(server_->Send(nothing), 0);
}

// Unsent bytes are offered again, each time cut in another way and with more bytes after them.
TEST_F(ClientSocketTest, GoesOnWhereTheSocketTookNoMore) {
  ConnectEncrypted(/*narrow=*/true);
  const std::string all = Noise(2'000'000, 3);
  auto received = std::async(std::launch::async, [&] { return ReceiveAll(*client_, all.size()); });
  std::mt19937 random(4);
  size_t sent = 0, offered = 0;
  int blocked = 0;
  while (sent < all.size()) {
    offered = std::min(all.size(), std::max(offered, sent) + random() % 50'000);
    std::vector<iovec> pieces;
    for (size_t at = sent; at < offered;) {
      const size_t most = random() % 3 == 0 ? 60'000 : 300;
      const size_t size = std::min(offered - at, random() % most);
      pieces.push_back(Piece(std::string_view(all).substr(at, size)));
      at += size;
    }
    const ssize_t took = server_->Send(pieces);
    if (took >= 0) {
      sent += static_cast<size_t>(took);
      continue;
    }
    ASSERT_EQ(errno, EAGAIN);
    ++blocked;
    WaitFor(*server_, POLLOUT);
  }
  EXPECT_TRUE(received.get() == all);
  EXPECT_GT(blocked, 10);
}

TEST_F(ClientSocketTest, OneThreadReceivesWhileAnotherSends) {
  ConnectEncrypted(/*narrow=*/true);
  const std::string there = Noise(1'000'000, 5);
  const std::string back = Noise(1'000'000, 6);
  std::thread sender([&] {
    std::string_view left = back;
    while (!left.empty()) {
      const iovec pieces[] = {Piece(left.substr(0, 100)),
                              Piece(left.substr(std::min<size_t>(100, left.size())))};
      const ssize_t took = server_->Send(pieces);
      if (took > 0) left.remove_prefix(static_cast<size_t>(took));
      if (took < 0) WaitFor(*server_, POLLOUT);
    }
  });
  auto received = std::async(std::launch::async, [&] { return ReceiveAll(*server_, there.size()); });
  // The client sends and receives in turn.
  std::string got;
  for (size_t at = 0; at < there.size(); at += 10'000) {
    EXPECT_TRUE(client_->Send(std::string_view(there).substr(at, 10'000)));
    got += ReceiveAll(*client_, 10'000);
  }
  EXPECT_TRUE(got == back);
  EXPECT_TRUE(received.get() == there);
  sender.join();
}

TEST_F(ClientSocketTest, EndsItsSideSoThatTheClientKnows) {
  ConnectEncrypted();
  const iovec last = Piece("last");
  EXPECT_EQ(server_->Send({&last, 1}), 4);
  EXPECT_TRUE(server_->EndSending());
  EXPECT_EQ(ReceiveAll(*client_, 4), "last");
  char byte = 0;
  EXPECT_EQ(client_->Receive({&byte, 1}), 0);
  // The other direction still works.
  EXPECT_TRUE(client_->Send("more"));
  EXPECT_EQ(ReceiveAll(*server_, 4), "more");
  client_->End();
  WaitFor(*server_, POLLIN);
  EXPECT_EQ(server_->Receive({&byte, 1}), 0);
}

TEST_F(ClientSocketTest, TellsTheEndToAClientThatReadsLate) {
  const std::string record(100, 'x');
  const iovec piece = Piece(record);
  ConnectEncrypted(/*narrow=*/true);
  int room = 0;
  while (server_->Send({&piece, 1}) > 0) ++room;
  ASSERT_EQ(errno, EAGAIN);

  ConnectEncrypted(/*narrow=*/true);
  for (int i = 0; i < room; ++i) ASSERT_EQ(server_->Send({&piece, 1}), 100);
  EXPECT_FALSE(server_->EndSending());
  auto received = std::async(std::launch::async, [&] {
    const size_t bytes = ReceiveAll(*client_, static_cast<size_t>(room) * 100).size();
    char byte = 0;
    return std::pair(bytes, client_->Receive({&byte, 1}));
  });
  do {
    WaitFor(*server_, POLLOUT);
  } while (!server_->EndSending());
  EXPECT_EQ(received.get(), std::pair(static_cast<size_t>(room) * 100, ssize_t{0}));
}

TEST_F(ClientSocketTest, EndsWithAClientThatSpeaksNoTls) {
  Connect(Source());
  ASSERT_GT(::send(client_fd_.get(), "GET / HTTP/1.1\r\n\r\n", 18, 0), 0);
  char byte = 0;
  EXPECT_EQ(server_->Receive({&byte, 1}), -1);
  EXPECT_EQ(errno, EPROTO);
  EXPECT_FALSE(server_->handshake_done());
  // A write neither raises SIGPIPE nor succeeds.
  client_fd_.Reset();
  const iovec piece = Piece("x");
  EXPECT_EQ(server_->Send({&piece, 1}), -1);
  EXPECT_TRUE(server_->EndSending());
}

TEST_F(ClientSocketTest, FailsForAClientThatIsCutOff) {
  ConnectEncrypted();
  client_fd_.Reset();
  char byte = 0;
  EXPECT_EQ(server_->Receive({&byte, 1}), -1);
  EXPECT_EQ(errno, EPROTO);
  const iovec piece = Piece("x");
  EXPECT_EQ(server_->Send({&piece, 1}), -1);
  EXPECT_EQ(errno, EPROTO);
}

TEST_F(ClientSocketTest, ChoosesItsProtocol) {
  TlsClient::Options options = Options();
  options.protocol = "http/1.1";
  Connect(Source());
  EXPECT_TRUE(Greet(options));
  const unsigned char* chosen = nullptr;
  unsigned int size = 0;
  SSL_get0_alpn_selected(client_->ssl(), &chosen, &size);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(chosen), size), "http/1.1");
  options.protocol = "h2";
  Connect(Source());
  EXPECT_FALSE(Greet(options));
}

TEST_F(ClientSocketTest, KnowsWhomACertificateNames) {
  struct Case {
    TestSubject subject;
    std::string identity;
  };
  const Case cases[] = {
      {{.common_name = "worker"}, "worker"},
      {{.common_name = "worker", .hosts = {"worker.example"}}, "worker"},
      {{.common_name = "worker", .uris = {"spiffe://a/b"}}, "spiffe://a/b"},
      {{.uris = {"spiffe://a/b", "https://c"}, .hosts = {"worker.example"}}, "spiffe://a/b"},
      {{.common_name = "W\xc3\xb6rker"}, "W\xc3\xb6rker"},
      {{.hosts = {"worker.example"}}, ""},
      {{.common_name = std::string("a\0b", 3)}, ""},
      {{.common_name = "worker", .uris = {std::string("spiffe://a\0/b", 13)}}, ""},
      {{.common_name = "worker", .uris = {"spiffe://\xff"}}, ""},
  };
  const TestAuthority authority("another root");
  WriteTestFile(File("another.pem"), authority.certificate());
  for (const Case& each : cases) {
    const TestCertificate made = authority.Sign(each.subject);
    WriteTestFile(File("case.pem"), made.certificate);
    WriteTestFile(File("case.key"), made.key);
    Connect(Source("another.pem", /*mutual=*/true));
    EXPECT_TRUE(Greet(Options("case"))) << each.identity;
    EXPECT_EQ(server_->certificate_identity(), each.identity);
  }
}

TEST_F(ClientSocketTest, TakesClientsWithAndWithoutACertificate) {
  Connect(Source("root.pem"));
  EXPECT_TRUE(Greet(Options()));
  EXPECT_EQ(server_->certificate_identity(), "");
  Connect(Source("root.pem"));
  EXPECT_TRUE(Greet(Options("client")));
  EXPECT_EQ(server_->certificate_identity(), "spiffe://test/client");
  Connect(Source("root.pem"));
  EXPECT_FALSE(Greet(Options("stranger")));
  EXPECT_EQ(server_->certificate_identity(), "");
  // A certificate that the server did not ask for is ignored.
  Connect(Source());
  EXPECT_TRUE(Greet(Options("stranger")));
  EXPECT_EQ(server_->certificate_identity(), "");
}

TEST_F(ClientSocketTest, RefusesClientsWithoutACertificateWhereItIsMutual) {
  Connect(Source("root.pem", /*mutual=*/true));
  EXPECT_FALSE(Greet(Options()));
  Connect(Source("root.pem", /*mutual=*/true));
  EXPECT_FALSE(Greet(Options("stranger")));
  Connect(Source("root.pem", /*mutual=*/true));
  EXPECT_TRUE(Greet(Options("plain")));
  EXPECT_EQ(server_->certificate_identity(), "plain client");
}

// Connects twice with one session; whether the second handshake has resumed it.
class ClientSocketResumptionTest : public ClientSocketTest {
 protected:
  bool Resumes(
      const std::shared_ptr<TlsSource>& source, TlsClient::Options options,
      const std::function<void()>& between = [] {}) {
    Connect(source);
    EXPECT_TRUE(Greet(options));
    const iovec piece = Piece("x");
    EXPECT_EQ(server_->Send({&piece, 1}), 1);
    EXPECT_EQ(ReceiveAll(*client_, 1), "x");  // and the ticket
    const std::unique_ptr<SSL_SESSION, decltype(&SSL_SESSION_free)> session(SSL_get1_session(client_->ssl()),
                                                                            &SSL_SESSION_free);
    options.session = session.get();
    client_->End();  // OpenSSL resumes no session that was cut off
    between();
    Connect(source);
    EXPECT_TRUE(Greet(options));
    return SSL_session_reused(client_->ssl()) == 1;
  }
};

TEST_F(ClientSocketResumptionTest, HoldsWhereClientsAreNotAsked) {
  const auto source = Source("");
  EXPECT_TRUE(Resumes(source, Options()));
  EXPECT_FALSE(Resumes(source, Options(), [&] { ASSERT_TRUE(source->Reload().ok()); }));
}

// The certificate is verified for each connection: it may have expired, or its authority may have been
// removed.
TEST_F(ClientSocketResumptionTest, IsNotOfferedToClientsThatAreAskedForACertificate) {
  for (const bool mutual : {false, true}) {
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
      TlsClient::Options options = Options("client");
      options.version = version;
      EXPECT_FALSE(Resumes(Source("root.pem", mutual), options));
      EXPECT_EQ(server_->certificate_identity(), "spiffe://test/client");
    }
  }
}

TEST_F(ClientSocketTest, ReadsItsFilesAgain) {
  const auto serial = [&] {
    return ASN1_INTEGER_get(X509_get0_serialNumber(SSL_get0_peer_certificate(client_->ssl())));
  };
  const TestAuthority authority("third root");
  const auto write = [&](const TestCertificate& made) {
    WriteTestFile(File("own.pem"), made.certificate);
    WriteTestFile(File("own.key"), made.key);
  };
  WriteTestFile(File("third.pem"), authority.certificate());
  write(authority.Sign({.common_name = "first"}));
  const auto made = TlsSource::Create(
      {.use = true, .certificate_file = File("own.pem"), .key_file = File("own.key"), .root_file = ""},
      "http/1.1");
  ASSERT_TRUE(made.ok()) << made.status();
  const std::shared_ptr<TlsSource> source = *made;
  const TlsClient::Options options{.root_file = File("third.pem")};
  Connect(source);
  ASSERT_TRUE(Greet(options));
  const long first = serial();
  std::unique_ptr<ClientSocket> old_server = std::move(server_);
  std::unique_ptr<TlsClient> old_client = std::move(client_);
  const UniqueFd old_fd = std::move(client_fd_);

  // Files with another key or invalid contents are refused, and the previous certificate stays.
  const TestCertificate second = authority.Sign({.common_name = "second"});
  WriteTestFile(File("own.pem"), second.certificate);
  Status reloaded = source->Reload();
  EXPECT_EQ(reloaded.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(reloaded.message(), HasSubstr("cannot use the server key '" + File("own.key") + "': "));
  WriteTestFile(File("own.pem"), "nothing of the kind");
  EXPECT_THAT(source->Reload().message(), HasSubstr("cannot use the server certificate '" + File("own.pem")));
  std::filesystem::remove(File("own.pem"));
  EXPECT_THAT(source->Reload().message(), HasSubstr("No such file or directory"));
  Connect(source);
  ASSERT_TRUE(Greet(options));
  EXPECT_EQ(serial(), first);

  write(second);
  EXPECT_TRUE(source->Reload().ok());
  Connect(source);
  ASSERT_TRUE(Greet(options));
  EXPECT_NE(serial(), first);
  // The old connection still works.
  EXPECT_TRUE(old_client->Send("still"));
  EXPECT_EQ(ReceiveAll(*old_server, 5), "still");
}

TEST_F(ClientSocketTest, SaysWhatIsWrongWithFiles) {
  const TlsOptions good = certificates_->Server();
  TlsOptions bad = good;
  bad.certificate_file = File("missing.pem");
  EXPECT_THAT(TlsSource::Create(bad, "h2").status().message(),
              HasSubstr("cannot use the server certificate '" + File("missing.pem") + "': No such file"));
  bad = good;
  bad.key_file = File("client.key");
  EXPECT_THAT(TlsSource::Create(bad, "h2").status().message(), HasSubstr("cannot use the server key"));
  bad = good;
  bad.root_file = File("server.key");
  EXPECT_THAT(TlsSource::Create(bad, "h2").status().message(), HasSubstr("cannot use the root certificate"));
  bad = good;
  bad.mutual = true;
  EXPECT_EQ(TlsSource::Create(bad, "h2").status().message(),
            "mutual authentication needs a root certificate");
}

}  // namespace
}  // namespace braid
