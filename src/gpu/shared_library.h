// A library of the machine that is looked for at run time, and its functions by name. It stays loaded as long as the
// process lives: what a driver has begun is not taken away from under its threads.
#pragma once

#include <string>

#include "base/status.h"

namespace braid {

class SharedLibrary {
 public:
  // The library that the dynamic linker finds under `name` ("libcuda.so.1"). Errors: NOT_FOUND, with what the linker
  // says.
  static Result<SharedLibrary> Open(const std::string& name);

  // Sets `function` to the function `name`. Errors: NOT_FOUND for a library that has none such.
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
