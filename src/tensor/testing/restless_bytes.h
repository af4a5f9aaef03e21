// Memory that another process changes continuously, as a compromised worker can do with its outputs.
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "base/check.h"
#include "tensor/buffer.h"
#include "tensor/shared_bytes.h"

namespace braid {

class RestlessOwner final : public BufferOwner, public SharedBytes {
 public:
  RestlessOwner(const std::string& one, const std::string& other) : size_(one.size()) {
    BRAID_CHECK(one.size() == other.size());
    bytes_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    BRAID_CHECK(bytes_ != MAP_FAILED);
    std::memcpy(bytes_, one.data(), size_);
    writer_ = fork();
    BRAID_CHECK(writer_ >= 0);
    if (writer_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
      std::memcpy(bytes_, other.data(), size_);
      std::memcpy(bytes_, one.data(), size_);
    }
  }
  ~RestlessOwner() override {
    kill(writer_, SIGKILL);
    waitpid(writer_, nullptr, 0);
    munmap(bytes_, size_);
  }
  std::byte* bytes() const { return static_cast<std::byte*>(bytes_); }

 private:
  const size_t size_;
  void* bytes_ = nullptr;
  pid_t writer_ = 0;
};

// A buffer whose bytes alternate between two texts of equal length until its last reference is released.
inline Buffer RestlessBytes(const std::string& one, const std::string& other) {
  auto* owner = new RestlessOwner(one, other);
  return {owner->bytes(), one.size(), owner};
}

// The elements of a BYTES tensor of `size` bytes: a single one, or as many as fit with one byte each.
inline std::string OneElement(size_t size) {
  const auto length = static_cast<uint32_t>(size - sizeof(uint32_t));
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + std::string(length, 'x');
}
inline std::string ManyElements(size_t size) {
  std::string bytes;
  while (bytes.size() < size) bytes += std::string("\1\0\0\0y", 5);
  BRAID_CHECK(bytes.size() == size);
  return bytes;
}

}  // namespace braid
