// Demultiplexers and gathers of a session.
#include "pipeline/running_session.h"

namespace braid {

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

}  // namespace braid
