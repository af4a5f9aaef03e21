#include "pipeline/session.h"

#include <algorithm>
#include <deque>
#include <list>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "pipeline/pieces.h"

namespace braid {
namespace {

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
  std::vector<Pieces> parts;  // by number of the flow
  uint32_t missing = 0;
};

// One flow: a scope at work for one answer of its opener, or for one piece of it; the root's for the request
// itself.
struct Flow {
  Flow* parent = nullptr;
  std::list<Flow>::iterator self;  // in parent->flows; unset for the root
  uint32_t scope = Graph::kRoot;
  uint32_t number = 0;               // of the piece
  std::vector<Collected> collected;  // by place of the collection
  std::vector<Slot> slots;           // by place of the tensor
  std::vector<uint32_t> missing;     // inputs that are unknown yet, by place of the node
  std::vector<bool> blocked;         // a node that lacks an input which it needs
  std::vector<bool> answered;        // a node that has answered its run
  uint32_t open = 0;                 // nodes that have not ended, flows within, and the response
  uint32_t missing_outputs = 0;      // in the flows that respond
  std::list<Outgoing>::iterator at;  // where its responses leave; set in the scopes around the response's
  std::list<Flow> flows;             // within; in the order of the answers
};

class RunningSession final : public Session {
 public:
  RunningSession(std::shared_ptr<const Graph> graph, std::vector<std::unique_ptr<NodeSession>> nodes,
                 std::vector<uint32_t> wanted, const SessionOptions& options)
      : graph_(std::move(graph)),
        wanted_(std::move(wanted)),
        options_(options),
        nodes_(std::move(nodes)),
        limits_(options.max_runs_per_node > 0 ? graph_->nodes().size() : 0) {
    for (uint32_t output : wanted_) {
      const uint32_t scope = graph_->tensors()[graph_->outputs()[output]].scope;
      if (graph_->Within(scope, response_scope_)) response_scope_ = scope;
    }
  }

  void Start(std::vector<Tensor> inputs, std::unique_ptr<SessionClient> client) override;
  void Cancel() override;
  void Abort(Status status) override;

 private:
  class Run;
  using Cancellations = std::list<std::shared_ptr<Cancellation>>;

  // One thing to do, decided under mutex_ and done without it.
  struct Action {
    enum class Kind : unsigned char { kRun, kGather, kRespond, kFail };
    Kind kind = Kind::kRun;
    uint32_t node = Graph::kNone;
    uint32_t gather = 0;
    Flow* flow = nullptr;  // to which the gathered tensor goes; of use while the session has not ended
    Pieces pieces = {};
    std::unique_ptr<NodeRun> run = {};
    std::optional<std::vector<Tensor>> outputs = {};
    bool final = false;
    Status status = {};
    Cancellations cancelled = {};
  };
  // What holds tensors and is of no more use; goes without the lock.
  struct Garbage {
    std::list<Flow> flows;
    std::deque<Action> actions;
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

  void CutLocked(Flow& flow, uint32_t scope, const std::string& who, int32_t demultiply,
                 std::vector<Tensor>& tensors, const std::vector<Graph::Port>& ports);
  void FailMissingLocked(uint32_t node, const std::string& output);
  void CollectLocked(Flow& inner, uint32_t gather, Pieces pieces);
  bool OfUse(const Graph::Gather& gather) const;
  std::string GatherName(const Graph::Gather& gather) const;
  void OpenLocked(Flow& flow, Flow* parent, uint32_t scope);
  void SetLocked(Flow& flow, uint32_t tensor, std::optional<Tensor> value);
  void TellLocked(Flow& flow, uint32_t node, const Graph::Tensor& tensor, bool absent);
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
  void FailLocked(Status status, uint32_t node = Graph::kNone);

