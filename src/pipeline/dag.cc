#include "pipeline/dag.h"

#include <algorithm>
#include <deque>
#include <map>
#include <unordered_map>
#include <utility>

namespace braid {

// Builds in passes, each of which finds one kind of fault.
class Dag::Builder {
 public:
  Result<std::unique_ptr<const Dag>> Build(const DagSpec& spec) {
    dag_.demultiply_ = spec.demultiply;
    BRAID_RETURN_IF_ERROR(AddProducers(spec.inputs, spec.nodes));
    BRAID_RETURN_IF_ERROR(Connect(spec.outputs, spec.nodes));
    BRAID_RETURN_IF_ERROR(Sort());
    BRAID_RETURN_IF_ERROR(AssignScopes(spec));
    BRAID_RETURN_IF_ERROR(AssignOutputs(spec.gather_outputs));
    for (Tensor& tensor : dag_.tensors_) tensor.slot = dag_.scopes_[tensor.scope].tensors++;
    CountConsumers();
    return std::unique_ptr<const Dag>(std::make_unique<Dag>(std::move(dag_)));
  }

 private:
  static Status Invalid(std::string text) { return InvalidArgumentError(std::move(text)); }

  std::string ProducerName(uint32_t tensor) const {
    const uint32_t node = producers_[tensor];
    return node == kNone ? std::string("the inputs") : "step " + dag_.nodes_[node].name;
  }

  Status AddTensor(const std::string& name, uint32_t producer) {
    const auto tensor = static_cast<uint32_t>(dag_.tensors_.size());
    auto [it, added] = by_name_.emplace(name, tensor);
    if (!added) {
      return Invalid("tensor '" + name + "' is produced twice: by " + ProducerName(it->second) + " and by " +
                     (producer == kNone ? std::string("the inputs") : "step " + dag_.nodes_[producer].name));
    }
    dag_.tensors_.push_back({.name = name, .consumers = {}, .gathers = {}});
    producers_.push_back(producer);
    return OkStatus();
  }

  Status AddProducers(const std::vector<std::string>& inputs, const std::vector<NodeSpec>& specs) {
    for (const std::string& input : inputs) {
      dag_.inputs_.push_back(static_cast<uint32_t>(dag_.tensors_.size()));
      BRAID_RETURN_IF_ERROR(AddTensor(input, kNone));
    }
    for (const NodeSpec& spec : specs) {
      const auto index = static_cast<uint32_t>(dag_.nodes_.size());
      Node node;
      node.name = spec.name;
      node.many = spec.many;
      node.demultiply = spec.demultiply;
      dag_.nodes_.push_back(std::move(node));
      for (const PortSpec& port : spec.outputs) {
        const auto tensor = static_cast<uint32_t>(dag_.tensors_.size());
        BRAID_RETURN_IF_ERROR(AddTensor(port.tensor, index));
        dag_.nodes_[index].outputs.push_back({port.name, tensor, false});
      }
    }
    return OkStatus();
  }

  Status Connect(const std::vector<PortSpec>& outputs, const std::vector<NodeSpec>& specs) {
    for (uint32_t index = 0; index < specs.size(); ++index) {
      for (const PortSpec& port : specs[index].inputs) {
        auto tensor = by_name_.find(port.tensor);
        if (tensor == by_name_.end()) {
          return Invalid("input '" + port.name + "' of step " + specs[index].name + " takes tensor '" +
                         port.tensor + "', which is neither an input nor an output of a step");
        }
        dag_.nodes_[index].inputs.push_back({port.name, tensor->second, port.optional});
        dag_.tensors_[tensor->second].consumers.push_back(index);
      }
    }
    for (const PortSpec& output : outputs) {
      auto tensor = by_name_.find(output.tensor);
      if (tensor == by_name_.end()) {
        return Invalid("output '" + output.tensor + "' is not produced by any step");
      }
      dag_.outputs_.push_back(tensor->second);
      dag_.output_names_.push_back(output.name);
    }
    return OkStatus();
  }

