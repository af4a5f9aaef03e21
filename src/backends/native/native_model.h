// NativeModel: a model in a native worker: one process with all instances of the model. The thread
// "brd-native" starts the worker, receives its messages, and restarts it when it dies.
//
// If a worker dies, requests fail that it had begun, or that were queued there for an instance. Requests that
// it had not read yet return to the scheduler. Responses are sent on the model's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/native/native_instance.h"
#include "backends/native/native_task.h"
#include "base/status.h"
#include "ipc/arena.h"
#include "ipc/native_messages.h"
#include "scheduling/backend.h"
#include "workers/executions_in_flight.h"

namespace braid {

class NativeModel final : public BackendModel, private ExecutionsInFlight {
 public:
  struct InstanceName {
    std::string name;
    bool passive = false;
  };

  // `facts` come from NativeWorkers. `files` owns temporary files of the model; null: there are none. The
  // references outlive the model and its buffers.
  NativeModel(WorkerFacts facts, const WorkerServices& services, WorkerSpawner& spawner,
              const Arena::Options& arena, std::shared_ptr<const void> files);
  // Stops a worker that is still running.
  ~NativeModel() override;

  // Starts the worker, and blocks until it has loaded the model. Errors: those of loading inside the server;
  // the worker died. REQUIRES: called once, before any other method.
  Result<NativeAnswer> Load();
  // Adds as many instances as the worker has. REQUIRES: called once, after Load().
  void AddInstances(const std::vector<InstanceName>& names);

  BufferAllocator& input_allocator() override { return arena_; }
  std::vector<Instance*> instances() override;
  // Errors: UNAVAILABLE when the worker has died since it was loaded.
  Status Start(ExecutionListener& listener, const std::function<void(const std::string&)>& progress) override;
  void Stop(int64_t deadline_ns) override;
  Readiness readiness() const override;

  // For the instances.
  void Execute(NativeInstance& instance, std::unique_ptr<Execution> execution);
  void Describe(const NativeInstance& instance, InstanceReport& report) const;
  // The report of the process and all of its instances together. Any thread.
  InstanceReport report() const;

 private:
  Status Send(const Running& running, const Execution& execution) override BRAID_REQUIRES(mutex_);
  void TellAvailable(bool available) override;
  Status OnUp(const WorkerLink& link, const WorkerProcess::Answer& loaded) override;
  Status OnMessage(const std::vector<std::byte>& message) override;
  int64_t OnRound(int64_t now_ns) override;
  void OnIdle() override { host_.TrimArena(); }
  // A native worker runs no user code, so it makes no calls.
  WorkerConversation::Origin OriginOf(const CallMessage&) override { return {}; }
  std::shared_ptr<const CallChain> ForkedChain() override { return nullptr; }

  Status HandleExecuted(const NativeExecutedMessage& message);
  Status MakeResponse(const NativeExecutedMessage::Response& message, WorkerMemory::Returned& returned,
                      InferenceResponse& response);

  const std::string name_;
  const WorkerSpec spec_;
  const WorkerFacts facts_;
  const std::shared_ptr<const void> files_;  // shared with its ModelLocation; null: there are none
  Arena arena_;
  std::vector<std::unique_ptr<NativeInstance>> instances_;
  bool loaded_ = false;       // the worker runs and must be stopped
  std::string first_answer_;  // of the first worker; used by the host's thread only, after the start

  std::vector<std::byte> encoded_ BRAID_GUARDED_BY(mutex_);
  NativeExecuteMessage outgoing_ BRAID_GUARDED_BY(mutex_);
  WorkerHost host_;
};

}  // namespace braid
