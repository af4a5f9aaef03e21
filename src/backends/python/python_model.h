// PythonModel: one loaded version of a Python model: its instances and the memory of their inputs.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/python/environment.h"
#include "backends/python/model_bounds.h"
#include "backends/python/python_model_instance.h"
#include "ipc/arena.h"
#include "scheduling/backend.h"
#include "workers/memory_limits.h"
#include "workers/model_template.h"
#include "workers/worker_process.h"
#include "workers/worker_services.h"

namespace braid {

class PythonModel final : public BackendModel {
 public:
  // The references outlive the model and all its buffers.
  PythonModel(ModelLocation location, WorkerFacts facts, const std::vector<WorkerSpec>& instances,
              const Arena::Options& arena, const WorkerServices& services,
              std::shared_ptr<PythonEnvironment> environment, MemoryLimits& limits, const ModelBounds& bounds,
              DeviceTensors device_tensors);
  ~PythonModel() override;

  BufferAllocator& input_allocator() override { return arena_; }
  std::vector<Instance*> instances() override;
  std::optional<InstanceReport> instance_template() const override;
  Status Start(ExecutionListener& listener, const std::function<void(const std::string&)>& progress) override;
  void Stop(int64_t deadline_ns) override;
  Readiness readiness() const override;
  DeviceTensors device_tensors() const override { return device_tensors_; }
  bool saves_sequences() const override;
  void CheckReadiness(std::function<void(Readiness)> done) override;

 private:
  // Starts the template. If its process cannot be forked, and sharing is optional, instances start without it.
  Status StartTemplate(const std::function<void(const std::string&)>& progress);
  // Returns idle memory of the inputs to the system, and notifies the workers.
  void TrimArena();

  const ModelLocation location_;  // keeps temporary files
  const WorkerFacts facts_;
  Logger& log_;
  const DeviceTensors device_tensors_;
  // Shared with the other models in it. Released in Stop(), on a thread that may wait while its files are
  // deleted.
  std::shared_ptr<PythonEnvironment> environment_;
  Arena arena_;
  const ShareInstances share_;
  std::unique_ptr<ModelTemplate> template_;  // null: instances are not shared
  std::vector<std::unique_ptr<PythonModelInstance>> instances_;
  bool started_ = false;
};

}  // namespace braid