  void Perform();
  void Do(Action& action);
  void DoGather(Action& action);
  // Whether responses wait for what happens in flows of this scope.
  bool Responds(uint32_t scope) const { return graph_->Within(response_scope_, scope); }
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
      if (graph_->Within(scope, inner.scope)) ForEachFlow(inner, scope, f);
    }
  }

  // Constant.
  const std::shared_ptr<const Graph> graph_;  // shared with the graph's other sessions
  const std::vector<uint32_t> wanted_;
  const SessionOptions options_;
  uint32_t response_scope_ = Graph::kRoot;  // the deepest of a wanted output

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

  void Answer(Result<std::optional<std::vector<Tensor>>> outputs, bool final) override {
    session_->OnAnswer(*this, outputs, final);
  }

  // Of use only while the session has not ended.
  Flow* const flow;
  const uint32_t node;
  Cancellations::iterator running;

 private:
  const std::shared_ptr<RunningSession> session_;  // shared by all runs; any of them may be the last
};

// ---- begin and end ----

void RunningSession::Start(std::vector<Tensor> inputs, std::unique_ptr<SessionClient> client) {
  client_ = std::move(client);
  {
    std::lock_guard lock(mutex_);
    root_.emplace_back();
    Flow& root = root_.back();
    outgoing_.emplace_back();
    root.at = outgoing_.begin();
    OpenLocked(root, nullptr, Graph::kRoot);
    SetInputsLocked(root, inputs);
    ReleaseLocked(root);
    if (!ended_) AdvanceLocked();
  }
  Perform();
}

void RunningSession::SetInputsLocked(Flow& root, std::vector<Tensor>& inputs) {
  if (graph_->demultiply() == Graph::kWhole) {
    for (uint32_t tensor : graph_->inputs()) {
      const std::string& name = graph_->tensors()[tensor].name;
      auto given =
          std::find_if(inputs.begin(), inputs.end(), [&](const Tensor& t) { return t.name == name; });
      SetLocked(root, tensor, given == inputs.end() ? std::nullopt : std::optional(std::move(*given)));
      if (given != inputs.end()) inputs.erase(given);
    }
    return;
  }
  std::vector<Graph::Port> ports;
  for (uint32_t tensor : graph_->inputs()) {
    ports.push_back({.name = graph_->tensors()[tensor].name, .tensor = tensor});
  }
  CutLocked(root, graph_->input_scope(), "request", graph_->demultiply(), inputs, ports);
}

void RunningSession::Cancel() {
  Cancellations running;
  {
    std::lock_guard lock(mutex_);
    if (ended_) return;
    cancelled_ = true;
    running = running_;
  }
  for (const auto& cancellation : running) cancellation->Cancel();
}

void RunningSession::Abort(Status status) {
  {
    std::lock_guard lock(mutex_);
    if (ended_) return;
    if (root_.empty()) {
      cancelled_ = true;  // and ends when it starts
      return;
    }
    FailLocked(std::move(status));
  }
  Perform();
}

void RunningSession::FailLocked(Status status, uint32_t node) {
  ended_ = true;
  // What was decided to be run or made is not; responses that were ready before the fault still leave.
  std::deque<Action> actions = std::exchange(actions_, {});
  for (Action& action : actions) {
    (action.kind == Action::Kind::kRespond ? actions_ : garbage_.actions).push_back(std::move(action));
  }
  actions_.push_back({.kind = Action::Kind::kFail,
                      .node = node,
                      .status = std::move(status),
                      .cancelled = std::exchange(running_, {})});
  garbage_.flows.splice(garbage_.flows.end(), root_);
}

// ---- answers ----

void RunningSession::OnAnswer(Run& run, Result<std::optional<std::vector<Tensor>>>& outputs, bool final) {
  {
    std::lock_guard lock(mutex_);
    if (ended_) return;
    if (cancelled_) {
      FailLocked(CancelledError("Request cancelled"));
    } else if (!outputs.ok()) {
      FailLocked(outputs.status(), run.node);
    } else {
      if (outputs->has_value()) TakeAnswerLocked(run, **outputs);
      if (final && !ended_) EndRunLocked(run);
      if (!ended_) AdvanceLocked();
    }
  }
  Perform();
}

