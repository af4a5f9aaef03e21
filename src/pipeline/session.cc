#include "pipeline/session.h"

#include <algorithm>

#include "base/clock.h"
#include "base/guard.h"

namespace braid {
namespace {

// Makes the request to a step, without its inputs, its sink and its place in the servable. The client's
// parameters apply to every step.
std::unique_ptr<InferenceRequest> MakeStepRequest(const InferenceRequest& from, const Servable& servable,
                                                  const std::vector<std::string>& outputs, int64_t start_ns) {
  auto request = std::make_unique<InferenceRequest>();
  request->id = from.id;
  request->model_name = servable.info().name;
  request->model_version = servable.info().version;
  request->correlation_id = from.correlation_id;
  request->sequence_start = from.sequence_start;
  request->sequence_end = from.sequence_end;
  request->priority = from.priority;
  request->timeout_us = from.timeout_us;
  request->parameters = from.parameters;
  request->requested_outputs = outputs;
  request->start_ns = start_ns;
  request->call_chain = from.call_chain;
  request->here = from.here;
  if (from.trace) request->trace = from.trace->StartChild(request->model_name, request->model_version);
  return request;
}

}  // namespace

// ---- begin and end ----

Session::Session(std::shared_ptr<const DagPlan> plan, std::vector<EnteredStep> steps,
                 std::shared_ptr<Compensation> compensation, std::vector<uint32_t> wanted)
    : plan_(std::move(plan)),
      compensation_(std::move(compensation)),
      wanted_(std::move(wanted)),
      steps_(std::move(steps)),
      limits_(plan_->max_runs_per_node > 0 ? dag().nodes().size() : 0) {
  for (uint32_t output : wanted_) {
    const uint32_t scope = dag().tensors()[dag().outputs()[output]].scope;
    if (dag().Within(scope, response_scope_)) response_scope_ = scope;
  }
}

void Session::Start(std::vector<Tensor> inputs, std::unique_ptr<SessionClient> client) {
  client_ = std::move(client);
  {
    RetryingLock lock(mutex_);
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

void Session::Cancel() {
  Cancellations running;
  {
    MutexLock lock(mutex_);
    if (ended_) return;
    cancelled_ = true;
    running = running_;
  }
  for (const auto& cancellation : running) cancellation->Cancel();
}

void Session::Abort(Status status) {
  {
    RetryingLock lock(mutex_);
    if (ended_) return;
    if (root_.empty()) {
      cancelled_ = true;  // and ends when it starts
      return;
    }
    FailLocked(std::move(status));
  }
  Perform();
}

void Session::FailLocked(Status status, uint32_t node) {
  ended_ = true;
  // Pending runs and gathers are dropped; responses that were ready before the fault still leave.
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

void Session::OnAnswer(Run& run, Outputs& outputs, bool final) {
  {
    RetryingLock lock(mutex_);
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

void Session::TakeAnswerLocked(Run& run, std::vector<Tensor>& outputs) {
  const Dag::Node& node = dag().nodes()[run.node];
  Flow& flow = *run.flow;
  if (!node.many) {
    if (flow.answered[node.index]) {
      FailLocked(InternalError("step " + node.name +
                               " responded more than once, but was not decoupled when it was loaded"));
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

void Session::EndRunLocked(Run& run) {
  const Dag::Node& node = dag().nodes()[run.node];
  Flow& flow = *run.flow;
  running_.erase(run.running);
  if (!node.many && !flow.answered[node.index]) {
    std::vector<Tensor> none;
    TakeAnswerLocked(run, none);
    if (ended_) return;
  }
  if (plan_->max_runs_per_node > 0) {
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

// ---- performing actions ----

void Session::Perform() {
  // Keeps the session alive while its runs, which hold it, come and go.
  const std::shared_ptr<Session> self = shared_from_this();
  Garbage garbage;
  MutexLock lock(mutex_);
  for (;;) {
    garbage.flows.splice(garbage.flows.end(), garbage_.flows);
    std::swap(garbage.actions, garbage_.actions);
    const SerialDelivery::Turn turn(delivery_);
    if (!turn || actions_.empty()) break;
    if (cancelled_ && !ended_ && actions_.front().kind != Action::Kind::kRespond) {
      const RetryingAllocation retrying;
      FailLocked(CancelledError("Request cancelled"));
      continue;
    }
    Action action = std::move(actions_.front());
    actions_.pop_front();
    Status fault;
    {
      const MutexUnlock unlock(mutex_);
      fault = Guarded([&] { Do(action); });
      garbage = {};
    }
    if (!fault.ok() && !ended_) {
      const RetryingAllocation retrying;
      FailLocked(fault);
    }
  }
}

void Session::Do(Action& action) {
  // The servables are released before the client learns of the end. The client can then unload them without
  // waiting.
  if (action.final || action.kind == Action::Kind::kFail) steps_.clear();
  switch (action.kind) {
    case Action::Kind::kRun:
      Begin(std::move(action.run));
      return;
    case Action::Kind::kGather:
      DoGather(action);
      return;
    case Action::Kind::kRespond: {
      // The call may destroy the client.
      const std::unique_ptr<SessionClient> last = action.final ? std::move(client_) : nullptr;
      if (action.outputs) plan_->structure->Responded(wanted_, *action.outputs);
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

void Session::Begin(std::unique_ptr<Run> run) {
  const DagStep& step = plan_->steps[run->node];
  const EnteredStep& entered = steps_[run->node];
  if (entered.part) compensation_->Asked(*entered.part);
  run->part = entered.part;
  run->NoteStart();
  // The maker of the inputs has checked this; another version may have replaced this step since.
  if (std::ranges::any_of(run->inputs, [](const Tensor& input) { return input.data.on_device(); }) &&
      (entered.servable == nullptr || !entered.servable->get().info().device_inputs)) {
    run->Answer(UnavailableError("it no longer accepts inputs on a GPU after its reload"), true);
    return;
  }
  ChangeBatches(step.batch_changes, run->inputs);
  if (Status status = ConvertInputs(step.precisions, run->inputs, MemoryOf(run->node)); !status.ok()) {
    run->Answer(std::move(status), true);
    return;
  }
  if (entered.servable == nullptr) {
    // Shared, since work is copyable. The run holds the session, which holds the plan.
    plan_->threads->Run([&step, run = std::shared_ptr<Run>(std::move(run))] {
      if (run->cancellation->cancelled()) {
        run->Answer(CancelledError("Request cancelled before the custom node ran"), true);
        return;
      }
      Outputs answer = OutOfMemory();
      const Status fault = Guarded([&] {
        auto outputs = step.code->Execute(run->inputs);
        answer = outputs.ok() ? Outputs(std::move(*outputs)) : Outputs(outputs.status());
      });
      run->inputs.clear();  // the next nodes have no need of them
      run->Answer(fault.ok() ? std::move(answer) : Outputs(fault), true);
    });
    return;
  }
  Servable& servable = entered.servable->get();
  std::unique_ptr<InferenceRequest> request;
  {
    const RetryingAllocation retrying;
    request = MakeStepRequest(client_->request(), servable, step.outputs, run->start_ns());
    if (servable.info().device_outputs) request->device_outputs = DeviceOutputs(run->node);
    request->inputs = std::move(run->inputs);
    request->cancellation = run->cancellation;
    request->servable = entered.servable->Another();
    request->sink = run.release();
  }
  servable.Begin(std::move(request));
}

std::vector<std::string> Session::DeviceOutputs(uint32_t node) const {
  std::vector<std::string> names;
  if (dag().nodes()[node].demultiply != Dag::kWhole) return names;
  for (const Dag::Port& port : dag().nodes()[node].outputs) {
    const Dag::Tensor& tensor = dag().tensors()[port.tensor];
    // For a requested output that the caller does not take on a GPU. An ensemble's outputs have the names of
    // its tensors.
    const std::vector<std::string>& taken = client_->request().device_outputs;
    const bool leaves =
        std::ranges::find(taken, tensor.name) == taken.end() &&
        std::ranges::any_of(wanted_, [&](uint32_t output) { return dag().outputs()[output] == port.tensor; });
    const bool stays =
        !leaves && tensor.gathers.empty() && std::ranges::all_of(tensor.consumers, [&](uint32_t consumer) {
          const auto& servable = steps_[consumer].servable;
          return servable != nullptr && servable->get().info().device_inputs &&
                 plan_->steps[consumer].precisions.empty();
        });
    if (stays) names.push_back(port.name);
  }
  return names;
}

BufferAllocator& Session::MemoryOf(uint32_t node) {
  return steps_[node].servable == nullptr ? heap_ : steps_[node].servable->get().input_allocator();
}

}  // namespace braid
