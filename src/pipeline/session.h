// Session: one request on its way through a DAG.
//
// A node runs as soon as its inputs are there, branches beside each other. Tensors go on by their handles; a
// tensor's last taker gets the session's own share in it. Where a node answers many times, each answer is a
// flow of its own through what lies behind the node (see dag.h), and the responses leave in the order of
// those answers. A demultiplexer's answer is split into shards, each of which is a flow too, and what their
// flows make is stacked where the DAG gathers it.
//
// A session has no thread: it goes on wherever an answer arrives. Whatever it does (runs, responses, the end)
// is done by one thread at a time, in the order in which it was decided, without its lock; others leave their
// decisions to that thread. So steps may answer while they are begun, and a chain of a thousand of them needs
// no more stack than one.
//
// It ends once: with the last response, with the first error, or with a cancellation. What still runs then is
// cancelled, and its answers are dropped; the session's memory goes with the last of them.
//
//   session.cc          the begin, the end, answers, and doing what was decided
//   session_flows.cc    flows and the tensors in them; which node runs next
//   session_shards.cc   scatter and gather
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/guard.h"
#include "base/mutex.h"
#include "base/serial_delivery.h"
#include "base/status.h"
#include "pipeline/dag_plan.h"
#include "pipeline/session_client.h"
#include "pipeline/shards.h"
#include "serving/cancellation.h"
#include "serving/compensation.h"
#include "serving/request.h"
#include "serving/servable.h"
#include "tensor/tensor.h"

namespace braid {

inline constexpr std::string_view kDeadlockText =
    "unexpected deadlock, at least one output is not set while no more ensemble steps can be made";

// What a session holds of a step, so that it sees one state of it from beginning to end.
struct EnteredStep {
  std::unique_ptr<ServableHandle> servable;  // null for code
  std::optional<size_t> part = {};           // of the request's sequence
};

class Session final : public std::enable_shared_from_this<Session> {
 public:
  // Answers of nodes that answer many times, and shards, whose flows have not ended; the session ends with
  // UNAVAILABLE when there are more.
  static constexpr size_t kMostFlows = 65536;

  // `steps` are those of the plan. `compensation` hears what the steps that have the request's
  // sequence do; null where none has. `wanted` are indexes among the outputs of the DAG.
  Session(std::shared_ptr<const DagPlan> plan, std::vector<EnteredStep> steps,
          std::shared_ptr<Compensation> compensation, std::vector<uint32_t> wanted);

  // Begins; the session may have ended when this returns. Inputs that the DAG does not know are dropped.
  // Called once. Errors that the session itself finds: UNAVAILABLE for too many flows, CANCELLED, INTERNAL
  // for a node that answers twice without being made for it, INTERNAL with kDeadlockText when an output
  // cannot be made, and those of shards.h.
  void Start(std::vector<Tensor> inputs, std::unique_ptr<SessionClient> client);

  // Cancels what runs. The session ends as soon as one of its steps says something; a client that is gone
  // waits for nothing. Any thread; may be called while the lock of a Cancellation is held.
  void Cancel();
  // Ends the session now, unless it has ended. Any thread, without locks.
  void Abort(Status status);

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

  // What a step answers: the tensors under the names by which it knows its outputs (others are dropped),
  // nothing when the run only ends, or an error, which ends the session.
  using Outputs = Result<std::optional<std::vector<Tensor>>>;
  using Cancellations = std::list<std::shared_ptr<Cancellation>>;

  // One thing to do, decided under mutex_ and done without it.
  struct Action {
    enum class Kind : unsigned char { kRun, kGather, kRespond, kFail };
    Kind kind = Kind::kRun;
    uint32_t node = Dag::kNone;
    uint32_t gather = 0;
    Flow* flow = nullptr;  // to which the gathered tensor goes; of use while the session has not ended
    Shards shards = {};
    std::unique_ptr<Run> run = {};
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

