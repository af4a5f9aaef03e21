// Demultiplexers and gathers of a session.
#include <algorithm>
#include <utility>

#include "pipeline/session.h"

namespace braid {

void Session::SetInputsLocked(Flow& root, std::vector<Tensor>& inputs) {
  if (dag().demultiply() == Dag::kWhole) {
    for (uint32_t tensor : dag().inputs()) {
      const std::string& name = dag().tensors()[tensor].name;
      auto given =
          std::find_if(inputs.begin(), inputs.end(), [&](const Tensor& t) { return t.name == name; });
      SetLocked(root, tensor, given == inputs.end() ? std::nullopt : std::optional(std::move(*given)));
      if (given != inputs.end()) inputs.erase(given);
    }
    return;
  }
  std::vector<Dag::Port> ports;
  for (uint32_t tensor : dag().inputs()) {
    ports.push_back({.name = dag().tensors()[tensor].name, .tensor = tensor});
  }
  ScatterLocked(root, dag().input_scope(), "request", dag().demultiply(), inputs, ports);
}

// Opens a flow of `scope` for each shard of `tensors`.
void Session::ScatterLocked(Flow& flow, uint32_t scope, const std::string& who, int32_t demultiply,
                            std::vector<Tensor>& tensors, const std::vector<Dag::Port>& ports) {
  std::vector<const Tensor*> whole;
  whole.reserve(ports.size());
  for (const Dag::Port& port : ports) {
    auto made = std::find_if(tensors.begin(), tensors.end(),
                             [&](const Tensor& tensor) { return tensor.name == port.name; });
    if (made == tensors.end()) {
      FailMissingLocked(dag().scopes()[scope].opener, port.name);
      return;
    }
    whole.push_back(&*made);
  }
  auto counted = CountShards(who, whole, demultiply);
  if (!counted.ok()) {
    const uint32_t opener = dag().scopes()[scope].opener;
    FailLocked(counted.status(), opener == Dag::kRequest ? Dag::kNone : opener);
    return;
  }
  const uint32_t count = *counted;
  if (count > kMostFlows - std::min(flows_, kMostFlows)) {
    FailLocked(UnavailableError("more than " + std::to_string(kMostFlows) + " pieces of " + who +
                                " and of demultiplexers before it wait for the nodes after them"));
    return;
  }
  const auto& collections = dag().scopes()[flow.scope].collections;
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

// A demultiplexer needs all its outputs, also those that the client does not want.
void Session::FailMissingLocked(uint32_t node, const std::string& output) {
  const bool told = node != Dag::kRequest && plan_->missing_output;
  FailLocked(told ? plan_->missing_output(node, output) : DeadlockLocked(),
             node == Dag::kRequest ? Dag::kNone : node);
}

// Takes the shards of the flow `inner`; continues outwards as long as collections are complete.
void Session::CollectLocked(Flow& inner, uint32_t gather, Shards shards) {
  const Dag::Gather& plan = dag().gathers()[gather];
  const uint32_t to = dag().tensors()[plan.to].scope;
  const uint32_t to_depth = dag().scopes()[to].depth;
  for (Flow* from = &inner;; from = from->parent) {
    Flow& flow = *from->parent;
    Collected& collected = flow.collected[plan.indexes[dag().scopes()[flow.scope].depth - to_depth]];
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

bool Session::OfUse(const Dag::Gather& gather) const {
  if (!dag().tensors()[gather.to].consumers.empty()) return true;
  return std::any_of(wanted_.begin(), wanted_.end(),
                     [&](uint32_t output) { return dag().outputs()[output] == gather.to; });
}

// "node 'a', input 'x'", or "output 'y'".
std::string Session::GatherName(const Dag::Gather& gather) const {
  const auto& consumers = dag().tensors()[gather.to].consumers;
  if (!consumers.empty()) {
    const Dag::Node& node = dag().nodes()[consumers.front()];
    for (const Dag::Port& port : node.inputs) {
      if (port.tensor == gather.to) return node.name + ", input '" + port.name + "'";
    }
  }
  for (uint32_t output : wanted_) {
    if (dag().outputs()[output] == gather.to) return "output '" + dag().output_names()[output] + "'";
  }
  return dag().tensors()[gather.from].name;
}

// Copies without the lock; other actions wait meanwhile.
void Session::DoGather(Action& action) {
  const Dag::Gather& gather = dag().gathers()[action.gather];
  const auto& consumers = dag().tensors()[gather.to].consumers;
  BufferAllocator& memory = consumers.empty() ? heap_ : MemoryOf(consumers.front());
  auto stacked = Stack(GatherName(gather), std::move(action.shards), memory);
  MutexLock lock(mutex_);
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
