// NativeModel: a model that a native worker runs: one process with all of its instances, and the thread "brd-native" that
// starts it, receives from it, and starts it anew when it has died.
//
// A worker that dies fails the requests that it had begun or that waited there for an instance; those that it had not
// read yet come back to the scheduler. Requests are answered on the model's thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/native/native_instance.h"
#include "backends/native/native_task.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "ipc/arena.h"
#include "ipc/native_messages.h"
#include "scheduling/backend.h"
#include "workers/worker_host.h"

namespace braid {

class NativeModel final : public BackendModel, private WorkerUser {
 public:
  struct InstanceName {
    std::string name;
    bool passive = false;
  };
  // Where workers come from; all references outlive the model and its buffers.
  struct Ground {
    WorkerSpawner& spawner;
    ChildReaper& reaper;
    SegmentIds& segment_ids;
    const WorkerServices& services;
    Logger& log;
    Arena::Options arena;
    int64_t sign_in_timeout_ns = 0;
  };

  // `files`: what is kept as long as the model is.
  // `facts` are of its task; NativeWorkers has them.
  NativeModel(WorkerFacts facts, const Ground& ground, std::shared_ptr<const void> files);
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
  struct Running {
    NativeInstance* instance = nullptr;
    std::unique_ptr<Execution> execution;
  };

  Status OnUp(const WorkerLink& link, const WorkerProcess::Answer& loaded) override;
  void OnDown(const std::string& reason) override;
  void OnDead() override;
  void OnGone(const std::string& reason) override;
  Status OnMessage(const std::vector<std::byte>& message) override;
  int64_t OnRound(int64_t now_ns) override;
  void OnIdle() override;
  // There is no user code in it that could call.
  Origin OriginOf(const CallMessage&) override { return {}; }
  std::shared_ptr<const CallChain> ForkedChain() override { return nullptr; }

  // Sends an execution that gets `id`.
  Status Send(const NativeInstance& instance, const Execution& execution, uint64_t id) BRAID_REQUIRES(mutex_);
  Status HandleExecuted(const NativeExecutedMessage& message);
  Status MakeResponse(const NativeExecutedMessage::Response& message, WorkerMemory::Returned& returned,
                      InferenceResponse& response);
  // Sends back what Execute() could not pass on.
  void ReturnRefused();
  void TellAvailable(bool available);

  const std::string name_;
  const WorkerSpec spec_;
  const WorkerFacts facts_;
  const std::shared_ptr<const void> files_;  // shared with whoever else needs them
  Arena arena_;
  std::vector<std::unique_ptr<NativeInstance>> instances_;
  bool loaded_ = false;  // the worker is to be stopped

  // The host's thread's own.
  std::string first_answer_;     // of the worker that was loaded first
  bool available_ = true;        // as the listener knows it, which takes new instances for available
  std::vector<Running> failed_;  // of a worker that is dead
  std::vector<Running> unstarted_;

  mutable Mutex mutex_;  // a leaf lock: nothing that blocks is called with it held
  WorkerLink link_;      // changed with mutex_ held by the host's thread, which reads it without
  ExecutionListener* listener_ BRAID_GUARDED_BY(mutex_) = nullptr;  // constant after Start()
  bool accepting_ BRAID_GUARDED_BY(mutex_) = false;  // the worker has loaded the model and lives
  std::string reason_ BRAID_GUARDED_BY(mutex_);      // why not accepting
  uint64_t next_execution_id_ BRAID_GUARDED_BY(mutex_) = 1;
  std::map<uint64_t, Running> running_ BRAID_GUARDED_BY(mutex_);  // by their ids
  struct Refused {
    Running running;
    Status status;  // OK: it can run elsewhere
  };
  // Handed over and not passed on; the thread sends them back.
  std::vector<Refused> refused_ BRAID_GUARDED_BY(mutex_);
  std::vector<std::byte> encoded_ BRAID_GUARDED_BY(mutex_);
  NativeExecuteMessage outgoing_ BRAID_GUARDED_BY(mutex_);
  WorkerHost host_;
};

}  // namespace braid
