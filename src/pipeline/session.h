// Session: one request on its way through a DAG.
//
// A node runs as soon as its inputs are there; branches run concurrently. Tensors are passed on as handles; a
// tensor's last consumer gets the session's own reference. When a node answers many times, each answer is a
// separate flow through the nodes after it (see dag.h). The responses leave in the order of those answers. A
// demultiplexer's answer is split into shards, each of which is a flow, too. The DAG's gathers stack the
// results of these flows.
//
// A session has no thread: it continues wherever an answer arrives. One thread at a time performs its actions
// (runs, responses, the end), in the order of the decisions and without the lock. Other threads leave their
// decisions to that thread. So a step may answer while it is being started, and a chain of a thousand such
// steps needs no more stack than one.
//
// It ends once: with the last response, with the first error, or with a cancellation. The end cancels pending
// runs and drops their answers; the last of them destroys the session.
//
//   session.cc          the begin, the end, answers, and performing actions
//   session_flows.cc    flows and their tensors; which node runs next
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

// A session's hold on a step, so that it uses one version of it from beginning to end.
struct EnteredStep {
  std::unique_ptr<ServableHandle> servable;  // null for code
  std::optional<size_t> part = {};           // its number in the Compensation
};

class Session final : public std::enable_shared_from_this<Session> {
 public:
  // Maximum number of open flows: answers of nodes that answer many times, and shards. The session ends
  // with UNAVAILABLE when there are more.
  static constexpr size_t kMostFlows = 65536;

  // `steps` are those of the plan. `compensation` records the effects of the steps that have the request's
  // sequence; null if there are none. `wanted` are indexes of the DAG's outputs.
  Session(std::shared_ptr<const DagPlan> plan, std::vector<EnteredStep> steps,
          std::shared_ptr<Compensation> compensation, std::vector<uint32_t> wanted);

  // Begins; the session may have ended when this returns. Called once. Inputs that the DAG does not know are
  // dropped. Errors of the session itself: UNAVAILABLE for too many flows, CANCELLED, and those of shards.h.
  // INTERNAL for a second answer of a node that answers once, and with kDeadlockText when an output cannot be
  // made.
  void Start(std::vector<Tensor> inputs, std::unique_ptr<SessionClient> client);

  // Cancels pending runs. The session ends with the next answer of a step; a client that is gone waits for
  // nothing. Any thread; may be called while the lock of a Cancellation is held.
  void Cancel();
  // Ends the session now, unless it has ended. Any thread; no lock is held.
  void Abort(Status status);

 private:
  class Run;

  enum class SlotState : unsigned char { kUnknown, kSet, kAbsent };

  // A tensor in a flow.
  struct Slot {
    SlotState state = SlotState::kUnknown;
    uint32_t takers = 0;  // in its scope, that have not taken it yet
    Tensor tensor;
  };

  // A pending response; the list is in the order in which responses leave.
  struct Outgoing {
    std::optional<std::vector<Tensor>> outputs;
    // No other response is inserted before this one.
    bool complete = false;
  };

  // The shards that a flow collects from its inner flows.
  struct Collected {
    std::vector<Shards> parts;  // by number of the flow
    uint32_t missing = 0;
  };

  // One flow: the run of a scope for one answer of its opener or for one shard of it. The root flow is the
  // run for the request itself.
  struct Flow {
    Flow* parent = nullptr;
    std::list<Flow>::iterator self;  // in parent->flows; unset for the root
    uint32_t scope = Dag::kRoot;
    uint32_t number = 0;               // of the shard
    std::vector<Collected> collected;  // by index of the collection
    std::vector<Slot> slots;           // by slot of the tensor
    std::vector<uint32_t> missing;     // unknown inputs, by index of the node
    std::vector<bool> blocked;         // whether the node lacks a required input
    std::vector<bool> answered;
    uint32_t open = 0;                 // open nodes and inner flows, and the response
    uint32_t missing_outputs = 0;      // in the flows that respond
    std::list<Outgoing>::iterator at;  // where its responses leave, in scopes around the response
    std::list<Flow> flows;             // in the order of the answers
  };

  // A step's answer: its outputs, nothing when the run only ends, or an error, which ends the session. The
  // outputs have the step's names; those that the DAG does not know are dropped.
  using Outputs = Result<std::optional<std::vector<Tensor>>>;
  using Cancellations = std::list<std::shared_ptr<Cancellation>>;

  // One action, decided under mutex_ and performed without it.
  struct Action {
    enum class Kind : unsigned char { kRun, kGather, kRespond, kFail };
    Kind kind = Kind::kRun;
    uint32_t node = Dag::kNone;
    uint32_t gather = 0;
    Flow* flow = nullptr;  // the destination of a gathered tensor; valid until the session has ended
    Shards shards = {};
    std::unique_ptr<Run> run = {};
    std::optional<std::vector<Tensor>> outputs = {};
    bool final = false;
    Status status = {};
    Cancellations cancelled = {};
  };
  // Unused objects that hold tensors; destroyed without the lock. Lists, since an empty list needs no memory.
  struct Garbage {
    std::list<Flow> flows;
    std::list<Action> actions;
  };
  struct Ready {
    Flow* flow;
    uint32_t node;
  };
  // The runs of a node that has max_runs_per_node.
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
  // Returns the error that an output cannot be made. It names the first output that a step has left out.
  Status DeadlockLocked() const BRAID_REQUIRES(mutex_);
  // Removes one reason for which the flow is open; the last one ends the flow.
  void ReleaseLocked(Flow& flow) BRAID_REQUIRES(mutex_);

