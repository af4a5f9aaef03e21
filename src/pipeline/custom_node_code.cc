// CustomNodeCode: one node's use of a library.
#include "pipeline/custom_node_functions.h"
#include "pipeline/custom_node_library.h"
#include "pipeline/custom_node_tensors.h"
#include "serving/faults.h"

namespace braid {
namespace {

// A node's parameters as a library sees them.
class NodeParams {
 public:
  explicit NodeParams(std::vector<std::pair<std::string, std::string>> params) : texts_(std::move(params)) {
    for (const auto& [key, value] : texts_) params_.push_back({key.c_str(), value.c_str()});
  }
  NodeParams(const NodeParams&) = delete;
  NodeParams& operator=(const NodeParams&) = delete;

  const CustomNodeParam* data() const { return params_.empty() ? nullptr : params_.data(); }
  int size() const { return static_cast<int>(params_.size()); }

 private:
  const std::vector<std::pair<std::string, std::string>> texts_;
  std::vector<CustomNodeParam> params_;
};

class Code final : public CustomNodeCode {
 public:
  Code(std::string where, std::unique_ptr<const NodeParams> params,
       std::shared_ptr<const NodeManager> manager)
      : where_(std::move(where)), params_(std::move(params)), manager_(std::move(manager)) {}

  Result<std::vector<TensorSpec>> Inputs() const override {
    return Ask("getInputsInfo", manager_->functions().inputs_info);
  }
  Result<std::vector<TensorSpec>> Outputs() const override {
    return Ask("getOutputsInfo", manager_->functions().outputs_info);
  }

  Result<std::vector<Tensor>> Execute(const std::vector<Tensor>& inputs) const override {
    const NodeInputs shown(inputs);
    CustomNodeTensor* outputs = nullptr;
    int count = 0;
    const auto failure = FailureOf("execute", [&] {
      return manager_->functions().execute(shown.data(), shown.size(), &outputs, &count, params_->data(),
                                           params_->size(), manager_->get());
    });
    if (failure) return FaultError(Fault::kNodeLibraryExecutionFailed, where_ + ": " + *failure);
    return TakeOutputs(manager_, outputs, count, where_);
  }

 private:
  Result<std::vector<TensorSpec>> Ask(std::string_view name, decltype(&::getInputsInfo) function) const {
    CustomNodeTensorInfo* info = nullptr;
    int count = 0;
    const auto failure = FailureOf(
        name, [&] { return function(&info, &count, params_->data(), params_->size(), manager_->get()); });
    if (failure) return FaultError(Fault::kNodeLibraryMetadataFailed, where_ + ": " + *failure);
    return TakeInfo(*manager_, info, count, where_ + ", " + std::string(name));
  }

  const std::string where_;  // "library 'x', node 'y'"
  const std::unique_ptr<const NodeParams> params_;
  const std::shared_ptr<const NodeManager> manager_;  // shared with the outputs
};

}  // namespace

Result<std::shared_ptr<const CustomNodeCode>> LoadedNodeLibrary::CodeFor(
    std::string node, std::vector<std::pair<std::string, std::string>> params) const {
  std::string where = "library '" + name_ + "', node '" + node + "'";
  auto kept = std::make_unique<const NodeParams>(std::move(params));
  void* manager = nullptr;
  if (functions_.initialize != nullptr) {
    const auto failure =
        FailureOf("initialize", [&] { return functions_.initialize(&manager, kept->data(), kept->size()); });
    if (failure) return FaultError(Fault::kNodeLibraryInitializeFailed, where + ": " + *failure);
  }
  auto shared = std::make_shared<const NodeManager>(shared_from_this(), manager);
  return std::shared_ptr<const CustomNodeCode>(
      std::make_shared<Code>(std::move(where), std::move(kept), std::move(shared)));
}

}  // namespace braid