  Status Sort() {
    std::vector<size_t> missing(dag_.nodes_.size());
    std::deque<uint32_t> ready;
    for (uint32_t index = 0; index < dag_.nodes_.size(); ++index) {
      for (const Port& port : dag_.nodes_[index].inputs) {
        missing[index] += producers_[port.tensor] == kNone ? 0 : 1;
      }
      if (missing[index] == 0) ready.push_back(index);
    }
    while (!ready.empty()) {
      const uint32_t index = ready.front();
      ready.pop_front();
      order_.push_back(index);
      for (const Port& port : dag_.nodes_[index].outputs) {
        for (uint32_t consumer : dag_.tensors_[port.tensor].consumers) {
          if (--missing[consumer] == 0) ready.push_back(consumer);
        }
      }
    }
    if (order_.size() == dag_.nodes_.size()) return OkStatus();
    return Invalid("these steps form a cycle: " + CycleText(missing));
  }

  // Follows the inputs backwards from a node that never got its inputs; that path leads into a cycle.
  std::string CycleText(const std::vector<size_t>& missing) const {
    uint32_t at = 0;
    while (missing[at] == 0) ++at;
    std::vector<uint32_t> path;
    std::vector<size_t> seen(dag_.nodes_.size(), SIZE_MAX);
    while (seen[at] == SIZE_MAX) {
      seen[at] = path.size();
      path.push_back(at);
      for (const Port& port : dag_.nodes_[at].inputs) {
        const uint32_t producer = producers_[port.tensor];
        if (producer == kNone || missing[producer] == 0) continue;
        at = producer;
        break;
      }
    }
    std::string text = dag_.nodes_[at].name;
    for (size_t i = path.size(); i-- > seen[at];) text += " -> " + dag_.nodes_[path[i]].name;
    return text;
  }

  // Returns the deeper of two scopes; kNone if neither lies around the other.
  uint32_t Deeper(uint32_t a, uint32_t b) const {
    if (dag_.Within(a, b)) return a;
    return dag_.Within(b, a) ? b : kNone;
  }

  std::string OpenerName(uint32_t scope) const {
    const uint32_t opener = dag_.scopes_[scope].opener;
    return opener == kRequest ? "the request" : "step " + dag_.nodes_[opener].name;
  }

  Status JoinError(const std::string& who, uint32_t a, uint32_t b) const {
    return Invalid(who + " joins the responses of " + OpenerName(a) + " and of " + OpenerName(b) +
                   ", which both may respond any number of times; their responses cannot be matched");
  }

  uint32_t OpenScope(uint32_t parent, uint32_t opener) {
    const uint32_t depth = dag_.scopes_[parent].depth + 1;
    dag_.scopes_.push_back(
        {.parent = parent, .depth = depth, .opener = opener, .nodes = {}, .collections = {}});
    return static_cast<uint32_t>(dag_.scopes_.size() - 1);
  }

  Status AssignScopes(const DagSpec& spec) {
    dag_.scopes_.push_back({.nodes = {}, .collections = {}});
    if (spec.demultiply != kWhole) {
      dag_.input_scope_ = OpenScope(kRoot, kRequest);
      for (uint32_t input : dag_.inputs_) dag_.tensors_[input].scope = dag_.input_scope_;
    }
    for (uint32_t index : order_) {
      const uint32_t gather_from = spec.nodes[index].gather_from;
      if (gather_from != kNone) BRAID_RETURN_IF_ERROR(GatherInputs(index, gather_from));
      Node& node = dag_.nodes_[index];
      for (const Port& port : node.inputs) {
        const uint32_t with = dag_.tensors_[port.tensor].scope;
        const uint32_t deeper = Deeper(node.scope, with);
        if (deeper == kNone) return JoinError("step " + node.name, node.scope, with);
        node.scope = deeper;
      }
      Scope& scope = dag_.scopes_[node.scope];
      node.index = static_cast<uint32_t>(scope.nodes.size());
      scope.nodes.push_back(index);
      if (node.many || node.demultiply != kWhole) node.opens = OpenScope(node.scope, index);
      for (const Port& port : node.outputs) {
        dag_.tensors_[port.tensor].scope = node.opens != kNone ? node.opens : node.scope;
      }
    }
    return OkStatus();
  }

  // Returns whether all flows of a scope are known at once.
  bool Countable(uint32_t scope) const {
    const uint32_t opener = dag_.scopes_[scope].opener;
    return opener == kRequest || (opener != kNone && dag_.nodes_[opener].demultiply != kWhole);
  }

