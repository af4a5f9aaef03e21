// A region of POSIX shared memory of ours, which a server on the same machine is told of by name.
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

  // The key in /dev/shm, and the name that the server knows it by.
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