void RunningSession::TakeAnswerLocked(Run& run, std::vector<Tensor>& outputs) {
  const Graph::Node& node = graph_->nodes()[run.node];
  Flow& flow = *run.flow;
  if (!node.many) {
    if (flow.answered[node.place]) {
      FailLocked(InternalError("step " + node.name +
                               " responded more than once, which it did not do when it "
                               "was loaded"));
      return;
    }
    flow.answered[node.place] = true;
    if (node.demultiply != Graph::kWhole) {
      CutLocked(flow, node.opens, node.name, node.demultiply, outputs, node.outputs);
    } else {
      SetOutputsLocked(flow, run.node, outputs);
    }
    return;
  }
  if (flows_ >= kMostFlows) {
    FailLocked(UnavailableError("more than " + std::to_string(kMostFlows) + " responses of step " +
                                node.name + " wait for the steps after it"));
    return;
  }
  ++flows_;
  ++flow.open;
  Flow& inner = flow.flows.emplace_back();
  inner.self = std::prev(flow.flows.end());
  if (Responds(node.opens)) inner.at = outgoing_.emplace(flow.at);
  OpenLocked(inner, &flow, node.opens);
  SetOutputsLocked(inner, run.node, outputs);
  ReleaseLocked(inner);
}

void RunningSession::EndRunLocked(Run& run) {
  const Graph::Node& node = graph_->nodes()[run.node];
  Flow& flow = *run.flow;
  running_.erase(run.running);
  if (!node.many && !flow.answered[node.place]) {
    std::vector<Tensor> none;
    TakeAnswerLocked(run, none);
    if (ended_) return;
  }
  if (options_.max_runs_per_node > 0) {
    Limit& limit = limits_[run.node];
    --limit.running;
    if (!limit.waiting.empty()) {
      Flow& next = *limit.waiting.front();
      limit.waiting.pop_front();
      LaunchLocked(next, run.node);
    }
  }
  if (!ended_) EndNodeLocked(flow, run.node);
}

// ---- pieces ----

// Opens a flow of `scope` for each piece of `tensors`.
void RunningSession::CutLocked(Flow& flow, uint32_t scope, const std::string& who, int32_t demultiply,
                               std::vector<Tensor>& tensors, const std::vector<Graph::Port>& ports) {
  std::vector<const Tensor*> whole;
  whole.reserve(ports.size());
  for (const Graph::Port& port : ports) {
    auto made = std::find_if(tensors.begin(), tensors.end(),
                             [&](const Tensor& tensor) { return tensor.name == port.name; });
    if (made == tensors.end()) {
      FailMissingLocked(graph_->scopes()[scope].opener, port.name);
      return;
    }
    whole.push_back(&*made);
  }
  auto counted = CountPieces(who, whole, demultiply);
  if (!counted.ok()) {
    const uint32_t opener = graph_->scopes()[scope].opener;
    FailLocked(counted.status(), opener == Graph::kRequest ? Graph::kNone : opener);
    return;
  }
  const uint32_t count = *counted;
  if (count > kMostFlows - std::min(flows_, kMostFlows)) {
    FailLocked(UnavailableError("more than " + std::to_string(kMostFlows) + " pieces of " + who +
                                " and of demultiplexers before it wait for the nodes after them"));
    return;
  }
  const auto& collections = graph_->scopes()[flow.scope].collections;
  for (size_t i = 0; i < collections.size(); ++i) {
    if (collections[i].inner != scope) continue;
    flow.collected[i].parts.resize(count);
    flow.collected[i].missing = count;
  }
  flows_ += count;
  flow.open += count;
  for (uint32_t number = 0; number < count && !ended_; ++number) {
    Flow& inner = flow.flows.emplace_back();
    inner.self = std::prev(flow.flows.end());
    inner.number = number;
    OpenLocked(inner, &flow, scope);
    for (size_t i = 0; i < ports.size() && !ended_; ++i) {
      SetLocked(inner, ports[i].tensor, Piece(*whole[i], number, count));
    }
    ReleaseLocked(inner);
  }
}

