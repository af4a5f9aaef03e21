// SharedLibrary: a library that is found at run time, and its functions by name. It is never unloaded,
// because a driver's threads may still run in it.
#pragma once

#include <string>

#include "base/status.h"

namespace braid {

class SharedLibrary {
 public:
  // Opens the library that the dynamic linker finds under `name` ("libcuda.so.1"). Errors: NOT_FOUND, with
  // the linker's message.
  static Result<SharedLibrary> Open(const std::string& name);

  // Sets `function` to the function `name`. Errors: NOT_FOUND if the library does not have it.
  template <class Function>
  Status Find(const char* name, Function*& function) const {
    BRAID_ASSIGN_OR_RETURN(void* found, Address(name));
    function = reinterpret_cast<Function*>(found);
    return OkStatus();
  }

 private:
  SharedLibrary(std::string name, void* handle) : name_(std::move(name)), handle_(handle) {}
  Result<void*> Address(const char* name) const;

  std::string name_;
  void* handle_;
};

}  // namespace braid
