// OpenVinoModel: a compiled model with its infer requests.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <openvino/openvino.hpp>

#include "backends/openvino/compiled_facts.h"
#include "backends/openvino/openvino_instance.h"
#include "backends/openvino/request_source.h"
#include "backends/openvino/state_pool.h"
#include "scheduling/backend.h"

namespace braid {

class OpenVinoModel final : public BackendModel {
 public:
  struct InstanceName {
    std::string name;
    bool passive = false;
  };
  // `source` makes the infer requests. `files`, if not null, are kept as long as the model.
  OpenVinoModel(std::unique_ptr<RequestSource> source, CompiledFacts facts,
                const std::vector<InstanceName>& instances, std::shared_ptr<const void> files);
  ~OpenVinoModel() override;

  BufferAllocator& input_allocator() override { return allocator_; }
  std::vector<Instance*> instances() override;
  Status Start(ExecutionListener& listener, const std::function<void(const std::string&)>& progress) override;
  void Stop(int64_t deadline_ns) override;
  // Infer requests do not die.
  Readiness readiness() const override { return {}; }

 private:
  HeapAllocator allocator_;
  const std::shared_ptr<const void> files_;  // temporary files, which the compiled model may have mapped
  const CompiledFacts facts_;
  std::vector<std::shared_ptr<StatePool>> pools_;  // one for each state; buffers share ownership
  std::vector<std::unique_ptr<OpenVinoInstance>> instances_;
  const std::unique_ptr<RequestSource> source_;  // destroyed first: its thread uses the instances
};

}  // namespace braid
