#include "pipeline/custom_node_library.h"

#include <dlfcn.h>

#include <filesystem>

#include "pipeline/custom_node_functions.h"
#include "serving/faults.h"

namespace braid {
namespace {

// Returns dlerror()'s text for the last call.
std::string LoaderError() {
  const char* text = dlerror();
  return text == nullptr ? "unknown error" : text;
}

template <class Function>
bool Find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  return function != nullptr;
}

// Returns the base address of the file that contains the function. The loader also searches the libraries
// that a library needs, and any of them may have a function named `initialize`.
template <class Function>
const void* FileOf(Function function) {
  Dl_info info{};
  return dladdr(reinterpret_cast<void*>(function), &info) == 0 ? nullptr : info.dli_fbase;
}

}  // namespace

Result<std::shared_ptr<const CustomNodeLibrary>> CustomNodeLibrary::Open(std::string name,
                                                                         const std::string& path) {
  const std::string where = "library '" + name + "', '" + path + "'";
  const std::filesystem::path parts(path);
  if (!parts.is_absolute()) return FaultError(Fault::kPathInvalid, where + ": the path is not absolute");
  for (const auto& part : parts) {
    if (part == "..") return FaultError(Fault::kPathInvalid, where + ": the path contains '..'");
  }
  // dlopen() would wait for a writer of a named pipe.
  std::error_code error;
  if (!std::filesystem::is_regular_file(parts, error)) {
    return FaultError(Fault::kNodeLibraryLoadFailedOpen,
                      where + ": " + (error ? error.message() : "not a file"));
  }

  void* handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) return FaultError(Fault::kNodeLibraryLoadFailedOpen, where + ": " + LoaderError());
  CustomNodeFunctions functions;
  const char* missing = nullptr;
  if (!Find(handle, "execute", functions.execute)) missing = "execute";
  if (!Find(handle, "getInputsInfo", functions.inputs_info)) missing = "getInputsInfo";
  if (!Find(handle, "getOutputsInfo", functions.outputs_info)) missing = "getOutputsInfo";
  if (!Find(handle, "release", functions.release)) missing = "release";
  const void* file = FileOf(functions.execute);
  if (Find(handle, "initialize", functions.initialize) && FileOf(functions.initialize) != file) {
    functions.initialize = nullptr;
  }
  if (Find(handle, "deinitialize", functions.deinitialize) && FileOf(functions.deinitialize) != file) {
    functions.deinitialize = nullptr;
  }
  if ((functions.initialize == nullptr) != (functions.deinitialize == nullptr)) {
    missing = functions.initialize == nullptr ? "initialize" : "deinitialize";
  }
  if (missing != nullptr) {
    dlclose(handle);
    return FaultError(Fault::kNodeLibraryLoadFailedSymbol, where + ": function '" + missing + "' is missing");
  }
  return std::shared_ptr<const CustomNodeLibrary>(
      std::make_shared<LoadedNodeLibrary>(std::move(name), handle, functions));
}

LoadedNodeLibrary::~LoadedNodeLibrary() { dlclose(handle_); }

NodeManager::~NodeManager() {
  if (functions().deinitialize == nullptr) return;
  // There is no caller to report a failure to.
  (void)FailureOf("deinitialize", [this] { return functions().deinitialize(manager_); });
}

void NodeManager::Release(void* memory) const noexcept {
  if (memory == nullptr) return;
  (void)FailureOf("release", [this, memory] { return functions().release(memory, manager_); });
}

}  // namespace braid
