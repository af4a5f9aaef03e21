// What of a custom node library is inside the server: its functions, and how they are called.
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
  // Both or none: libraries from before 2022.1 have none.
  decltype(&::initialize) initialize = nullptr;
  decltype(&::deinitialize) deinitialize = nullptr;
  // Those libraries know no last argument in these; by the calling convention it does them no harm.
  decltype(&::execute) execute = nullptr;
  decltype(&::getInputsInfo) inputs_info = nullptr;
  decltype(&::getOutputsInfo) outputs_info = nullptr;
  decltype(&::release) release = nullptr;
};

// A library that is mapped, until this is gone.
class LoadedNodeLibrary final : public CustomNodeLibrary,
                                public std::enable_shared_from_this<LoadedNodeLibrary> {
 public:
  // Takes over the handle.
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

// What a library keeps for one node. Shared by the node and by the memory that the library has handed out
// for it; the last of them has it deinitialized.
class NodeManager {
 public:
  NodeManager(std::shared_ptr<const LoadedNodeLibrary> library, void* manager)
      : library_(std::move(library)), manager_(manager) {}
  ~NodeManager();
  NodeManager(const NodeManager&) = delete;
  NodeManager& operator=(const NodeManager&) = delete;

  const CustomNodeFunctions& functions() const { return library_->functions(); }
  void* get() const { return manager_; }

  // Gives memory back to the library; null is none. What the library says to it changes nothing.
  void Release(void* memory) const noexcept;

 private:
  const std::shared_ptr<const LoadedNodeLibrary> library_;
  void* const manager_;
};

// Calls a function of a library: nothing when it returned 0, else what it did. Libraries are written in C++
// as well as in C, so it may be an exception that comes out.
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
