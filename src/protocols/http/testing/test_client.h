// TestClient: a minimal HTTP/1.1 client for tests, with or without TLS. It sends bytes verbatim and reads
// responses one by one.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <boost/beast/core/string.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/unique_fd.h"
#include "protocols/net/testing/test_encryption.h"

namespace braid {

struct TestResponse {
  int status = 0;
  std::map<std::string, std::string, boost::beast::iless> headers;
  std::string body;

  std::string header(const std::string& name) const {
    auto field = headers.find(name);
    return field == headers.end() ? "" : field->second;
  }
};

class TestClient {
 public:
  explicit TestClient(uint16_t port, const MakeTestEncryption& encrypt = nullptr)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    BRAID_CHECK(::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    // Without a timeout a missing response would hang the test instead of failing it.
    timeval patience{30, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    const int on = 1;
    ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (encrypt) encryption_ = encrypt(fd_.get());
  }

  // Returns false if the server has closed the connection.
  bool Send(std::string_view bytes) {
    if (encryption_) return encryption_->Send(bytes);
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  // Adds Content-Length. `headers` are whole lines with line ends.
  bool SendRequest(std::string_view method, std::string_view target, std::string_view body = "",
                   std::string_view headers = "") {
    std::string text;
    text.append(method).append(" ").append(target).append(" HTTP/1.1\r\nHost: localhost\r\n").append(headers);
    text += "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
    text += body;
    return Send(text);
  }
  // Returns nullopt if the server closes before a whole response. Joins a chunked body.
  std::optional<TestResponse> Read() {
    auto response = ReadHead();
    if (!response) return std::nullopt;
    if (response->header("Transfer-Encoding") == "chunked") {
      while (auto chunk = ReadChunk()) {
        if (chunk->empty()) return response;
        response->body += *chunk;
      }
      return std::nullopt;
    }
    const size_t length = std::strtoul(response->header("Content-Length").c_str(), nullptr, 10);
    if (!Gather(length)) return std::nullopt;
    response->body = buffer_.substr(0, length);
    buffer_.erase(0, length);
    return response;
  }
  // Reads only status and headers.
  std::optional<TestResponse> ReadHead() {
    size_t end = 0;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
      if (!Fill()) return std::nullopt;
    }
    TestResponse response;
    const std::string head = buffer_.substr(0, end + 2);
    buffer_.erase(0, end + 4);
    response.status = std::atoi(head.c_str() + 9);
    size_t at = head.find("\r\n") + 2;
    while (at < head.size()) {
      const size_t line_end = head.find("\r\n", at);
      const std::string line = head.substr(at, line_end - at);
      const size_t colon = line.find(": ");
      if (colon != std::string::npos) response.headers[line.substr(0, colon)] = line.substr(colon + 2);
      at = line_end + 2;
    }
    return response;
  }
  // Returns the next chunk of a body, empty at its end. Returns nullopt if the server closes or the bytes are
  // not a chunk.
  std::optional<std::string> ReadChunk() {
    size_t line = 0;
    while ((line = buffer_.find("\r\n")) == std::string::npos) {
      if (!Fill()) return std::nullopt;
    }
    const size_t size = std::strtoul(buffer_.c_str(), nullptr, 16);
    if (line == 0 || !Gather(line + 2 + size + 2)) return std::nullopt;
    std::string chunk = buffer_.substr(line + 2, size);
    if (buffer_.compare(line + 2 + size, 2, "\r\n") != 0) return std::nullopt;
    buffer_.erase(0, line + 2 + size + 2);
    return chunk;
  }
  // Returns all bytes until the server ends its side.
  std::string ReadToEnd() {
    while (Fill()) {
    }
    return std::exchange(buffer_, {});
  }
  std::optional<TestResponse> Request(std::string_view method, std::string_view target,
                                      std::string_view body = "", std::string_view headers = "") {
    if (!SendRequest(method, target, body, headers)) return std::nullopt;
    return Read();
  }
  // Whether the server has ended its side. Blocks until it does, or until more bytes arrive.
  bool AtEnd() { return buffer_.empty() && !Fill(); }
  void HalfClose() {
    if (encryption_) encryption_->End();
    ::shutdown(fd_.get(), SHUT_WR);
  }
  void Close() { fd_.Reset(); }
  int fd() const { return fd_.get(); }

 private:
  bool Gather(size_t bytes) {
    while (buffer_.size() < bytes) {
      if (!Fill()) return false;
    }
    return true;
  }
  bool Fill() {
    char bytes[65536];
    const ssize_t got =
        encryption_ ? encryption_->Receive(bytes) : ::recv(fd_.get(), bytes, sizeof(bytes), 0);
    if (got <= 0) return false;
    buffer_.append(bytes, static_cast<size_t>(got));
    return true;
  }

  UniqueFd fd_;
  std::unique_ptr<TestEncryption> encryption_;  // null: no TLS
  std::string buffer_;
};

}  // namespace braid
