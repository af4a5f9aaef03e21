// NodeWorker: PythonNodes in a worker process. The thread "brd-nodes" starts the worker, receives its
// messages, and restarts it when it dies.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/python/environment.h"
#include "backends/python/model_bounds.h"
#include "backends/python/node_calls.h"
#include "backends/python/python_nodes.h"
#include "ipc/arena.h"
#include "serving/structure.h"
#include "workers/worker_host.h"

namespace braid {

class NodeWorker final : public PythonNodes, private WorkerUser {
 public:
  // The references outlive the worker and all its buffers.
  NodeWorker(const std::string& graph_name, const std::vector<PythonNodeSpec>& nodes,
             WorkerIsolation isolation, std::string debugger, const Arena::Options& arena,
             const WorkerServices& services, std::shared_ptr<PythonEnvironment> environment,
             const ModelBounds& bounds);
  // REQUIRES: Start() has failed, or Stop() was called.
  ~NodeWorker() override;

  // Starts the worker; blocks until the nodes are loaded. Errors: the reason of the failure. REQUIRES: called
  // once.
  Status Start();

  uint64_t Execute(size_t node, uint64_t session, std::vector<NodeTensor> inputs,
                   std::shared_ptr<NodeCallListener> listener) override;
  bool Resume(uint64_t call) override { return calls_.Resume(call); }
  void Close(uint64_t call) override { calls_.Close(call); }
  uint64_t BeginSession(const Parameters& parameters, std::shared_ptr<const CallChain> chain) override {
    return calls_.BeginSession(parameters, std::move(chain));
  }
  void EndSession(uint64_t session) override { calls_.EndSession(session); }
  Readiness readiness() const override { return calls_.readiness(); }
  std::vector<InstanceReport> instances() const override;
  BufferAllocator& allocator() override { return arena_; }
  void Stop(int64_t deadline_ns) override;

 private:
  Status OnUp(const WorkerLink& link, const WorkerProcess::Answer& loaded) override;
  void OnDown(const std::string& reason) override { calls_.Refuse(reason); }
  void OnDead() override { calls_.Forget(); }
  void OnGone(const std::string& reason) override { calls_.Fail(reason); }
  Status OnMessage(const std::vector<std::byte>& message) override;
  int64_t OnRound(int64_t now_ns) override;
  void OnIdle() override { host_.TrimArena(); }
  WorkerConversation::Origin OriginOf(const CallMessage& call) override;
  std::shared_ptr<const CallChain> ForkedChain() override { return chain_; }

  const size_t node_count_;
  const int64_t execute_timeout_ns_;  // 0: none
  const WorkerSpec spec_;
  const WorkerFacts facts_;
  // For calls by user code that no outside request waits for.
  const std::shared_ptr<const CallChain> chain_;  // shared with the calls
  // Shared with the models in it. Released in Stop(), on a thread that may wait while its files are deleted.
  std::shared_ptr<PythonEnvironment> environment_;
  Arena arena_;
  NodeCalls calls_;
  // Used by the host's thread only.
  int64_t next_watch_ns_ = 0;
  std::atomic<uint64_t> executions_{0};  // number handed over
  WorkerHost host_;
};

// Returns LoadMessage::model_config for a worker of these nodes; see ipc/node_messages.h.
std::string NodesToJson(const std::vector<PythonNodeSpec>& nodes);

}  // namespace braid
