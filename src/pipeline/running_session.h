// How a session works inside: its state, in one place, for the files that share the work.
//
//   session.cc          the begin, the end, answers, and doing what was decided
//   session_flows.cc    flows and the tensors in them; which node runs next
//   session_shards.cc   scatter and gather
#pragma once

#include <algorithm>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/guard.h"
#include "pipeline/session.h"
#include "pipeline/shards.h"

namespace braid {

class RunningSession final : public Session {
 public:
  RunningSession(std::shared_ptr<const Dag> dag, std::vector<std::unique_ptr<NodeSession>> nodes,
                 std::vector<uint32_t> wanted, const SessionOptions& options)
      : dag_(std::move(dag)),
        wanted_(std::move(wanted)),
        options_(options),
        nodes_(std::move(nodes)),
        limits_(options.max_runs_per_node > 0 ? dag_->nodes().size() : 0) {
    for (uint32_t output : wanted_) {
      const uint32_t scope = dag_->tensors()[dag_->outputs()[output]].scope;
      if (dag_->Within(scope, response_scope_)) response_scope_ = scope;
    }
  }

  void Start(std::vector<Tensor> inputs, std::unique_ptr<SessionClient> client) override;
  void Cancel() override;
  void Abort(Status status) override;

 private:
  class Run;

  enum class SlotState : unsigned char { kUnknown, kSet, kAbsent };

  // A tensor in a flow.
  struct Slot {
    SlotState state = SlotState::kUnknown;
    uint32_t takers = 0;  // of its own scope that have not taken it yet
    Tensor tensor;
  };

  // What waits between an answer and the response that comes of it; in the order in which responses leave.
  struct Outgoing {
    std::optional<std::vector<Tensor>> outputs;
    // Nothing more is put in front of this.
    bool complete = false;
  };

  // What a flow collects of the flows within it.
  struct Collected {
    std::vector<Shards> parts;  // by number of the flow
    uint32_t missing = 0;
  };

  // One flow: a scope at work for one answer of its opener, or for one shard of it; the root's for the
  // request itself.
  struct Flow {
    Flow* parent = nullptr;
    std::list<Flow>::iterator self;  // in parent->flows; unset for the root
    uint32_t scope = Dag::kRoot;
    uint32_t number = 0;               // of the shard
    std::vector<Collected> collected;  // by index of the collection
    std::vector<Slot> slots;           // by slot of the tensor
    std::vector<uint32_t> missing;     // inputs that are unknown yet, by index of the node
    std::vector<bool> blocked;         // a node that lacks an input which it needs
    std::vector<bool> answered;        // a node that has answered its run
    uint32_t open = 0;                 // nodes that have not ended, flows within, and the response
    uint32_t missing_outputs = 0;      // in the flows that respond
    std::list<Outgoing>::iterator at;  // where its responses leave; set in the scopes around the response's
    std::list<Flow> flows;             // within; in the order of the answers
  };

  using Cancellations = std::list<std::shared_ptr<Cancellation>>;

  // One thing to do, decided under mutex_ and done without it.
  struct Action {
    enum class Kind : unsigned char { kRun, kGather, kRespond, kFail };
    Kind kind = Kind::kRun;
    uint32_t node = Dag::kNone;
    uint32_t gather = 0;
    Flow* flow = nullptr;  // to which the gathered tensor goes; of use while the session has not ended
    Shards shards = {};
    std::unique_ptr<NodeRun> run = {};
    std::optional<std::vector<Tensor>> outputs = {};
    bool final = false;
    Status status = {};
    Cancellations cancelled = {};
  };
  // What holds tensors and is of no more use; goes without the lock. Lists, which need no memory to be empty.
  struct Garbage {
    std::list<Flow> flows;
    std::list<Action> actions;
  };
  struct Ready {
    Flow* flow;
    uint32_t node;
  };
  // What max_runs_per_node needs of a node.
  struct Limit {
    uint32_t running = 0;
    std::deque<Flow*> waiting;
  };

  void SetInputsLocked(Flow& root, std::vector<Tensor>& inputs);
  void OnAnswer(Run& run, Result<std::optional<std::vector<Tensor>>>& outputs, bool final);
  void TakeAnswerLocked(Run& run, std::vector<Tensor>& outputs);
  void EndRunLocked(Run& run);

