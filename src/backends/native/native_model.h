// NativeModel: a model that a native worker runs: one process with all of its instances, and the thread "brd-native" that
// starts it, receives from it, and starts it anew when it has died.
//
// A worker that dies fails the requests that it had begun or that waited there for an instance; those that it had not
// read yet come back to the scheduler. Requests are answered on the model's thread.
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

  // `facts` are of its task; NativeWorkers has them. `files` owns the temporary files that the
  // model is read from; null: there are none. The references outlive the model and its buffers.
  NativeModel(WorkerFacts facts, const WorkerServices& services, WorkerSpawner& spawner,
              const Arena::Options& arena, std::shared_ptr<const void> files);
  // Ends the worker, if it was loaded and not stopped.
  ~NativeModel() override;

  // Starts the worker, and blocks until it has loaded the model. Once, before anything else. Errors: those of loading,
  // as the server itself would have them; the worker died.
  Result<NativeAnswer> Load();
  // Once, after Load(). REQUIRES: as many as the worker has.
  void AddInstances(const std::vector<InstanceName>& names);

  BufferAllocator& input_allocator() override { return arena_; }
  std::vector<Instance*> instances() override;
  // Errors: UNAVAILABLE when the worker has died since it was loaded.
  Status Start(ExecutionListener& listener, const std::function<void(const std::string&)>& progress) override;
  void Stop(int64_t deadline_ns) override;
  Readiness readiness() const override;

  // For its instances.
  void Execute(NativeInstance& instance, std::unique_ptr<Execution> execution);
  void Describe(const NativeInstance& instance, InstanceReport& report) const;
  // Of its one process, and all of its instances together. Any thread.
  InstanceReport report() const;

 private:
  Status Send(const Running& running, const Execution& execution) override BRAID_REQUIRES(mutex_);
  void TellAvailable(bool available) override;
  Status OnUp(const WorkerLink& link, const WorkerProcess::Answer& loaded) override;
  Status OnMessage(const std::vector<std::byte>& message) override;
  int64_t OnRound(int64_t now_ns) override;
  void OnIdle() override { host_.TrimArena(); }
  // There is no user code in it that could call.
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
  bool loaded_ = false;       // the worker is to be stopped
  std::string first_answer_;  // of the worker that was loaded first; the host's thread's own

  std::vector<std::byte> encoded_ BRAID_GUARDED_BY(mutex_);
  NativeExecuteMessage outgoing_ BRAID_GUARDED_BY(mutex_);
  WorkerHost host_;
};

}  // namespace braid
