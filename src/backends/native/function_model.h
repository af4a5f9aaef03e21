// FunctionModel: a function of tensors as a model, in a native worker. Its calls arrive as executions;
// NativeFunction is the other end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/elastic_threads.h"
#include "base/status.h"
#include "scheduling/backend.h"
#include "tensor/buffer.h"
#include "tensor/tensor.h"

namespace braid {

class FunctionModel final : public BackendModel {
 public:
  // Called from any thread, and by several at once.
  using Function = std::function<Result<std::vector<Tensor>>(const std::vector<Tensor>& inputs)>;

  // Has one instance for each concurrent call.
  FunctionModel(Function function, size_t most_calls);
  ~FunctionModel() override;

  // Unused: inputs come from the server.
  BufferAllocator& input_allocator() override { return heap_; }
  std::vector<Instance*> instances() override;
  Status Start(ExecutionListener& listener, const std::function<void(const std::string&)>& progress) override;
  // Waits for running calls, without a time limit.
  void Stop(int64_t deadline_ns) override;
  Readiness readiness() const override { return {true, {}}; }

 private:
  class Call;

  const Function function_;
  HeapAllocator heap_;
  std::vector<std::unique_ptr<Call>> calls_;
  ExecutionListener* listener_ = nullptr;
  std::optional<ElasticThreads> threads_;
};

}  // namespace braid
