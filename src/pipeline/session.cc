#include "pipeline/session.h"

#include "base/guard.h"
#include "pipeline/running_session.h"

namespace braid {

// ---- begin and end ----

void RunningSession::Start(std::vector<Tensor> inputs, std::unique_ptr<SessionClient> client) {
  client_ = std::move(client);
  {
    const PatientAllocation patience;
    std::lock_guard lock(mutex_);
    root_.emplace_back();
    Flow& root = root_.back();
    outgoing_.emplace_back();
    root.at = outgoing_.begin();
    OpenLocked(root, nullptr, Dag::kRoot);
    SetInputsLocked(root, inputs);
    ReleaseLocked(root);
    if (!ended_) AdvanceLocked();
  }
  Perform();
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
    const PatientAllocation patience;
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
    if (action.kind == Action::Kind::kRespond) {
      actions_.push_back(std::move(action));
    } else {
      garbage_.actions.push_back(std::move(action));
    }
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
    const PatientAllocation patience;
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
  const Dag::Node& node = dag_->nodes()[run.node];
  Flow& flow = *run.flow;
  if (!node.many) {
    if (flow.answered[node.index]) {
      FailLocked(InternalError("step " + node.name +
                               " responded more than once, which it did not do when it "
                               "was loaded"));
      return;
    }
    flow.answered[node.index] = true;
    if (node.demultiply != Dag::kWhole) {
      ScatterLocked(flow, node.opens, node.name, node.demultiply, outputs, node.outputs);
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
  const Dag::Node& node = dag_->nodes()[run.node];
  Flow& flow = *run.flow;
  running_.erase(run.running);
  if (!node.many && !flow.answered[node.index]) {
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
      const PatientAllocation patience;
      FailLocked(CancelledError("Request cancelled"));
      continue;
    }
    performing_ = true;
    Action action = std::move(actions_.front());
    actions_.pop_front();
    lock.unlock();
    const Status fault = Guarded([&] { Do(action); });
    garbage = {};
    lock.lock();
    performing_ = false;
    if (!fault.ok() && !ended_) {
      const PatientAllocation patience;
      FailLocked(fault);
    }
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

std::shared_ptr<Session> Session::Create(std::shared_ptr<const Dag> dag,
                                         std::vector<std::unique_ptr<NodeSession>> nodes,
                                         std::vector<uint32_t> wanted, const SessionOptions& options) {
  return std::make_shared<RunningSession>(std::move(dag), std::move(nodes), std::move(wanted), options);
}

}  // namespace braid