// A demultiplexer without one of its outputs cannot go on, whatever the client thinks of it.
void RunningSession::FailMissingLocked(uint32_t node, const std::string& output) {
  Status status = node == Graph::kRequest ? OkStatus() : client_->MissingOutput(node, output);
  if (status.ok()) status = InternalError(std::string(kDeadlockText));
  FailLocked(std::move(status), node == Graph::kRequest ? Graph::kNone : node);
}

// Takes what the flow with number `number` knows; goes outwards as far as collections are complete.
void RunningSession::CollectLocked(Flow& inner, uint32_t gather, Pieces pieces) {
  const Graph::Gather& plan = graph_->gathers()[gather];
  const uint32_t to = graph_->tensors()[plan.to].scope;
  const uint32_t to_depth = graph_->scopes()[to].depth;
  for (Flow* from = &inner;; from = from->parent) {
    Flow& flow = *from->parent;
    Collected& collected = flow.collected[plan.places[graph_->scopes()[flow.scope].depth - to_depth]];
    collected.parts[from->number] = std::move(pieces);
    if (--collected.missing > 0) return;
    auto joined = Join(GatherName(plan), std::exchange(collected.parts, {}));
    if (!joined.ok()) {
      FailLocked(joined.status());
      return;
    }
    pieces = std::move(*joined);
    if (flow.scope != to) continue;
    ++flow.open;
    actions_.push_back(
        {.kind = Action::Kind::kGather, .gather = gather, .flow = &flow, .pieces = std::move(pieces)});
    return;
  }
}

bool RunningSession::OfUse(const Graph::Gather& gather) const {
  if (!graph_->tensors()[gather.to].consumers.empty()) return true;
  return std::any_of(wanted_.begin(), wanted_.end(),
                     [&](uint32_t output) { return graph_->outputs()[output] == gather.to; });
}

// "node 'a', input 'x'", or "output 'y'".
std::string RunningSession::GatherName(const Graph::Gather& gather) const {
  const auto& consumers = graph_->tensors()[gather.to].consumers;
  if (!consumers.empty()) {
    const Graph::Node& node = graph_->nodes()[consumers.front()];
    for (const Graph::Port& port : node.inputs) {
      if (port.tensor == gather.to) return node.name + ", input '" + port.name + "'";
    }
  }
  for (uint32_t output : wanted_) {
    if (graph_->outputs()[output] == gather.to) return "output '" + graph_->output_names()[output] + "'";
  }
  return graph_->tensors()[gather.from].name;
}

// ---- flows and their tensors ----

void RunningSession::OpenLocked(Flow& flow, Flow* parent, uint32_t scope) {
  const Graph::Scope& plan = graph_->scopes()[scope];
  flow.parent = parent;
  flow.scope = scope;
  flow.slots.resize(plan.tensors);
  flow.missing.resize(plan.nodes.size());
  flow.blocked.resize(plan.nodes.size());
  flow.answered.resize(plan.nodes.size());
  flow.collected.resize(plan.collections.size());
  flow.open = static_cast<uint32_t>(plan.nodes.size()) + 1;
  // Of what lies around it, it knows what is known there; the rest it will be told.
  auto look = [&](uint32_t tensor, bool optional, uint32_t& missing) {
    if (graph_->tensors()[tensor].scope == scope) {
      ++missing;
      return false;
    }
    const SlotState state = SlotOf(flow, tensor).state;
    missing += state == SlotState::kUnknown ? 1 : 0;
    return state == SlotState::kAbsent && !optional;
  };
  for (uint32_t node : plan.nodes) {
    const uint32_t place = graph_->nodes()[node].place;
    for (const Graph::Port& port : graph_->nodes()[node].inputs) {
      if (look(port.tensor, port.optional, flow.missing[place])) flow.blocked[place] = true;
    }
    if (flow.missing[place] == 0) ready_.push_back({&flow, node});
  }
  if (scope != response_scope_) return;
  ++flow.open;
  for (uint32_t output : wanted_) {
    if (look(graph_->outputs()[output], false, flow.missing_outputs)) {
      FailLocked(InternalError(std::string(kDeadlockText)));
      return;
    }
  }
  for (uint32_t output : wanted_) {
    const uint32_t tensor = graph_->outputs()[output];
    if (graph_->tensors()[tensor].scope == scope) ++SlotOf(flow, tensor).takers;
  }
}

