// What a test's client puts between itself and its socket, which blocks.
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
  // False when the server has hung up.
  virtual bool Send(std::string_view bytes) = 0;
  // Bytes; 0 when the server has said that its side ends; -1 when it was cut off.
  virtual ssize_t Receive(std::span<char> to) = 0;
  // Says that this side ends.
  virtual void End() = 0;
};

// Makes one for a connected socket, which stays the caller's.
using MakeTestEncryption = std::function<std::unique_ptr<TestEncryption>(int fd)>;

}  // namespace braid
