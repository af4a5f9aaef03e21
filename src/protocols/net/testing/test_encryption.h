// An interface for the encryption of a test client's blocking socket.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace braid {

class TestEncryption {
 public:
  virtual ~TestEncryption() = default;
  // Returns false if the server has closed the connection.
  virtual bool Send(std::string_view bytes) = 0;
  // Returns the number of bytes, 0 if the server has ended its side, or -1 if the connection broke.
  virtual ssize_t Receive(std::span<char> to) = 0;
  // Ends this side.
  virtual void End() = 0;
};

// Makes the encryption of a connected socket, which stays the caller's.
using MakeTestEncryption = std::function<std::unique_ptr<TestEncryption>(int fd)>;

}  // namespace braid