Slot& RunningSession::SlotOf(Flow& flow, uint32_t tensor) const {
  const Graph::Tensor& plan = graph_->tensors()[tensor];
  Flow* at = &flow;
  while (at->scope != plan.scope) at = at->parent;
  return at->slots[plan.place];
}

void RunningSession::SetLocked(Flow& flow, uint32_t tensor, std::optional<Tensor> value) {
  if (ended_) return;
  const Graph::Tensor& plan = graph_->tensors()[tensor];
  Slot& slot = flow.slots[plan.place];
  BRAID_CHECK(slot.state == SlotState::kUnknown);
  slot.takers += plan.near_consumers;
  slot.state = value ? SlotState::kSet : SlotState::kAbsent;
  const bool kept = slot.takers > 0 || Kept(tensor);
  for (uint32_t gather : plan.gathers) {
    if (!OfUse(graph_->gathers()[gather])) continue;
    if (!value) {
      FailLocked(InternalError(std::string(kDeadlockText)));
      return;
    }
    Pieces piece;
    piece.tensors.push_back(*value);
    CollectLocked(flow, gather, std::move(piece));
    if (ended_) return;
  }
  if (value && kept) slot.tensor = std::move(*value);
  for (uint32_t node : plan.consumers) TellLocked(flow, node, plan, !value);
  for (uint32_t output : wanted_) {
    if (graph_->outputs()[output] != tensor || ended_) continue;
    if (!value) {
      FailLocked(InternalError(std::string(kDeadlockText)));
      return;
    }
    ForEachFlow(flow, response_scope_, [this](Flow& inner) {
      if (--inner.missing_outputs == 0) RespondLocked(inner);
    });
  }
}

void RunningSession::TellLocked(Flow& flow, uint32_t node, const Graph::Tensor& tensor, bool absent) {
  const Graph::Node& consumer = graph_->nodes()[node];
  bool needed = false;
  if (absent) {
    for (const Graph::Port& port : consumer.inputs) {
      needed = needed || (&graph_->tensors()[port.tensor] == &tensor && !port.optional);
    }
  }
  ForEachFlow(flow, consumer.scope, [&](Flow& inner) {
    if (needed) inner.blocked[consumer.place] = true;
    if (--inner.missing[consumer.place] == 0) ready_.push_back({&inner, node});
  });
}

void RunningSession::SetOutputsLocked(Flow& flow, uint32_t node, std::vector<Tensor>& outputs) {
  for (const Graph::Port& port : graph_->nodes()[node].outputs) {
    auto made = std::find_if(outputs.begin(), outputs.end(),
                             [&](const Tensor& output) { return output.name == port.name; });
    if (made == outputs.end()) {
      if (Status status = client_->MissingOutput(node, port.name); !status.ok()) {
        FailLocked(std::move(status), node);
        return;
      }
      SetLocked(flow, port.tensor, std::nullopt);
    } else {
      SetLocked(flow, port.tensor, std::move(*made));
      outputs.erase(made);
    }
    if (ended_) return;
  }
}

