#include "backends/native/isolated_nodes.h"

#include <utility>
#include <vector>

#include "backends/native/native_function.h"
#include "serving/faults.h"

namespace braid {
namespace {

class IsolatedNode final : public CustomNodeCode {
 public:
  // `known`: the error of asking the node for its inputs and outputs; `function` is then null.
  IsolatedNode(std::string where, Status known, std::unique_ptr<NativeFunction> function)
      : where_(std::move(where)), known_(std::move(known)), function_(std::move(function)) {}

  Result<std::vector<TensorSpec>> Inputs() const override {
    BRAID_RETURN_IF_ERROR(known_);
    return function_->answer().node_inputs;
  }
  Result<std::vector<TensorSpec>> Outputs() const override {
    BRAID_RETURN_IF_ERROR(known_);
    return function_->answer().node_outputs;
  }
  Result<std::vector<Tensor>> Execute(const std::vector<Tensor>& inputs) const override {
    BRAID_RETURN_IF_ERROR(known_);
    Result<std::vector<Tensor>> outputs = function_->Call(inputs);
    if (outputs.ok() || outputs.status().fault() != Fault{}) return outputs;
    // An error of the worker, not of the library.
    return FaultError(Fault::kNodeLibraryExecutionFailed, where_ + ": " + outputs.status().message());
  }

  BufferAllocator* input_allocator() const override {
    return function_ == nullptr ? nullptr : &function_->input_allocator();
  }
  std::optional<InstanceReport> report() const override {
    if (function_ == nullptr) return std::nullopt;
    return function_->report();
  }
  void Stop(int64_t deadline_ns) const override {
    if (function_ != nullptr) function_->Stop(deadline_ns);
  }

 private:
  const std::string where_;  // "library 'x', node 'y'"
  const Status known_;
  const std::unique_ptr<NativeFunction> function_;
};

class IsolatedLibrary final : public CustomNodeLibrary {
 public:
  IsolatedLibrary(NativeWorkers& workers, std::string name, std::string path, uint32_t most_calls)
      : workers_(workers), name_(std::move(name)), path_(std::move(path)), most_calls_(most_calls) {}

  const std::string& name() const override { return name_; }

  Result<std::shared_ptr<const CustomNodeCode>> CodeFor(
      std::string node, std::vector<std::pair<std::string, std::string>> params) const override {
    std::string where = "library '" + name_ + "', node '" + node + "'";
    NativeTask task;
    task.kind = NativeTask::Kind::kNode;
    task.library_name = name_;
    task.library_path = path_;
    task.node = node;
    task.params = std::move(params);
    task.most_calls = most_calls_;
    auto function = NativeFunction::Load(workers_, node, task);
    if (function.ok()) {
      return std::shared_ptr<const CustomNodeCode>(
          std::make_shared<IsolatedNode>(std::move(where), OkStatus(), std::move(function).value()));
    }
    switch (function.status().fault()) {
      case Fault::kNodeLibraryMetadataFailed:
      case Fault::kNodeLibraryOutputsCorrupted:
      case Fault::kNodeLibraryOutputsCorruptedCount:
        // Reported when the caller asks for the node's inputs and outputs, which it does next.
        return std::shared_ptr<const CustomNodeCode>(
            std::make_shared<IsolatedNode>(std::move(where), function.status(), nullptr));
      case Fault{}:
        return FaultError(Fault::kNodeLibraryInitializeFailed, where + ": " + function.status().message());
      default:
        return function.status();
    }
  }

 private:
  NativeWorkers& workers_;
  const std::string name_;
  const std::string path_;
  const uint32_t most_calls_;
};

}  // namespace

Result<std::shared_ptr<const CustomNodeLibrary>> OpenIsolatedLibrary(NativeWorkers& workers,
                                                                     const std::string& name,
                                                                     const std::string& path,
                                                                     uint32_t most_calls) {
  NativeTask task;
  task.kind = NativeTask::Kind::kNodeLibrary;
  task.library_name = name;
  task.library_path = path;
  if (auto opened = workers.Do(name, task); !opened.ok()) {
    if (opened.status().fault() != Fault{}) return opened.status();
    return FaultError(Fault::kNodeLibraryLoadFailedOpen,
                      "library '" + name + "', '" + path + "': " + opened.status().message());
  }
  return std::shared_ptr<const CustomNodeLibrary>(
      std::make_shared<IsolatedLibrary>(workers, name, path, most_calls));
}

}  // namespace braid
