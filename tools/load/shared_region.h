// A POSIX shared memory region of this program; a server on the same machine registers it by name.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"

namespace braid::load {

class SharedRegion {
 public:
  static Result<std::unique_ptr<SharedRegion>> Make(size_t bytes);
  ~SharedRegion();
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  // The key in /dev/shm, and the name that the server registers.
  const std::string& key() const { return key_; }
  const std::string& name() const { return name_; }
  char* base() const { return base_; }
  size_t bytes() const { return bytes_; }

 private:
  SharedRegion(std::string name, char* base, size_t bytes)
      : name_(std::move(name)), key_("/" + name_), base_(base), bytes_(bytes) {}

  const std::string name_;
  const std::string key_;
  char* const base_;
  const size_t bytes_;
};

}  // namespace braid::load
