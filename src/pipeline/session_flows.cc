// Flows of a session and their tensors, and which node runs next.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "pipeline/session.h"

namespace braid {

// ---- flows and their tensors ----

void Session::OpenLocked(Flow& flow, Flow* parent, uint32_t scope) {
  const Dag::Scope& plan = dag().scopes()[scope];
  flow.parent = parent;
  flow.scope = scope;
  flow.slots.resize(plan.tensors);
  flow.missing.resize(plan.nodes.size());
  flow.blocked.resize(plan.nodes.size());
  flow.answered.resize(plan.nodes.size());
  flow.collected.resize(plan.collections.size());
  flow.open = static_cast<uint32_t>(plan.nodes.size()) + 1;
  // Of the outer scopes it counts the tensors that are still unknown; SetLocked() reports them later.
  auto look = [&](uint32_t tensor, bool optional, uint32_t& missing) {
    if (dag().tensors()[tensor].scope == scope) {
      ++missing;
      return false;
    }
    const SlotState state = SlotOf(flow, tensor).state;
    missing += state == SlotState::kUnknown ? 1 : 0;
    return state == SlotState::kAbsent && !optional;
  };
  for (uint32_t node : plan.nodes) {
    const uint32_t index = dag().nodes()[node].index;
    for (const Dag::Port& port : dag().nodes()[node].inputs) {
      if (look(port.tensor, port.optional, flow.missing[index])) flow.blocked[index] = true;
    }
    if (flow.missing[index] == 0) ready_.push_back({&flow, node});
  }
  if (scope != response_scope_) return;
  ++flow.open;
  for (uint32_t output : wanted_) {
    if (look(dag().outputs()[output], false, flow.missing_outputs)) {
      FailLocked(DeadlockLocked());
      return;
    }
  }
  for (uint32_t output : wanted_) {
    const uint32_t tensor = dag().outputs()[output];
    if (dag().tensors()[tensor].scope == scope) ++SlotOf(flow, tensor).takers;
  }
}

Session::Slot& Session::SlotOf(Flow& flow, uint32_t tensor) const {
  const Dag::Tensor& plan = dag().tensors()[tensor];
  Flow* at = &flow;
  while (at->scope != plan.scope) at = at->parent;
  return at->slots[plan.slot];
}

void Session::SetLocked(Flow& flow, uint32_t tensor, std::optional<Tensor> value) {
  if (ended_) return;
  const Dag::Tensor& plan = dag().tensors()[tensor];
  Slot& slot = flow.slots[plan.slot];
  BRAID_CHECK(slot.state == SlotState::kUnknown);
  slot.takers += plan.near_consumers;
  slot.state = value ? SlotState::kSet : SlotState::kAbsent;
  const bool kept = slot.takers > 0 || Kept(tensor);
  for (uint32_t gather : plan.gathers) {
    if (!OfUse(dag().gathers()[gather])) continue;
    if (!value) {
      FailLocked(DeadlockLocked());
      return;
    }
    Shards shard;
    shard.tensors.push_back(*value);
    CollectLocked(flow, gather, std::move(shard));
    if (ended_) return;
  }
  if (value && kept) slot.tensor = std::move(*value);
  for (uint32_t node : plan.consumers) TellLocked(flow, node, plan, !value);
  for (uint32_t output : wanted_) {
    if (dag().outputs()[output] != tensor || ended_) continue;
    if (!value) {
      FailLocked(DeadlockLocked());
      return;
    }
    ForEachFlow(flow, response_scope_, [this](Flow& inner) {
      mutex_.AssertHeld();
      if (--inner.missing_outputs == 0) RespondLocked(inner);
    });
  }
}

void Session::TellLocked(Flow& flow, uint32_t node, const Dag::Tensor& tensor, bool absent) {
  const Dag::Node& consumer = dag().nodes()[node];
  bool needed = false;
  if (absent) {
    for (const Dag::Port& port : consumer.inputs) {
      needed = needed || (&dag().tensors()[port.tensor] == &tensor && !port.optional);
    }
  }
  ForEachFlow(flow, consumer.scope, [&](Flow& inner) {
    mutex_.AssertHeld();
    if (needed) inner.blocked[consumer.index] = true;
    if (--inner.missing[consumer.index] == 0) ready_.push_back({&inner, node});
  });
}

void Session::SetOutputsLocked(Flow& flow, uint32_t node, std::vector<Tensor>& outputs) {
  for (const Dag::Port& port : dag().nodes()[node].outputs) {
    auto made = std::find_if(outputs.begin(), outputs.end(),
                             [&](const Tensor& output) { return output.name == port.name; });
    if (made == outputs.end()) {
      if (plan_->missing_output) {
        FailLocked(plan_->missing_output(node, port.name), node);
        return;
      }
      if (missing_.empty()) {
        missing_ = "step " + dag().nodes()[node].name + " did not return output '" + port.name +
                   "', which is tensor '" + dag().tensors()[port.tensor].name + "'";
      }
      SetLocked(flow, port.tensor, std::nullopt);
    } else {
      SetLocked(flow, port.tensor, std::move(*made));
      outputs.erase(made);
    }
    if (ended_) return;
  }
}

Status Session::DeadlockLocked() const {
  return InternalError(std::string(kDeadlockText) + (missing_.empty() ? "" : ": " + missing_));
}

bool Session::Kept(uint32_t tensor) const {
  const Dag::Tensor& plan = dag().tensors()[tensor];
  if (plan.far_consumers || plan.scope == response_scope_) return plan.far_consumers;
  return std::any_of(wanted_.begin(), wanted_.end(),
                     [&](uint32_t output) { return dag().outputs()[output] == tensor; });
}

Tensor Session::TakeLocked(Flow& flow, uint32_t tensor, const std::string& name) {
  const Dag::Tensor& plan = dag().tensors()[tensor];
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

// ---- choosing the next node ----

void Session::AdvanceLocked() {
  while (!ready_.empty() && !ended_) {
    const Ready next = ready_.front();
    ready_.pop_front();
    const Dag::Node& node = dag().nodes()[next.node];
    if (next.flow->blocked[node.index]) {
      SkipLocked(*next.flow, next.node);
    } else {
      LaunchLocked(*next.flow, next.node);
    }
  }
}

void Session::LaunchLocked(Flow& flow, uint32_t node) {
  if (plan_->max_runs_per_node > 0) {
    Limit& limit = limits_[node];
    if (limit.running >= plan_->max_runs_per_node) {
      limit.waiting.push_back(&flow);
      return;
    }
    ++limit.running;
  }
  auto run = std::make_unique<Run>(shared_from_this(), flow, node);
  for (const Dag::Port& port : dag().nodes()[node].inputs) {
    if (SlotOf(flow, port.tensor).state == SlotState::kAbsent) continue;
    run->inputs.push_back(TakeLocked(flow, port.tensor, port.name));
  }
  run->cancellation = std::make_shared<Cancellation>();
  running_.push_back(run->cancellation);
  run->running = std::prev(running_.end());
  actions_.push_back({.kind = Action::Kind::kRun, .run = std::move(run)});
}

// A node that lacks an input makes no outputs; the nodes after it are skipped, too.
void Session::SkipLocked(Flow& flow, uint32_t node) {
  const Dag::Node& plan = dag().nodes()[node];
  if (plan.many || plan.demultiply != Dag::kWhole) {
    if (Responds(plan.opens) || plan.demultiply != Dag::kWhole) {
      FailLocked(DeadlockLocked());
      return;
    }
  } else {
    std::vector<Tensor> none;
    SetOutputsLocked(flow, node, none);
  }
  if (!ended_) EndNodeLocked(flow, node);
}

void Session::EndNodeLocked(Flow& flow, uint32_t node) {
  // Later responses no longer wait for flows of this node.
  const uint32_t opens = dag().nodes()[node].opens;
  if (opens != Dag::kNone && Responds(opens)) {
    flow.at->complete = true;
    FlushLocked();
  }
  ReleaseLocked(flow);
}

void Session::ReleaseLocked(Flow& flow) {
  if (ended_ || --flow.open > 0) return;
  for (Flow* at = &flow; at->parent != nullptr; at = at->parent) {
    garbage_.flows.splice(garbage_.flows.end(), at->parent->flows, at->self);
    --flows_;
    if (--at->parent->open > 0) return;
  }
  ended_ = true;
  garbage_.flows.splice(garbage_.flows.end(), root_);
  // The end goes with the last response, unless that has already left.
  if (!actions_.empty() && actions_.back().kind == Action::Kind::kRespond) {
    actions_.back().final = true;
  } else {
    actions_.push_back({.kind = Action::Kind::kRespond, .final = true});
  }
}

void Session::RespondLocked(Flow& flow) {
  std::vector<Tensor> outputs;
  outputs.reserve(wanted_.size());
  for (uint32_t output : wanted_) {
    const uint32_t tensor = dag().outputs()[output];
    outputs.push_back(TakeLocked(flow, tensor, dag().output_names()[output]));
  }
  flow.at->outputs = std::move(outputs);
  flow.at->complete = true;
  FlushLocked();
  ReleaseLocked(flow);
}

void Session::FlushLocked() {
  while (!outgoing_.empty() && outgoing_.front().complete) {
    if (outgoing_.front().outputs) {
      actions_.push_back({.kind = Action::Kind::kRespond, .outputs = std::move(outgoing_.front().outputs)});
    }
    outgoing_.pop_front();
  }
}

}  // namespace braid
