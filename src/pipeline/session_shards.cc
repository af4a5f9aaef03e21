// Demultiplexers and gathers of a session.
#include "pipeline/running_session.h"

namespace braid {

void RunningSession::SetInputsLocked(Flow& root, std::vector<Tensor>& inputs) {
  if (dag_->demultiply() == Dag::kWhole) {
    for (uint32_t tensor : dag_->inputs()) {
      const std::string& name = dag_->tensors()[tensor].name;
      auto given =
          std::find_if(inputs.begin(), inputs.end(), [&](const Tensor& t) { return t.name == name; });
      SetLocked(root, tensor, given == inputs.end() ? std::nullopt : std::optional(std::move(*given)));
      if (given != inputs.end()) inputs.erase(given);
    }
    return;
  }
  std::vector<Dag::Port> ports;
  for (uint32_t tensor : dag_->inputs()) {
    ports.push_back({.name = dag_->tensors()[tensor].name, .tensor = tensor});
  }
  ScatterLocked(root, dag_->input_scope(), "request", dag_->demultiply(), inputs, ports);
}

// Opens a flow of `scope` for each shard of `tensors`.
void RunningSession::ScatterLocked(Flow& flow, uint32_t scope, const std::string& who, int32_t demultiply,
                                   std::vector<Tensor>& tensors, const std::vector<Dag::Port>& ports) {
  std::vector<const Tensor*> whole;
  whole.reserve(ports.size());
  for (const Dag::Port& port : ports) {
    auto made = std::find_if(tensors.begin(), tensors.end(),
                             [&](const Tensor& tensor) { return tensor.name == port.name; });
    if (made == tensors.end()) {
      FailMissingLocked(dag_->scopes()[scope].opener, port.name);
      return;
    }
    whole.push_back(&*made);
  }
  auto counted = CountShards(who, whole, demultiply);
  if (!counted.ok()) {
    const uint32_t opener = dag_->scopes()[scope].opener;
    FailLocked(counted.status(), opener == Dag::kRequest ? Dag::kNone : opener);
    return;
  }
  const uint32_t count = *counted;
  if (count > kMostFlows - std::min(flows_, kMostFlows)) {
    FailLocked(UnavailableError("more than " + std::to_string(kMostFlows) + " pieces of " + who +
                                " and of demultiplexers before it wait for the nodes after them"));
    return;
  }
  const auto& collections = dag_->scopes()[flow.scope].collections;
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
      SetLocked(inner, ports[i].tensor, Shard(*whole[i], number, count));
    }
    ReleaseLocked(inner);
  }
}

// A demultiplexer without one of its outputs cannot go on, whatever the client thinks of it.
void RunningSession::FailMissingLocked(uint32_t node, const std::string& output) {
  Status status = node == Dag::kRequest ? OkStatus() : client_->MissingOutput(node, output);
  if (status.ok()) status = InternalError(std::string(kDeadlockText));
  FailLocked(std::move(status), node == Dag::kRequest ? Dag::kNone : node);
}

// Takes what the flow with number `number` knows; goes outwards as far as collections are complete.
void RunningSession::CollectLocked(Flow& inner, uint32_t gather, Shards shards) {
  const Dag::Gather& plan = dag_->gathers()[gather];
  const uint32_t to = dag_->tensors()[plan.to].scope;
  const uint32_t to_depth = dag_->scopes()[to].depth;
  for (Flow* from = &inner;; from = from->parent) {
    Flow& flow = *from->parent;
    Collected& collected = flow.collected[plan.indexes[dag_->scopes()[flow.scope].depth - to_depth]];
    collected.parts[from->number] = std::move(shards);
    if (--collected.missing > 0) return;
    auto joined = Join(GatherName(plan), std::exchange(collected.parts, {}));
    if (!joined.ok()) {
      FailLocked(joined.status());
      return;
    }
    shards = std::move(*joined);
    if (flow.scope != to) continue;
    ++flow.open;
    actions_.push_back(
        {.kind = Action::Kind::kGather, .gather = gather, .flow = &flow, .shards = std::move(shards)});
    return;
  }
}

bool RunningSession::OfUse(const Dag::Gather& gather) const {
  if (!dag_->tensors()[gather.to].consumers.empty()) return true;
  return std::any_of(wanted_.begin(), wanted_.end(),
                     [&](uint32_t output) { return dag_->outputs()[output] == gather.to; });
}

// "node 'a', input 'x'", or "output 'y'".
std::string RunningSession::GatherName(const Dag::Gather& gather) const {
  const auto& consumers = dag_->tensors()[gather.to].consumers;
  if (!consumers.empty()) {
    const Dag::Node& node = dag_->nodes()[consumers.front()];
    for (const Dag::Port& port : node.inputs) {
      if (port.tensor == gather.to) return node.name + ", input '" + port.name + "'";
    }
  }
  for (uint32_t output : wanted_) {
    if (dag_->outputs()[output] == gather.to) return "output '" + dag_->output_names()[output] + "'";
  }
  return dag_->tensors()[gather.from].name;
}

// Copies without the lock; meanwhile what else was decided waits.
void RunningSession::DoGather(Action& action) {
  const Dag::Gather& gather = dag_->gathers()[action.gather];
  const auto& consumers = dag_->tensors()[gather.to].consumers;
  HeapAllocator heap;
  BufferAllocator* memory = consumers.empty() ? nullptr : nodes_[consumers.front()]->input_allocator();
  auto stacked = Stack(GatherName(gather), std::move(action.shards), memory != nullptr ? *memory : heap);
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

}  // namespace braid
