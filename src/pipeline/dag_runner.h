// DagRunner: what ensembles and pipelines have in common: a session for each request, the statistics, the
// readiness of what stands behind the nodes, and the stop.
//
// A servable that says of itself that it is stateful has a sequence in each request, whose name goes to all
// nodes and, as one more output, back with each response. The requests of a sequence run one at a time, in
// the order in which they have come (see sequence_queue.h). When one fails, what nodes have done for it is taken
// back (see sequence_nodes.h) before the client hears of it.
//
// A servable owns one and hands its calls on. DagPlan is what sessions need of the servable, and still need
// when it is gone; it says in the servable's own words what went wrong.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "pipeline/dag.h"
#include "pipeline/node.h"
#include "pipeline/sequence_queue.h"
#include "pipeline/servable_node.h"
#include "pipeline/session.h"
#include "serving/servable.h"

namespace braid {

struct PlanNode {
  std::unique_ptr<const Node> node;
  // The servable behind the node, within it; null for code that lives in this process.
  const ServableReference* servable = nullptr;
};

class DagPlan {
 public:
  virtual ~DagPlan() = default;

  std::shared_ptr<const Dag> dag;
  std::vector<PlanNode> nodes;  // those of the DAG, in order
  SessionOptions options;

  // Why it is not ready: "ensemble 'e' depends on 'm' which has no loaded version."
  virtual std::string LacksVersion(const std::string& model) const = 0;
  virtual std::string NotReady(const std::string& model, const std::string& reason) const = 0;
  // How a request ends when a node has nothing behind it, and with the error of a node or of the session's
  // own (Dag::kNone).
  virtual Status Unavailable(uint32_t node, const Status& why) const = 0;
  virtual Status Fault(Status status, uint32_t node) const = 0;
  virtual Status MissingOutput(uint32_t node, const std::string& output) const {
    static_cast<void>(node), static_cast<void>(output);
    return OkStatus();
  }
  // The last touch to the outputs of the one response of a servable that is not decoupled.
  virtual Status FinishOutputs(std::vector<Tensor>& outputs) const {
    static_cast<void>(outputs);
    return OkStatus();
  }
};

class DagRunner final : private SequenceQueue::Runner {
 public:
  // `servable` owns this, and gives `statistics` of itself. Its outputs are those of the DAG, in order.
  // `queue` may be null unless the servable is stateful.
  DagRunner(Servable& servable, std::shared_ptr<const DagPlan> plan, std::shared_ptr<SequenceQueue> queue);
  ~DagRunner() override;

  // That of the first node that takes an input of the DAG, so that its instances map it as it is; whichever
  // version of it there is now.
  BufferAllocator& input_allocator();
  // REQUIRES: ReadSequence() and CheckRequest() found nothing.
  void Run(std::unique_ptr<InferenceRequest> request);
  // The same in two steps: the entry that a request has in the queue from now on (null where there is none),
  // and the run, or that it is refused for this reason. REQUIRES: ReadSequence() found nothing. Errors: those
  // of SequenceQueue::Enter().
  Result<SequenceQueue::Entry*> Enter(const InferenceRequest& request);
  void Run(std::unique_ptr<InferenceRequest> request, SequenceQueue::Entry* entry);
  void Refuse(std::unique_ptr<InferenceRequest> request, SequenceQueue::Entry* entry, Status why);
  // The servables behind the nodes, in order.
  std::vector<ServableUse> uses() const;
  // How many requests wait for others of their sequence.
  int64_t waiting() const;
  Readiness readiness() const;
  // Asks every node's servable; the first that says no is the answer, which waits for all of them.
  void CheckReadiness(std::function<void(Readiness)> done) const;
  // See Servable.
  void DropSequence(const CorrelationId& id) const;
  void MarkSequence(const CorrelationId& id, std::vector<TakeBackSteps>& marks) const;
  void Stop(int64_t deadline_ns);

  const DagPlan& plan() const { return *plan_; }
  const std::shared_ptr<SequenceQueue>& queue() const { return queue_; }

 private:
  class Client;
  class Memory;

  const ServableReference* FirstStep() const;
  // The indexes among the DAG's outputs that a request wants.
  std::vector<uint32_t> Wanted(const InferenceRequest& request) const;
  Result<std::vector<std::unique_ptr<NodeSession>>> OpenNodes() const;
  void BeginRun(std::unique_ptr<InferenceRequest> request, SequenceQueue::Entry& entry) override;
  void Begin(std::unique_ptr<InferenceRequest> request, SequenceQueue::Entry* entry);
  void Remove(const InferenceRequest* key);

  Servable& servable_;
  const std::shared_ptr<const DagPlan> plan_;   // shared with the sessions
  const std::shared_ptr<SequenceQueue> queue_;  // shared with the sessions, and what comes after the servable
  const std::unique_ptr<Memory> memory_;

  // The sessions that run now, so that a stop can end them.
  std::mutex mutex_;
  std::unordered_map<const InferenceRequest*, std::weak_ptr<Session>> sessions_;  // guarded by mutex_
};

}  // namespace braid