  // Choosing the next node and the next response.
  void AdvanceLocked() BRAID_REQUIRES(mutex_);
  void LaunchLocked(Flow& flow, uint32_t node) BRAID_REQUIRES(mutex_);
  void SkipLocked(Flow& flow, uint32_t node) BRAID_REQUIRES(mutex_);
  void EndNodeLocked(Flow& flow, uint32_t node) BRAID_REQUIRES(mutex_);
  void RespondLocked(Flow& flow) BRAID_REQUIRES(mutex_);
  void FlushLocked() BRAID_REQUIRES(mutex_);
  void FailLocked(Status status, uint32_t node = Dag::kNone) BRAID_REQUIRES(mutex_);

  // Performing actions.
  void Perform();
  void Do(Action& action);
  void Begin(std::unique_ptr<Run> run);
  void DoGather(Action& action);
  // Returns an allocator for inputs that the step reads without a further copy.
  BufferAllocator& MemoryOf(uint32_t node);
  // Returns the outputs of a node that may stay on a GPU: those that all their consumers take there.
  std::vector<std::string> DeviceOutputs(uint32_t node) const;

  const Dag& dag() const { return *plan_->dag; }
  // Returns whether responses wait for flows of this scope.
  bool Responds(uint32_t scope) const { return dag().Within(response_scope_, scope); }
  // Returns whether inner flows may ask for a tensor at any time.
  bool Kept(uint32_t tensor) const;

  // Calls `f` for the flows of `scope` within `flow`, in order; for `flow` itself if it is of that scope.
  template <class F>
  void ForEachFlow(Flow& flow, uint32_t scope, const F& f) {
    if (flow.scope == scope) {
      f(flow);
      return;
    }
    for (auto it = flow.flows.begin(); it != flow.flows.end();) {
      Flow& inner = *it++;  // `f` may end it
      if (dag().Within(scope, inner.scope)) ForEachFlow(inner, scope, f);
    }
  }

  // Constant.
  const std::shared_ptr<const DagPlan> plan_;         // shared with the servable and its other sessions
  const std::shared_ptr<Compensation> compensation_;  // shared with the client
  const std::vector<uint32_t> wanted_;
  uint32_t response_scope_ = Dag::kRoot;  // the deepest of a wanted output

  // Used by the thread that performs; emptied when the session ends.
  std::vector<EnteredStep> steps_;
  std::unique_ptr<SessionClient> client_;
  HeapAllocator heap_;

  // Held for short updates of the state only. Never held while a step, a client or a Cancellation is called,
  // or while tensors are destroyed.
  Mutex mutex_;
  std::list<Flow> root_ BRAID_GUARDED_BY(mutex_);  // one flow, until it has ended
  size_t flows_ BRAID_GUARDED_BY(mutex_) = 0;
  std::vector<Limit> limits_ BRAID_GUARDED_BY(mutex_);
  std::list<Outgoing> outgoing_ BRAID_GUARDED_BY(mutex_);
  std::deque<Ready> ready_ BRAID_GUARDED_BY(mutex_);
  std::deque<Action> actions_ BRAID_GUARDED_BY(mutex_);
  SerialDelivery delivery_ BRAID_GUARDED_BY(mutex_);  // of actions
  bool cancelled_ BRAID_GUARDED_BY(mutex_) = false;
  bool ended_ BRAID_GUARDED_BY(mutex_) = false;  // the end is queued or done
  Cancellations running_ BRAID_GUARDED_BY(mutex_);
  std::string missing_ BRAID_GUARDED_BY(mutex_);  // the first output that a step has left out; empty: none
  Garbage garbage_ BRAID_GUARDED_BY(mutex_);
};

// The run of a node: the response sink of its servable's request or of its code. It keeps the session alive.
class Session::Run final : public ResponseSink {
 public:
  Run(std::shared_ptr<Session> session, Flow& flow, uint32_t node)
      : flow(&flow), node(node), session_(std::move(session)) {}

  // An exception that drops the request destroys the run; it then answers with an error.
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

  // Delivers an answer. Answers come one at a time, and none comes after the final one. Any thread, also the
  // thread that begins the step; does not block.
  void Answer(Outputs outputs, bool final) {
    answered_ = answered_ || final;
    failed_ = failed_ || !outputs.ok();
    // Before the next node, which may run within this call.
    if (final) NoteEnd();
    if (part) {
      if (status_.ok()) status_ = outputs.status();
      // Before OnAnswer(), since the answer may end the request.
      if (final) session_->compensation_->Answered(*part, status_);
    }
    session_->OnAnswer(*this, outputs, final);
  }

  // Counts the node as running until its final answer.
  void NoteStart() {
    start_ns_ = SteadyNowNs();
    session_->plan_->structure->NodeStarted(session_->dag(), node, inputs);
  }
  int64_t start_ns() const { return start_ns_; }

  // Valid until the session has ended.
  Flow* const flow;
  const uint32_t node;
  Cancellations::iterator running;

  // Under the step's names for its inputs.
  std::vector<Tensor> inputs;
  std::shared_ptr<Cancellation> cancellation;  // shared with the session, which marks it
  std::optional<size_t> part;                  // the step's number in the Compensation, once it was asked

 private:
  // A failure after the session's end is not the node's failure.
  void NoteEnd() {
    if (start_ns_ == 0) return;
    session_->plan_->structure->NodeEnded(node, failed_ && !cancellation->cancelled(),
                                          SteadyNowNs() - start_ns_);
  }

  const std::shared_ptr<Session> session_;  // shared by all runs; any of them may be the last
  int64_t start_ns_ = 0;                    // 0: not started
  bool answered_ = false;                   // the final answer has come
  bool failed_ = false;                     // one of its answers was an error
  Status status_;                           // the first error
};

}  // namespace braid
