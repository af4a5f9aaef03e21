#include "gpu/shared_library.h"

#include <dlfcn.h>

namespace braid {
namespace {

std::string LinkerError(const std::string& otherwise) {
  const char* text = dlerror();
  return text == nullptr ? otherwise : text;
}

}  // namespace

Result<SharedLibrary> SharedLibrary::Open(const std::string& name) {
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) return NotFoundError(LinkerError(name + " cannot be loaded"));
  return SharedLibrary(name, handle);
}

Result<void*> SharedLibrary::Address(const char* name) const {
  void* address = dlsym(handle_, name);
  if (address == nullptr) return NotFoundError(name_ + " has no function " + name + ": it is too old");
  return address;
}

}  // namespace braid