  // Answers.
  void OnAnswer(Run& run, Outputs& outputs, bool final);
  void TakeAnswerLocked(Run& run, std::vector<Tensor>& outputs) BRAID_REQUIRES(mutex_);
  void EndRunLocked(Run& run) BRAID_REQUIRES(mutex_);

  // Scatter and gather.
  void SetInputsLocked(Flow& root, std::vector<Tensor>& inputs) BRAID_REQUIRES(mutex_);
  void ScatterLocked(Flow& flow, uint32_t scope, const std::string& who, int32_t demultiply,
                     std::vector<Tensor>& tensors, const std::vector<Dag::Port>& ports)
      BRAID_REQUIRES(mutex_);
  void FailMissingLocked(uint32_t node, const std::string& output) BRAID_REQUIRES(mutex_);
  void CollectLocked(Flow& inner, uint32_t gather, Shards shards) BRAID_REQUIRES(mutex_);
  bool OfUse(const Dag::Gather& gather) const;
  std::string GatherName(const Dag::Gather& gather) const;

  // Flows and their tensors.
  void OpenLocked(Flow& flow, Flow* parent, uint32_t scope) BRAID_REQUIRES(mutex_);
  void SetLocked(Flow& flow, uint32_t tensor, std::optional<Tensor> value) BRAID_REQUIRES(mutex_);
  void TellLocked(Flow& flow, uint32_t node, const Dag::Tensor& tensor, bool absent) BRAID_REQUIRES(mutex_);
  void SetOutputsLocked(Flow& flow, uint32_t node, std::vector<Tensor>& outputs) BRAID_REQUIRES(mutex_);
  Slot& SlotOf(Flow& flow, uint32_t tensor) const;
  Tensor TakeLocked(Flow& flow, uint32_t tensor, const std::string& name) BRAID_REQUIRES(mutex_);
  // That an output cannot be made, and which step is the first that has left one out.
  Status DeadlockLocked() const BRAID_REQUIRES(mutex_);
  // One thing less that keeps the flow open.
  void ReleaseLocked(Flow& flow) BRAID_REQUIRES(mutex_);

  // Which node runs next, and what leaves.
  void AdvanceLocked() BRAID_REQUIRES(mutex_);
  void LaunchLocked(Flow& flow, uint32_t node) BRAID_REQUIRES(mutex_);
  void SkipLocked(Flow& flow, uint32_t node) BRAID_REQUIRES(mutex_);
  void EndNodeLocked(Flow& flow, uint32_t node) BRAID_REQUIRES(mutex_);
  void RespondLocked(Flow& flow) BRAID_REQUIRES(mutex_);
  void FlushLocked() BRAID_REQUIRES(mutex_);
  void FailLocked(Status status, uint32_t node = Dag::kNone) BRAID_REQUIRES(mutex_);

  // Doing what was decided.
  void Perform();
  void Do(Action& action);
  void Begin(std::unique_ptr<Run> run);
  void DoGather(Action& action);
  // Memory for inputs that the step reads without a further copy.
  BufferAllocator& MemoryOf(uint32_t node);
  // Which outputs of a node may stay on a GPU: those that nobody takes but nodes that can take them there.
  std::vector<std::string> DeviceOutputs(uint32_t node) const;

  const Dag& dag() const { return *plan_->dag; }
  // Whether responses wait for what happens in flows of this scope.
  bool Responds(uint32_t scope) const { return dag().Within(response_scope_, scope); }
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
      if (dag().Within(scope, inner.scope)) ForEachFlow(inner, scope, f);
    }
  }

  // Constant.
  const std::shared_ptr<const DagPlan> plan_;         // shared with the servable and its other sessions
  const std::shared_ptr<Compensation> compensation_;  // shared with the client
  const std::vector<uint32_t> wanted_;
  uint32_t response_scope_ = Dag::kRoot;  // the deepest of a wanted output

  // Of the thread that performs; what they hold is gone when the session has ended.
  std::vector<EnteredStep> steps_;
  std::unique_ptr<SessionClient> client_;
  HeapAllocator heap_;