  Status GatherInputs(uint32_t index, uint32_t from) {
    const uint32_t inner = from == kRequest ? dag_.input_scope_ : dag_.nodes_[from].opens;
    for (Port& port : dag_.nodes_[index].inputs) {
      const uint32_t scope = dag_.tensors_[port.tensor].scope;
      if (inner == kNone || scope != inner || !Countable(inner)) {
        return Invalid("step " + dag_.nodes_[index].name + " gathers its input '" + port.name +
                       "', which is not a demultiplexed piece");
      }
      auto& before = dag_.tensors_[port.tensor].consumers;
      before.erase(std::find(before.begin(), before.end(), index));
      port.tensor = Gathered(port.tensor, dag_.scopes_[inner].parent);
      dag_.tensors_[port.tensor].consumers.push_back(index);
    }
    return OkStatus();
  }

  // Returns the tensor in scope `to` that is gathered from `tensor`.
  uint32_t Gathered(uint32_t tensor, uint32_t to) {
    const auto made = static_cast<uint32_t>(dag_.tensors_.size());
    auto [it, added] = gathered_.emplace(std::pair(tensor, to), made);
    if (!added) return it->second;
    const auto index = static_cast<uint32_t>(dag_.gathers_.size());
    Gather gather{.from = tensor, .to = made, .indexes = {}};
    uint32_t inner = dag_.tensors_[tensor].scope;
    while (inner != to) {
      Scope& outer = dag_.scopes_[dag_.scopes_[inner].parent];
      gather.indexes.push_back(static_cast<uint32_t>(outer.collections.size()));
      outer.collections.push_back({.gather = index, .inner = inner});
      inner = dag_.scopes_[inner].parent;
    }
    std::reverse(gather.indexes.begin(), gather.indexes.end());
    dag_.gathers_.push_back(std::move(gather));
    dag_.tensors_[tensor].gathers.push_back(index);
    std::string name = dag_.tensors_[tensor].name;
    dag_.tensors_.push_back({.name = std::move(name), .scope = to, .consumers = {}, .gathers = {}});
    producers_.push_back(kNone);
    return made;
  }

  Status AssignOutputs(bool gather) {
    uint32_t deepest = kRoot;
    for (uint32_t& output : dag_.outputs_) {
      uint32_t with = dag_.tensors_[output].scope;
      if (gather) {
        for (uint32_t scope = with; scope != kRoot; scope = dag_.scopes_[scope].parent) {
          if (!Countable(scope)) {
            return Invalid("the response cannot gather the responses of " + OpenerName(scope));
          }
        }
        if (with != kRoot) output = Gathered(output, kRoot);
        continue;
      }
      const uint32_t deeper = Deeper(deepest, with);
      if (deeper == kNone) return JoinError("the response", deepest, with);
      deepest = deeper;
    }
    return OkStatus();
  }

  void CountConsumers() {
    for (Tensor& tensor : dag_.tensors_) {
      for (uint32_t consumer : tensor.consumers) {
        if (dag_.nodes_[consumer].scope == tensor.scope) {
          ++tensor.near_consumers;
        } else {
          tensor.far_consumers = true;
        }
      }
    }
  }

  Dag dag_;
  std::unordered_map<std::string, uint32_t> by_name_;
  std::vector<uint32_t> producers_;                             // of tensors; kNone for inputs of the DAG
  std::vector<uint32_t> order_;                                 // of nodes, producers first
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> gathered_;  // by tensor and scope
};

Result<std::unique_ptr<const Dag>> Dag::Build(const DagSpec& spec) { return Builder().Build(spec); }

Result<std::unique_ptr<const Dag>> Dag::Build(const std::vector<std::string>& inputs,
                                              const std::vector<std::string>& outputs,
                                              const std::vector<NodeSpec>& nodes) {
  DagSpec spec{.inputs = inputs, .outputs = {}, .nodes = nodes};
  for (const std::string& output : outputs) spec.outputs.push_back({output, output, false});
  return Build(spec);
}

bool Dag::Within(uint32_t scope, uint32_t around) const {
  while (scopes_[scope].depth > scopes_[around].depth) scope = scopes_[scope].parent;
  return scope == around;
}

}  // namespace braid
