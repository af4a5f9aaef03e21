// The functions of a custom node library that is loaded into the server, and calls of them.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "include/custom_node_interface.h"
#include "pipeline/custom_node_library.h"

namespace braid {

struct CustomNodeFunctions {
  // Both are set or neither is; libraries from before 2022.1 lack them.
  decltype(&::initialize) initialize = nullptr;
  decltype(&::deinitialize) deinitialize = nullptr;
  // Those libraries declare the functions below without the last argument; by the calling convention an extra
  // argument is harmless.
  decltype(&::execute) execute = nullptr;
  decltype(&::getInputsInfo) inputs_info = nullptr;
  decltype(&::getOutputsInfo) outputs_info = nullptr;
  decltype(&::release) release = nullptr;
};

// A mapped library; the destructor unmaps it.
class LoadedNodeLibrary final : public CustomNodeLibrary,
                                public std::enable_shared_from_this<LoadedNodeLibrary> {
 public:
  // Takes ownership of `handle`.
  LoadedNodeLibrary(std::string name, void* handle, const CustomNodeFunctions& functions)
      : name_(std::move(name)), handle_(handle), functions_(functions) {}
  ~LoadedNodeLibrary() override;

  const std::string& name() const override { return name_; }
  Result<std::shared_ptr<const CustomNodeCode>> CodeFor(
      std::string node, std::vector<std::pair<std::string, std::string>> params) const override;
  const CustomNodeFunctions& functions() const { return functions_; }

 private:
  const std::string name_;
  void* const handle_;
  const CustomNodeFunctions functions_;
};

// A library's state for one node. The node shares ownership with the memory that the library has handed out
// for it; the last owner deinitializes the node.
class NodeManager {
 public:
  NodeManager(std::shared_ptr<const LoadedNodeLibrary> library, void* manager)
      : library_(std::move(library)), manager_(manager) {}
  ~NodeManager();
  NodeManager(const NodeManager&) = delete;
  NodeManager& operator=(const NodeManager&) = delete;

  const CustomNodeFunctions& functions() const { return library_->functions(); }
  void* get() const { return manager_; }

  // Returns memory to the library; null is allowed. An error of the library is ignored.
  void Release(void* memory) const noexcept;

 private:
  const std::shared_ptr<const LoadedNodeLibrary> library_;
  void* const manager_;
};

// Calls a function of a library. Returns nothing if it returned 0, else a description of the failure.
// Libraries may be written in C++, so an exception is a failure, too.
template <class Call>
std::optional<std::string> FailureOf(std::string_view function, Call&& call) {
  try {
    const int code = call();
    if (code == 0) return std::nullopt;
    return std::string(function) + " returned " + std::to_string(code);
  } catch (const std::exception& error) {
    return std::string(function) + " threw: " + error.what();
  } catch (...) {
    return std::string(function) + " threw an exception";
  }
}

}  // namespace braid