bool RunningSession::Kept(uint32_t tensor) const {
  const Graph::Tensor& plan = graph_->tensors()[tensor];
  if (plan.far_consumers || plan.scope == response_scope_) return plan.far_consumers;
  return std::any_of(wanted_.begin(), wanted_.end(),
                     [&](uint32_t output) { return graph_->outputs()[output] == tensor; });
}

Tensor RunningSession::TakeLocked(Flow& flow, uint32_t tensor, const std::string& name) {
  const Graph::Tensor& plan = graph_->tensors()[tensor];
  Slot& slot = SlotOf(flow, tensor);
  Tensor taken;
  if (flow.scope == plan.scope && --slot.takers == 0 && !Kept(tensor)) {
    taken = std::move(slot.tensor);
  } else {
    taken = slot.tensor;
  }
  taken.name = name;
  return taken;
}

// ---- going on ----

void RunningSession::AdvanceLocked() {
  while (!ready_.empty() && !ended_) {
    const Ready next = ready_.front();
    ready_.pop_front();
    const Graph::Node& node = graph_->nodes()[next.node];
    if (next.flow->blocked[node.place]) {
      SkipLocked(*next.flow, next.node);
    } else {
      StartLocked(*next.flow, next.node);
    }
  }
}

void RunningSession::StartLocked(Flow& flow, uint32_t node) {
  if (options_.max_runs_per_node > 0) {
    Limit& limit = limits_[node];
    if (limit.running >= options_.max_runs_per_node) {
      limit.waiting.push_back(&flow);
      return;
    }
  }
  LaunchLocked(flow, node);
}

void RunningSession::LaunchLocked(Flow& flow, uint32_t node) {
  if (options_.max_runs_per_node > 0) ++limits_[node].running;
  auto run = std::make_unique<Run>(std::static_pointer_cast<RunningSession>(shared_from_this()), flow, node);
  for (const Graph::Port& port : graph_->nodes()[node].inputs) {
    if (SlotOf(flow, port.tensor).state == SlotState::kAbsent) continue;
    run->inputs.push_back(TakeLocked(flow, port.tensor, port.name));
  }
  run->cancellation = std::make_shared<Cancellation>();
  running_.push_back(run->cancellation);
  run->running = std::prev(running_.end());
  actions_.push_back({.kind = Action::Kind::kRun, .node = node, .run = std::move(run)});
}

// A node that lacks an input makes nothing, and so do those after it.
void RunningSession::SkipLocked(Flow& flow, uint32_t node) {
  const Graph::Node& plan = graph_->nodes()[node];
  if (plan.many || plan.demultiply != Graph::kWhole) {
    if (Responds(plan.opens) || plan.demultiply != Graph::kWhole) {
      FailLocked(InternalError(std::string(kDeadlockText)));
      return;
    }
  } else {
    SetNoOutputsLocked(flow, node);
  }
  if (!ended_) EndNodeLocked(flow, node);
}

void RunningSession::EndNodeLocked(Flow& flow, uint32_t node) {
  // Responses behind this flow need wait for no more of its flows.
  const uint32_t opens = graph_->nodes()[node].opens;
  if (opens != Graph::kNone && Responds(opens)) {
    flow.at->complete = true;
    FlushLocked();
  }
  ReleaseLocked(flow);
}

void RunningSession::ReleaseLocked(Flow& flow) {
  if (ended_ || --flow.open > 0) return;
  for (Flow* at = &flow; at->parent != nullptr; at = at->parent) {
    garbage_.flows.splice(garbage_.flows.end(), at->parent->flows, at->self);
    --flows_;
    if (--at->parent->open > 0) return;
  }
  ended_ = true;
  garbage_.flows.splice(garbage_.flows.end(), root_);
  // The end goes with the last response when that has not left yet.
  if (!actions_.empty() && actions_.back().kind == Action::Kind::kRespond) {
    actions_.back().final = true;
  } else {
    actions_.push_back({.kind = Action::Kind::kRespond, .final = true});
  }
}