  void ScatterLocked(Flow& flow, uint32_t scope, const std::string& who, int32_t demultiply,
                     std::vector<Tensor>& tensors, const std::vector<Dag::Port>& ports);
  void FailMissingLocked(uint32_t node, const std::string& output);
  void CollectLocked(Flow& inner, uint32_t gather, Shards shards);
  bool OfUse(const Dag::Gather& gather) const;
  std::string GatherName(const Dag::Gather& gather) const;
  void OpenLocked(Flow& flow, Flow* parent, uint32_t scope);
  void SetLocked(Flow& flow, uint32_t tensor, std::optional<Tensor> value);
  void TellLocked(Flow& flow, uint32_t node, const Dag::Tensor& tensor, bool absent);
  void SetOutputsLocked(Flow& flow, uint32_t node, std::vector<Tensor>& outputs);
  void SetNoOutputsLocked(Flow& flow, uint32_t node) {
    std::vector<Tensor> none;
    SetOutputsLocked(flow, node, none);
  }
  Slot& SlotOf(Flow& flow, uint32_t tensor) const;
  Tensor TakeLocked(Flow& flow, uint32_t tensor, const std::string& name);

  void AdvanceLocked();
  void StartLocked(Flow& flow, uint32_t node);
  void LaunchLocked(Flow& flow, uint32_t node);
  void SkipLocked(Flow& flow, uint32_t node);
  void EndNodeLocked(Flow& flow, uint32_t node);
  // One thing less that keeps the flow open.
  void ReleaseLocked(Flow& flow);
  void RespondLocked(Flow& flow);
  void FlushLocked();
  void FailLocked(Status status, uint32_t node = Dag::kNone);

  void Perform();
  void Do(Action& action);
  void DoGather(Action& action);
  // Whether responses wait for what happens in flows of this scope.
  bool Responds(uint32_t scope) const { return dag_->Within(response_scope_, scope); }
  // Whether flows within the one that has a tensor may ask for it at any time.
  bool Kept(uint32_t tensor) const;

  // Calls `f` for the flows of `scope` within `flow`, in order; `flow` itself when it is of that scope.
  template <class F>
  void ForEachFlow(Flow& flow, uint32_t scope, const F& f) {
    if (flow.scope == scope) {
      f(flow);
      return;
    }
    for (auto it = flow.flows.begin(); it != flow.flows.end();) {
      Flow& inner = *it++;  // which may end in the call
      if (dag_->Within(scope, inner.scope)) ForEachFlow(inner, scope, f);
    }
  }

  // Constant.
  const std::shared_ptr<const Dag> dag_;  // shared with the DAG's other sessions
  const std::vector<uint32_t> wanted_;
  const SessionOptions options_;
  uint32_t response_scope_ = Dag::kRoot;  // the deepest of a wanted output

  // Of the thread that performs; both gone when the session has ended.
  std::vector<std::unique_ptr<NodeSession>> nodes_;
  std::unique_ptr<SessionClient> client_;

  // Held for a few steps of bookkeeping, never across a call to a node, a client or a Cancellation, nor while
  // tensors go.
  std::mutex mutex_;
  // All guarded by mutex_.
  std::list<Flow> root_;  // one flow, until it has ended
  size_t flows_ = 0;
  std::vector<Limit> limits_;
  std::list<Outgoing> outgoing_;
  std::deque<Ready> ready_;
  std::deque<Action> actions_;
  bool performing_ = false;
  bool cancelled_ = false;
  bool ended_ = false;  // the end is among the actions, or done
  Cancellations running_;
  Garbage garbage_;
};

// Belongs to whoever runs the node. It holds the session, which it outlives by nothing.
class RunningSession::Run final : public NodeRun {
 public:
  Run(std::shared_ptr<RunningSession> session, Flow& flow, uint32_t node)
      : flow(&flow), node(node), session_(std::move(session)) {}

  // A node that an exception has taken out of it answers with that.
  ~Run() override {
    if (!answered_) (void)Guarded([this] { Answer(UnwindingStatus(), true); });
  }

  void Answer(Result<std::optional<std::vector<Tensor>>> outputs, bool final) override {
    answered_ = answered_ || final;
    session_->OnAnswer(*this, outputs, final);
  }

  // Of use only while the session has not ended.
  Flow* const flow;
  const uint32_t node;
  Cancellations::iterator running;

 private:
  const std::shared_ptr<RunningSession> session_;  // shared by all runs; any of them may be the last
  bool answered_ = false;                          // for good
};

}  // namespace braid
