// FunctionModel: in a native worker, a function of tensors as a model, so that its calls come and are answered as
// executions. Its other end is a NativeFunction.
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
  // Any thread, several calls at once.
  using Function = std::function<Result<std::vector<Tensor>>(const std::vector<Tensor>& inputs)>;

  // As many instances as there are calls at once.
  FunctionModel(Function function, size_t most_calls);
  ~FunctionModel() override;

  // Nothing asks for it: inputs come from the server.
  BufferAllocator& input_allocator() override { return heap_; }
  std::vector<Instance*> instances() override;
  Status Start(ExecutionListener& listener, const std::function<void(const std::string&)>& progress) override;
  // Waits for the calls that run, however long they take.
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