  // Held for a few steps of bookkeeping, never across a call to a step, a client or a Cancellation, nor while
  // tensors go.
  Mutex mutex_;
  std::list<Flow> root_ BRAID_GUARDED_BY(mutex_);  // one flow, until it has ended
  size_t flows_ BRAID_GUARDED_BY(mutex_) = 0;
  std::vector<Limit> limits_ BRAID_GUARDED_BY(mutex_);
  std::list<Outgoing> outgoing_ BRAID_GUARDED_BY(mutex_);
  std::deque<Ready> ready_ BRAID_GUARDED_BY(mutex_);
  std::deque<Action> actions_ BRAID_GUARDED_BY(mutex_);
  SerialDelivery delivery_ BRAID_GUARDED_BY(mutex_);  // of actions
  bool cancelled_ BRAID_GUARDED_BY(mutex_) = false;
  bool ended_ BRAID_GUARDED_BY(mutex_) = false;  // the end is among the actions, or done
  Cancellations running_ BRAID_GUARDED_BY(mutex_);
  std::string missing_ BRAID_GUARDED_BY(mutex_);  // the first output that a step has left out; empty: none
  Garbage garbage_ BRAID_GUARDED_BY(mutex_);
};

// The run of a node: the sink of the request to its servable, or what its code answers to. It holds the
// session, which it outlives by nothing.
class Session::Run final : public ResponseSink {
 public:
  Run(std::shared_ptr<Session> session, Flow& flow, uint32_t node)
      : flow(&flow), node(node), session_(std::move(session)) {}

  // A step that an exception has taken it from answers with that.
  ~Run() override {
    if (!answered_) (void)Guarded([this] { Answer(UnwindingStatus(), true); });
  }

  void Respond(std::optional<InferenceResponse> response, bool final) override {
    const std::unique_ptr<Run> self(final ? this : nullptr);
    if (!response) {
      Answer(std::optional<std::vector<Tensor>>(), final);
    } else if (!response->status.ok()) {
      Answer(response->status, final);
    } else {
      Answer(std::optional(std::move(response->outputs)), final);
    }
  }

  // One after the other, nothing after the final one. Any thread, also one that begins the step; does not
  // block.
  void Answer(Outputs outputs, bool final) {
    answered_ = answered_ || final;
    failed_ = failed_ || !outputs.ok();
    // Before what comes next, which may run within this call.
    if (final) NoteEnd();
    if (part) {
      if (status_.ok()) status_ = outputs.status();
      // First of all: the answer may end the request.
      if (final) session_->compensation_->Answered(*part, status_);
    }
    session_->OnAnswer(*this, outputs, final);
  }

  // The node is counted from here on, until it has answered for good.
  void NoteStart() {
    start_ns_ = SteadyNowNs();
    session_->plan_->structure->NodeStarted(session_->dag(), node, inputs);
  }
  int64_t start_ns() const { return start_ns_; }

  // Of use only while the session has not ended.
  Flow* const flow;
  const uint32_t node;
  Cancellations::iterator running;

  // Under the names by which the step knows its inputs.
  std::vector<Tensor> inputs;
  std::shared_ptr<Cancellation> cancellation;  // shared with the session, which marks it
  std::optional<size_t> part;                  // set when a step that is one has been asked

 private:
  // What fails since the session gave it up is no failure of the node's.
  void NoteEnd() {
    if (start_ns_ == 0) return;
    session_->plan_->structure->NodeEnded(node, failed_ && !cancellation->cancelled(),
                                          SteadyNowNs() - start_ns_);
  }

  const std::shared_ptr<Session> session_;  // shared by all runs; any of them may be the last
  int64_t start_ns_ = 0;                    // 0: it has not started
  bool answered_ = false;                   // for good
  bool failed_ = false;                     // one of its answers was an error
  Status status_;                           // the first error
};

}  // namespace braid
