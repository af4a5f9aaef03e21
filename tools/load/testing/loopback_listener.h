// LoopbackListener: a listening socket for one connection of a test.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include "base/unique_fd.h"

namespace braid::load {

class LoopbackListener {
 public:
  LoopbackListener() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = std::to_string(ntohs(address.sin_port));
  }

  const std::string& port() const { return port_; }
  // Blocks until a client has connected.
  UniqueFd Accept() const { return UniqueFd(::accept(listener_.get(), nullptr, nullptr)); }

 private:
  UniqueFd listener_;
  std::string port_;
};

}  // namespace braid::load