void RunningSession::RespondLocked(Flow& flow) {
  std::vector<Tensor> outputs;
  outputs.reserve(wanted_.size());
  for (uint32_t output : wanted_) {
    const uint32_t tensor = graph_->outputs()[output];
    outputs.push_back(TakeLocked(flow, tensor, graph_->output_names()[output]));
  }
  flow.at->outputs = std::move(outputs);
  flow.at->complete = true;
  FlushLocked();
  ReleaseLocked(flow);
}

void RunningSession::FlushLocked() {
  while (!outgoing_.empty() && outgoing_.front().complete) {
    if (outgoing_.front().outputs) {
      actions_.push_back({.kind = Action::Kind::kRespond, .outputs = std::move(outgoing_.front().outputs)});
    }
    outgoing_.pop_front();
  }
}

// ---- doing what was decided ----

void RunningSession::Perform() {
  // Keeps the session while runs, which hold it, come and go.
  const std::shared_ptr<Session> self = shared_from_this();
  Garbage garbage;
  std::unique_lock lock(mutex_);
  for (;;) {
    garbage.flows.splice(garbage.flows.end(), garbage_.flows);
    std::swap(garbage.actions, garbage_.actions);
    if (performing_ || actions_.empty()) break;
    if (cancelled_ && !ended_ && actions_.front().kind != Action::Kind::kRespond) {
      FailLocked(CancelledError("Request cancelled"));
      continue;
    }
    performing_ = true;
    Action action = std::move(actions_.front());
    actions_.pop_front();
    lock.unlock();
    Do(action);
    garbage = {};
    lock.lock();
    performing_ = false;
  }
}

void RunningSession::Do(Action& action) {
  // What the nodes hold goes before the client can hear the end, so that nobody waits for it who hears it.
  if (action.final || action.kind == Action::Kind::kFail) nodes_.clear();
  switch (action.kind) {
    case Action::Kind::kRun:
      nodes_[action.node]->Run(client_->request(), std::move(action.run));
      return;
    case Action::Kind::kGather:
      DoGather(action);
      return;
    case Action::Kind::kRespond: {
      // The client may go in the call.
      const std::unique_ptr<SessionClient> last = action.final ? std::move(client_) : nullptr;
      (last ? last : client_)->Respond(std::move(action.outputs), action.final);
      return;
    }
    case Action::Kind::kFail: {
      const std::unique_ptr<SessionClient> last = std::move(client_);
      last->Fail(std::move(action.status), action.node);
      for (const auto& cancellation : action.cancelled) cancellation->Cancel();
      return;
    }
  }
}

// Copies without the lock; meanwhile what else was decided waits.
void RunningSession::DoGather(Action& action) {
  const Graph::Gather& gather = graph_->gathers()[action.gather];
  const auto& consumers = graph_->tensors()[gather.to].consumers;
  HeapAllocator heap;
  BufferAllocator* memory = consumers.empty() ? nullptr : nodes_[consumers.front()]->input_allocator();
  auto stacked = Stack(GatherName(gather), std::move(action.pieces), memory != nullptr ? *memory : heap);
  std::lock_guard lock(mutex_);
  if (ended_) return;
  if (!stacked.ok()) {
    FailLocked(stacked.status());
    return;
  }
  SetLocked(*action.flow, gather.to, std::move(*stacked));
  ReleaseLocked(*action.flow);
  if (!ended_) AdvanceLocked();
}

}  // namespace

std::shared_ptr<Session> Session::Create(std::shared_ptr<const Graph> graph,
                                         std::vector<std::unique_ptr<NodeSession>> nodes,
                                         std::vector<uint32_t> wanted, const SessionOptions& options) {
  return std::make_shared<RunningSession>(std::move(graph), std::move(nodes), std::move(wanted), options);
}

}  // namespace braid
