// Flows of a session and the tensors in them, and which node runs next.
#include "pipeline/running_session.h"

namespace braid {

// ---- flows and their tensors ----

void RunningSession::OpenLocked(Flow& flow, Flow* parent, uint32_t scope) {
  const Dag::Scope& plan = dag_->scopes()[scope];
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
    if (dag_->tensors()[tensor].scope == scope) {
      ++missing;
      return false;
    }
    const SlotState state = SlotOf(flow, tensor).state;
    missing += state == SlotState::kUnknown ? 1 : 0;
    return state == SlotState::kAbsent && !optional;
  };
  for (uint32_t node : plan.nodes) {
    const uint32_t index = dag_->nodes()[node].index;
    for (const Dag::Port& port : dag_->nodes()[node].inputs) {
      if (look(port.tensor, port.optional, flow.missing[index])) flow.blocked[index] = true;
    }
    if (flow.missing[index] == 0) ready_.push_back({&flow, node});
  }
  if (scope != response_scope_) return;
  ++flow.open;
  for (uint32_t output : wanted_) {
    if (look(dag_->outputs()[output], false, flow.missing_outputs)) {
      FailLocked(InternalError(std::string(kDeadlockText)));
      return;
    }
  }
  for (uint32_t output : wanted_) {
    const uint32_t tensor = dag_->outputs()[output];
    if (dag_->tensors()[tensor].scope == scope) ++SlotOf(flow, tensor).takers;
  }
}

RunningSession::Slot& RunningSession::SlotOf(Flow& flow, uint32_t tensor) const {
  const Dag::Tensor& plan = dag_->tensors()[tensor];
  Flow* at = &flow;
  while (at->scope != plan.scope) at = at->parent;
  return at->slots[plan.slot];
}

void RunningSession::SetLocked(Flow& flow, uint32_t tensor, std::optional<Tensor> value) {
  if (ended_) return;
  const Dag::Tensor& plan = dag_->tensors()[tensor];
  Slot& slot = flow.slots[plan.slot];
  BRAID_CHECK(slot.state == SlotState::kUnknown);
  slot.takers += plan.near_consumers;
  slot.state = value ? SlotState::kSet : SlotState::kAbsent;
  const bool kept = slot.takers > 0 || Kept(tensor);
  for (uint32_t gather : plan.gathers) {
    if (!OfUse(dag_->gathers()[gather])) continue;
    if (!value) {
      FailLocked(InternalError(std::string(kDeadlockText)));
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
    if (dag_->outputs()[output] != tensor || ended_) continue;
    if (!value) {
      FailLocked(InternalError(std::string(kDeadlockText)));
      return;
    }
    ForEachFlow(flow, response_scope_, [this](Flow& inner) {
      if (--inner.missing_outputs == 0) RespondLocked(inner);
    });
  }
}

void RunningSession::TellLocked(Flow& flow, uint32_t node, const Dag::Tensor& tensor, bool absent) {
  const Dag::Node& consumer = dag_->nodes()[node];
  bool needed = false;
  if (absent) {
    for (const Dag::Port& port : consumer.inputs) {
      needed = needed || (&dag_->tensors()[port.tensor] == &tensor && !port.optional);
    }
  }
  ForEachFlow(flow, consumer.scope, [&](Flow& inner) {
    if (needed) inner.blocked[consumer.index] = true;
    if (--inner.missing[consumer.index] == 0) ready_.push_back({&inner, node});
  });
}

void RunningSession::SetOutputsLocked(Flow& flow, uint32_t node, std::vector<Tensor>& outputs) {
  for (const Dag::Port& port : dag_->nodes()[node].outputs) {
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
  const Dag::Tensor& plan = dag_->tensors()[tensor];
  if (plan.far_consumers || plan.scope == response_scope_) return plan.far_consumers;
  return std::any_of(wanted_.begin(), wanted_.end(),
                     [&](uint32_t output) { return dag_->outputs()[output] == tensor; });
}

Tensor RunningSession::TakeLocked(Flow& flow, uint32_t tensor, const std::string& name) {
  const Dag::Tensor& plan = dag_->tensors()[tensor];
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
    const Dag::Node& node = dag_->nodes()[next.node];
    if (next.flow->blocked[node.index]) {
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
  for (const Dag::Port& port : dag_->nodes()[node].inputs) {
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
  const Dag::Node& plan = dag_->nodes()[node];
  if (plan.many || plan.demultiply != Dag::kWhole) {
    if (Responds(plan.opens) || plan.demultiply != Dag::kWhole) {
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
  const uint32_t opens = dag_->nodes()[node].opens;
  if (opens != Dag::kNone && Responds(opens)) {
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
    const uint32_t tensor = dag_->outputs()[output];
    outputs.push_back(TakeLocked(flow, tensor, dag_->output_names()[output]));
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

}  // namespace braid
