#include "pipeline/pipeline_definition.h"

#include <algorithm>
#include <map>
#include <utility>

namespace braid {
namespace {

// Calls `f` with the source of each input of a node and of each output of the pipeline.
template <class F>
void ForEachSource(const PipelineDefinition& definition, const F& f) {
  for (const PipelineNode& node : definition.nodes()) {
    for (const OvmsConnection& input : node.config.inputs) f(input.source);
  }
  for (const OvmsConnection& output : definition.config.outputs) f(output.source);
}

// Returns the DAG's name for the tensor of a source. Two aliases of one output are one tensor.
std::string TensorName(const PipelineDefinition& definition, const OvmsDataSource& source) {
  if (source.node_name == kRequestNode) return source.data_item;
  const PipelineNode& node = definition.nodes()[*definition.FindNode(source.node_name)];
  return source.node_name + "\n" + FindAlias(node.config, source.data_item)->data_item;
}

// Returns the dimensions that a node's input needs in the request, before the request is split.
Dimensions WantedOfRequest(const PipelineDefinition& definition, const PipelineNode& node,
                           const TensorSpec& input) {
  Dimensions wanted = DimensionsOf(input);
  // The first dimension of a gathered input is the one by which the request is split.
  if (node.config.gather_from_node && !wanted.empty()) wanted.erase(wanted.begin());
  if (definition.config.demultiply_count) {
    wanted.insert(wanted.begin(), SizeOfShards(*definition.config.demultiply_count));
  }
  return wanted;
}

}  // namespace

void PipelineDefinition::AddNode(PipelineNode node) {
  indexes_.emplace(node.config.name, nodes_.size());
  nodes_.push_back(std::move(node));
}

std::optional<size_t> PipelineDefinition::FindNode(std::string_view name) const {
  auto found = indexes_.find(name);
  return found == indexes_.end() ? std::nullopt : std::optional(found->second);
}

bool PipelineDefinition::HasInput(std::string_view name) const {
  return std::find(config.inputs.begin(), config.inputs.end(), name) != config.inputs.end();
}

const TensorSpec* FindSpec(const std::vector<TensorSpec>& specs, std::string_view name) {
  auto found = std::find_if(specs.begin(), specs.end(), [&](const auto& spec) { return spec.name == name; });
  return found == specs.end() ? nullptr : &*found;
}

const OvmsNodeOutput* FindAlias(const OvmsNodeConfig& node, std::string_view alias) {
  auto found = std::find_if(node.outputs.begin(), node.outputs.end(),
                            [&](const auto& output) { return output.alias == alias; });
  return found == node.outputs.end() ? nullptr : &*found;
}

const TensorSpec* FindSource(const PipelineDefinition& definition, const OvmsDataSource& source) {
  const auto index = definition.FindNode(source.node_name);
  if (!index || source.node_name == kRequestNode) return nullptr;
  const PipelineNode& node = definition.nodes()[*index];
  const OvmsNodeOutput* output = FindAlias(node.config, source.data_item);
  return output == nullptr ? nullptr : FindSpec(node.outputs, output->data_item);
}

Dimensions SourceDimensions(const PipelineNode& node, const TensorSpec& output) {
  Dimensions dimensions = DimensionsOf(output);
  if (node.config.demultiply_count && !dimensions.empty()) dimensions.erase(dimensions.begin());
  return dimensions;
}

DimensionRange ShardsOf(const PipelineDefinition& definition, std::string_view node_name) {
  std::optional<int32_t> count;
  if (node_name == kRequestNode) {
    count = definition.config.demultiply_count;
  } else if (const auto node = definition.FindNode(node_name)) {
    count = definition.nodes()[*node].config.demultiply_count;
  }
  return count ? SizeOfShards(*count) : kAnySize;
}

std::vector<size_t> SourcesOf(const PipelineDefinition& definition, const PipelineNode& node) {
  std::vector<size_t> sources;
  for (const OvmsConnection& input : node.config.inputs) {
    const std::string& name = input.source.node_name;
    const auto index = definition.FindNode(name);
    if (index && name != kRequestNode && name != kResponseNode) sources.push_back(*index);
  }
  return sources;
}

std::vector<size_t> SourcesFirst(const PipelineDefinition& definition) {
  const size_t count = definition.nodes().size();
  std::vector<size_t> missing(count);
  std::vector<std::vector<size_t>> consumers(count);
  std::vector<size_t> order;
  for (size_t i = 0; i < count; ++i) {
    const auto sources = SourcesOf(definition, definition.nodes()[i]);
    missing[i] = sources.size();
    for (size_t source : sources) consumers[source].push_back(i);
    if (sources.empty()) order.push_back(i);
  }
  for (size_t next = 0; next < order.size(); ++next) {
    for (size_t consumer : consumers[order[next]]) {
      if (--missing[consumer] == 0) order.push_back(consumer);
    }
  }
  return order;
}

bool IsUsed(const PipelineDefinition& definition, const OvmsDataSource& source) {
  bool used = false;
  ForEachSource(definition, [&](const OvmsDataSource& other) { used = used || other == source; });
  return used;
}

std::vector<std::string> UsedOutputs(const PipelineDefinition& definition, const PipelineNode& node) {
  std::vector<std::string> used;
  for (const OvmsNodeOutput& output : node.config.outputs) {
    if (!IsUsed(definition, {node.config.name, output.alias})) continue;
    if (std::find(used.begin(), used.end(), output.data_item) == used.end()) used.push_back(output.data_item);
  }
  return used;
}

std::vector<std::vector<std::string>> DemultiplexersAround(const PipelineDefinition& definition) {
  std::vector<std::vector<std::string>> around(definition.nodes().size());
  const std::vector<std::string> of_request(definition.config.demultiply_count ? 1 : 0,
                                            std::string(kRequestNode));
  for (size_t index : SourcesFirst(definition)) {
    const OvmsNodeConfig& node = definition.nodes()[index].config;
    // All inputs of a node agree, so one of them is enough.
    if (!node.inputs.empty()) {
      const auto before = definition.FindNode(node.inputs.front().source.node_name);
      around[index] = of_request;
      if (before) {
        around[index] = around[*before];
        if (definition.nodes()[*before].config.demultiply_count) {
          around[index].push_back(definition.nodes()[*before].config.name);
        }
      }
    }
    if (node.gather_from_node && !around[index].empty()) around[index].pop_back();
  }
  return around;
}

std::vector<std::vector<std::string>> OpenDemultiplexers(const PipelineDefinition& definition) {
  auto open = DemultiplexersAround(definition);
  for (size_t index = 0; index < open.size(); ++index) {
    const OvmsNodeConfig& node = definition.nodes()[index].config;
    if (node.demultiply_count) open[index].push_back(node.name);
  }
  return open;
}

std::vector<TensorSpec> PipelineInputs(const PipelineDefinition& definition) {
  std::vector<TensorSpec> inputs;
  for (const std::string& name : definition.config.inputs) {
    if (!IsUsed(definition, {std::string(kRequestNode), name})) continue;
    TensorSpec spec;
    spec.name = name;
    Dimensions dimensions;
    bool consumed = false;
    for (const PipelineNode& node : definition.nodes()) {
      for (const OvmsConnection& input : node.config.inputs) {
        if (input.source.node_name != kRequestNode || input.source.data_item != name) continue;
        const TensorSpec& wanted = *FindSpec(node.inputs, input.name);
        const Dimensions wanted_dimensions = WantedOfRequest(definition, node, wanted);
        dimensions = consumed ? *Intersect(dimensions, wanted_dimensions) : wanted_dimensions;
        if (!consumed) {
          spec.type = wanted.type;
          spec.layout = wanted.layout;
        } else if (spec.layout != wanted.layout) {
          spec.layout.clear();
        }
        consumed = true;
      }
    }
    SetDimensions(dimensions, spec);
    inputs.push_back(std::move(spec));
  }
  return inputs;
}

std::vector<TensorSpec> PipelineOutputs(const PipelineDefinition& definition) {
  const auto open = OpenDemultiplexers(definition);
  const std::vector<TensorSpec> inputs = PipelineInputs(definition);
  std::vector<TensorSpec> outputs;
  for (const OvmsConnection& output : definition.config.outputs) {
    TensorSpec spec;
    if (output.source.node_name == kRequestNode) {
      spec = *FindSpec(inputs, output.source.data_item);
    } else {
      const size_t index = *definition.FindNode(output.source.node_name);
      const TensorSpec& source = *FindSource(definition, output.source);
      spec.type = source.type;
      if (open[index].empty()) spec.layout = source.layout;
      Dimensions dimensions = SourceDimensions(definition.nodes()[index], source);
      for (size_t i = open[index].size(); i-- > 0;) {
        dimensions.insert(dimensions.begin(), ShardsOf(definition, open[index][i]));
      }
      SetDimensions(dimensions, spec);
    }
    spec.name = output.name;
    outputs.push_back(std::move(spec));
  }
  return outputs;
}

std::optional<StatefulSpec> PipelineSequences(const PipelineDefinition& definition) {
  std::optional<StatefulSpec> sequences;
  for (const PipelineNode& node : definition.nodes()) {
    if (!node.stateful) continue;
    if (!sequences)
      sequences = StatefulSpec{.states = {}, .max_sequences = UINT32_MAX, .allow_in_pipelines = true};
    sequences->max_sequences = std::min(sequences->max_sequences, node.stateful->max_sequences);
  }
  return sequences;
}

DagSpec MakeDagSpec(const PipelineDefinition& definition) {
  DagSpec spec;
  spec.gather_outputs = true;
  spec.demultiply = definition.config.demultiply_count.value_or(Dag::kWhole);
  for (const std::string& name : definition.config.inputs) {
    if (IsUsed(definition, {std::string(kRequestNode), name})) spec.inputs.push_back(name);
  }
  for (const OvmsConnection& output : definition.config.outputs) {
    spec.outputs.push_back({output.name, TensorName(definition, output.source), false});
  }
  for (const PipelineNode& node : definition.nodes()) {
    NodeSpec made;
    made.name = "node '" + node.config.name + "'";
    made.demultiply = node.config.demultiply_count.value_or(Dag::kWhole);
    if (node.config.gather_from_node) {
      const auto from = definition.FindNode(*node.config.gather_from_node);
      made.gather_from = from ? static_cast<uint32_t>(*from) : Dag::kRequest;
    }
    for (const OvmsConnection& input : node.config.inputs) {
      made.inputs.push_back({input.name, TensorName(definition, input.source), false});
    }
    for (const std::string& output : UsedOutputs(definition, node)) {
      made.outputs.push_back({output, node.config.name + "\n" + output, false});
    }
    spec.nodes.push_back(std::move(made));
  }
  return spec;
}

std::vector<PrecisionChange> PrecisionChanges(const PipelineDefinition& definition) {
  std::vector<PrecisionChange> changes;
  const std::vector<TensorSpec> of_request = PipelineInputs(definition);
  for (size_t i = 0; i < definition.nodes().size(); ++i) {
    const PipelineNode& node = definition.nodes()[i];
    for (const OvmsConnection& input : node.config.inputs) {
      const TensorSpec* from = input.source.node_name == kRequestNode
                                   ? FindSpec(of_request, input.source.data_item)
                                   : FindSource(definition, input.source);
      const TensorSpec* to = FindSpec(node.inputs, input.name);
      if (from->type != to->type) changes.push_back({i, input.name, to->type});
    }
  }
  return changes;
}

}  // namespace braid
