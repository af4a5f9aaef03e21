#include "pipeline/pipeline_check.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "pipeline/convert_precision.h"
#include "serving/sequence_inputs.h"

namespace braid {
namespace {

std::string Quoted(std::string_view name) { return std::string("'").append(name).append("'"); }
std::string NodeText(const PipelineNode& node) { return "node " + Quoted(node.config.name); }
std::string InputText(const PipelineNode& node, const std::string& input) {
  return NodeText(node) + ", input " + Quoted(input);
}
std::string TypeText(DataType type) { return std::string(WireName(type)); }

// Returns whether a source exists; adds its faults. `spec` is set to the output of a node if its model is
// known.
bool CheckSource(const PipelineDefinition& definition, const OvmsDataSource& source, const std::string& where,
                 PipelineFaults& faults, const TensorSpec*& spec) {
  spec = nullptr;
  if (source.node_name == kResponseNode) {
    faults.Add(Fault::kPipelineExitUsedAsDependency, where, "takes its data from 'response'");
    return false;
  }
  if (source.node_name == kRequestNode) {
    if (definition.HasInput(source.data_item)) return true;
    faults.Add(Fault::kPipelineMissingDataSource, where,
               "takes " + Quoted(source.data_item) + ", which is not among the pipeline's inputs");
    return false;
  }
  const auto index = definition.FindNode(source.node_name);
  if (!index) {
    faults.Add(Fault::kPipelineMissingNode, where, "takes its data from node " + Quoted(source.node_name));
    return false;
  }
  const PipelineNode& node = definition.nodes()[*index];
  const OvmsNodeOutput* output = FindAlias(node.config, source.data_item);
  if (output == nullptr) {
    faults.Add(Fault::kPipelineMissingDataSource, where,
               "takes " + Quoted(source.data_item) + ", which is not an alias among the outputs of " +
                   NodeText(node));
    return false;
  }
  if (!node.known) return true;
  spec = FindSpec(node.outputs, output->data_item);
  if (spec != nullptr) return true;
  faults.Add(Fault::kPipelineMissingModelOutput, where,
             "takes " + Quoted(source.data_item) + ", for which " + NodeText(node) + " names output " +
                 Quoted(output->data_item) + "; it does not exist");
  return false;
}

// Checks the shape and precision of a producer's output against a consumer's input.
void CheckFit(const PipelineDefinition& definition, const PipelineNode& from, const TensorSpec& output,
              const PipelineNode& to, const TensorSpec& input, const std::string& where,
              PipelineFaults& faults) {
  Dimensions given = SourceDimensions(from, output);
  if (to.config.gather_from_node) {
    given.insert(given.begin(), ShardsOf(definition, *to.config.gather_from_node));
  }
  const Dimensions wanted = DimensionsOf(input);
  // A tensor without type and shape is compatible with all.
  const bool compared = output.type != DataType::kInvalid && input.type != DataType::kInvalid;
  const std::string source = " of output " + Quoted(output.name) + " of " + NodeText(from);
  if (compared && !Intersect(given, wanted)) {
    faults.Add(Fault::kInvalidShape, where,
               "Expected: " + ToString(wanted) + "; Actual: " + ToString(given) + source);
  }
  if (compared && output.type != input.type) {
    const std::string text = "Expected: " + TypeText(input.type) + "; Actual: " + TypeText(output.type);
    if (!definition.config.convert_precision) {
      faults.Add(Fault::kInvalidPrecision, where,
                 text + source + " (\"convert_precision\": true of the pipeline converts it)");
    } else if (!CanConvert(output.type, input.type)) {
      faults.Add(Fault::kInvalidPrecision, where, text + source + ", which cannot be converted");
    }
  }
  if (output.type == DataType::kBytes && from.config_model && to.config_model) {
    faults.Add(
        Fault::kNotImplemented, where,
        "a string tensor between two models," + source + "; strings can only enter and leave the pipeline");
  }
}

std::string ListOf(const std::vector<std::string>& open) {
  std::string text;
  for (const std::string& name : open) text += (text.empty() ? "" : ", ") + Quoted(name);
  return text.empty() ? "no demultiplexer" : text;
}

// ---- the pipeline as a whole ----

void CheckLibraries(const PipelineDefinition& definition, PipelineFaults& faults) {
  for (const PipelineNode& node : definition.nodes()) {
    if (!node.library.ok()) faults.Add(node.library, NodeText(node));
  }
}

// The pipeline has outputs, and no input is listed twice.
void CheckEnds(const PipelineDefinition& definition, PipelineFaults& faults) {
  if (definition.config.outputs.empty()) {
    faults.Add(Fault::kPipelineMissingEntryOrExit, "", "it has no outputs");
  }
  std::set<std::string_view> seen;
  for (const std::string& input : definition.config.inputs) {
    if (!seen.insert(input).second) {
      faults.Add(Fault::kPipelineAmbiguousInputMetadata, "input " + Quoted(input), "is listed twice");
    }
  }
}

// A dynamic demultiplexer is the only demultiplexer.
void CheckDemultiplexers(const PipelineDefinition& definition, PipelineFaults& faults) {
  std::vector<std::string> all;
  bool dynamic = false;
  auto look = [&](const std::optional<int32_t>& count, std::string_view name) {
    if (!count) return;
    all.emplace_back(name);
    dynamic = dynamic || *count <= 0;
  };
  look(definition.config.demultiply_count, kRequestNode);
  for (const PipelineNode& node : definition.nodes()) look(node.config.demultiply_count, node.config.name);
  if (dynamic && all.size() > 1) {
    faults.Add(Fault::kNotImplemented, "",
               "a dynamic demultiplexer must be the only one; there are " + ListOf(all));
  }
}

// ---- one node ----

void CheckNodeName(const PipelineDefinition& definition, size_t index, PipelineFaults& faults) {
  const PipelineNode& node = definition.nodes()[index];
  if (node.config.name == kRequestNode || node.config.name == kResponseNode) {
    faults.Add(Fault::kPipelineNodeNameDuplicate, NodeText(node),
               "the name is reserved for the pipeline's inputs or outputs");
  } else if (definition.FindNode(node.config.name) != index) {
    faults.Add(Fault::kPipelineNodeNameDuplicate, NodeText(node),
               "number " + std::to_string(index + 1) + " has the name of number " +
                   std::to_string(*definition.FindNode(node.config.name) + 1));
  }
  for (size_t i = 0; i < node.config.outputs.size(); ++i) {
    const OvmsNodeOutput& output = node.config.outputs[i];
    const OvmsNodeOutput& first = *FindAlias(node.config, output.alias);
    if (first.data_item == output.data_item) continue;
    faults.Add(Fault::kPipelineMissingDataSource, NodeText(node) + ", output " + Quoted(output.data_item),
               "alias " + Quoted(output.alias) + " already stands for output " + Quoted(first.data_item));
  }
}

void CheckModel(const PipelineDefinition& definition, size_t index, PipelineFaults& faults) {
  const PipelineNode& node = definition.nodes()[index];
  if (!node.behind.ok()) faults.Add(node.behind, NodeText(node));
  if (!node.known) return;
  if (node.automatic_shape && !definition.config.allow_auto_shape) {
    faults.Add(Fault::kPipelineForbiddenModelDynamicParameter, NodeText(node),
               "model " + Quoted(node.config.model_name) +
                   " (\"allow_auto_shape\": true of the pipeline allows it)");
  }
  if (node.decoupled) {
    faults.Add(Fault::kNotImplemented, NodeText(node),
               "model " + Quoted(node.config.model_name) +
                   " is decoupled, but a pipeline node answers once; use it in an ensemble");
  }
}

// Used outputs of a demultiplexer can be split into the same number of shards.
void CheckScatter(const PipelineDefinition& definition, size_t index, PipelineFaults& faults) {
  const PipelineNode& node = definition.nodes()[index];
  if (!node.config.demultiply_count || !node.known) return;
  for (const std::string& name : UsedOutputs(definition, node)) {
    const TensorSpec* output = FindSpec(node.outputs, name);
    if (output == nullptr || output->type == DataType::kInvalid) continue;
    const std::string where = NodeText(node) + ", output " + Quoted(name);
    if (output->type == DataType::kBytes) {
      faults.Add(Fault::kPipelineStringDemultiplicationUnsupported, where, "");
      continue;
    }
    const Dimensions dimensions = DimensionsOf(*output);
    if (dimensions.size() < 2) {
      faults.Add(Fault::kPipelineNotEnoughShapeDimensionsToDemultiply, where,
                 "shape " + ToString(dimensions) + " has fewer than 2 dimensions");
      continue;
    }
    const int32_t count = *node.config.demultiply_count;
    if (count > 0 && !Contains(dimensions[0], count)) {
      faults.Add(
          Fault::kPipelineDemultiplyCountDoesNotMatch, where,
          "demultiply_count is " + std::to_string(count) + ", but the shape is " + ToString(dimensions));
    }
  }
}

void CheckGatherTarget(const PipelineDefinition& definition, size_t index, PipelineFaults& faults) {
  const PipelineNode& node = definition.nodes()[index];
  if (!node.config.gather_from_node) return;
  const std::string& from = *node.config.gather_from_node;
  const auto target = definition.FindNode(from);
  if (!target && from != kRequestNode) {
    faults.Add(Fault::kPipelineGatherFromNotExistingNode, NodeText(node), "gathers from " + Quoted(from));
    return;
  }
  const bool splits = from == kRequestNode ? definition.config.demultiply_count.has_value()
                                           : definition.nodes()[*target].config.demultiply_count.has_value();
  if (splits) return;
  faults.Add(Fault::kPipelineGatherFromNotDemultiplexer, NodeText(node),
             "gathers from " + Quoted(from) + ", which has no demultiply_count");
}

// Each input of the node has one source, which exists and fits.
void CheckInputs(const PipelineDefinition& definition, size_t index, PipelineFaults& faults) {
  const PipelineNode& node = definition.nodes()[index];
  std::set<std::string_view> fed;
  for (const OvmsConnection& input : node.config.inputs) {
    const std::string where = InputText(node, input.name);
    const TensorSpec* output = nullptr;
    const bool found = CheckSource(definition, input.source, where, faults, output);
    if (!fed.insert(input.name).second) {
      faults.Add(Fault::kPipelineInputConnectedTwice, where, "");
      continue;
    }
    if (!node.known) continue;
    const TensorSpec* spec = FindSpec(node.inputs, input.name);
    if (spec == nullptr) {
      faults.Add(Fault::kPipelineMissingModelInput, where, "the input does not exist");
    } else if (found && output != nullptr) {
      const PipelineNode& from = definition.nodes()[*definition.FindNode(input.source.node_name)];
      CheckFit(definition, from, *output, node, *spec, where, faults);
    }
  }
  if (!node.known) return;
  for (const TensorSpec& spec : node.inputs) {
    if (spec.optional || fed.contains(spec.name)) continue;
    faults.Add(Fault::kPipelineNotAllInputsConnected, InputText(node, spec.name), "");
  }
}

// Each output of the pipeline has one source, which exists.
void CheckOutputs(const PipelineDefinition& definition, PipelineFaults& faults) {
  std::set<std::string_view> seen;
  for (const OvmsConnection& output : definition.config.outputs) {
    const std::string where = "output " + Quoted(output.name);
    const TensorSpec* spec = nullptr;
    CheckSource(definition, output.source, where, faults, spec);
    if (!seen.insert(output.name).second) {
      faults.Add(Fault::kPipelineInputConnectedTwice, where, "");
    }
  }
}

// ---- the DAG as a whole ----

// Returns whether there are no cycles.
bool CheckCycles(const PipelineDefinition& definition, PipelineFaults& faults) {
  const size_t count = definition.nodes().size();
  const std::vector<size_t> order = SourcesFirst(definition);
  if (order.size() == count) return true;
  // The other nodes are in cycles or behind them.
  std::vector<bool> missing(count, true);
  for (size_t index : order) missing[index] = false;
  // The way backwards from any of them leads into a cycle; each cycle is reported once.
  std::vector<size_t> round(count, 0);
  for (size_t start = 0, number = 1; start < count; ++start, ++number) {
    if (!missing[start] || round[start] != 0) continue;
    std::vector<size_t> path;
    size_t at = start;
    while (round[at] == 0) {
      round[at] = number;
      path.push_back(at);
      const auto sources = SourcesOf(definition, definition.nodes()[at]);
      at = *std::find_if(sources.begin(), sources.end(), [&](size_t source) { return missing[source]; });
    }
    if (round[at] != number) continue;
    std::string text = Quoted(definition.nodes()[at].config.name);
    for (size_t i = path.size(); i-- > 0;) {
      text += " -> " + Quoted(definition.nodes()[path[i]].config.name);
      if (path[i] == at) break;
    }
    faults.Add(Fault::kPipelineCycleFound, "", text);
  }
  return false;
}

// The response can be reached from every node.
void CheckConnected(const PipelineDefinition& definition, PipelineFaults& faults) {
  std::vector<bool> reached(definition.nodes().size());
  std::vector<size_t> next;
  auto reach = [&](size_t node) {
    if (!reached[node]) next.push_back(node);
    reached[node] = true;
  };
  for (const OvmsConnection& output : definition.config.outputs) {
    if (const auto node = definition.FindNode(output.source.node_name)) reach(*node);
  }
  while (!next.empty()) {
    const size_t node = next.back();
    next.pop_back();
    for (size_t source : SourcesOf(definition, definition.nodes()[node])) reach(source);
  }
  for (size_t i = 0; i < reached.size(); ++i) {
    // A duplicate name has its own fault.
    if (reached[i] || definition.FindNode(definition.nodes()[i].config.name) != i) continue;
    faults.Add(Fault::kPipelineUnconnectedNodes, NodeText(definition.nodes()[i]), "");
  }
}

// The innermost open demultiplexer is gathered first, and all paths into a node have the same ones open.
// REQUIRES: no cycles.
void CheckGatherOrder(const PipelineDefinition& definition, PipelineFaults& faults) {
  using Open = std::vector<std::string>;
  // The open demultiplexers behind each node; nothing if a fault makes them uncertain.
  std::vector<std::optional<Open>> open(definition.nodes().size());
  const Open of_request(definition.config.demultiply_count ? 1 : 0, std::string(kRequestNode));

  // Returns the open demultiplexers at the meeting point of `connections`.
  auto meet = [&](const std::vector<OvmsConnection>& connections,
                  const std::string& where) -> std::optional<Open> {
    std::optional<Open> met;
    const OvmsConnection* first = nullptr;
    for (const OvmsConnection& connection : connections) {
      const auto node = definition.FindNode(connection.source.node_name);
      if (!node && connection.source.node_name != kRequestNode) return std::nullopt;
      const std::optional<Open>& here = node ? open[*node] : std::optional(of_request);
      if (!here) return std::nullopt;
      if (!met) {
        met = here;
        first = &connection;
      } else if (*met != *here) {
        faults.Add(Fault::kPipelineWrongDemultiplexerGatherOrder, where,
                   "takes " + Quoted(first->source.data_item) + " of " + Quoted(first->source.node_name) +
                       " from inside " + ListOf(*met) + " and " + Quoted(connection.source.data_item) +
                       " of " + Quoted(connection.source.node_name) + " from inside " + ListOf(*here));
        return std::nullopt;
      }
    }
    return met ? met : Open();
  };

  for (size_t i : SourcesFirst(definition)) {
    const PipelineNode& node = definition.nodes()[i];
    open[i] = meet(node.config.inputs, NodeText(node));
    if (!open[i]) continue;
    if (const auto& from = node.config.gather_from_node) {
      if (open[i]->empty() || open[i]->back() != *from) {
        faults.Add(Fault::kPipelineWrongDemultiplexerGatherOrder, NodeText(node),
                   "gathers from " + Quoted(*from) + " inside " + ListOf(*open[i]));
        open[i].reset();
        continue;
      }
      open[i]->pop_back();
    }
    if (node.config.demultiply_count) open[i]->push_back(node.config.name);
  }
  meet(definition.config.outputs, "response");
}

// Models with state between requests allow pipelines, run once per request, and no tensor has the name of a
// sequence tensor. REQUIRES: no cycles, and no fault of CheckGatherOrder().
void CheckSequences(const PipelineDefinition& definition, PipelineFaults& faults) {
  const auto around = DemultiplexersAround(definition);
  std::map<std::pair<std::string, int64_t>, std::string> nodes;  // by model and version
  for (size_t i = 0; i < definition.nodes().size(); ++i) {
    const PipelineNode& node = definition.nodes()[i];
    if (!node.stateful) continue;
    const std::string model = "model " + Quoted(node.config.model_name);
    if (!node.stateful->allow_in_pipelines) {
      faults.Add(Fault::kPipelineStatefulModel, NodeText(node),
                 model + " (\"allow_in_pipelines\": true in the model's entry allows it)");
      continue;
    }
    if (!around[i].empty()) {
      faults.Add(Fault::kNotImplemented, NodeText(node),
                 model + " is stateful and would run once for each piece of " + ListOf(around[i]) +
                     "; a request can run it only once");
    }
    const auto [first, added] =
        nodes.emplace(std::pair(node.config.model_name, node.version), node.config.name);
    if (!added) {
      faults.Add(Fault::kNotImplemented, NodeText(node),
                 model + " is stateful and already used by node " + Quoted(first->second) +
                     "; a request can run it only once");
    }
  }
  if (nodes.empty()) return;
  const auto check_name = [&faults](const std::string& name, std::string_view what) {
    if (name != kSequenceIdInput && name != kSequenceControlInput) return;
    faults.Add(Fault::kNotImplemented, std::string(what).append(Quoted(name)),
               "the name is reserved for the sequences of stateful models");
  };
  for (const std::string& input : definition.config.inputs) check_name(input, "input ");
  for (const OvmsConnection& output : definition.config.outputs) check_name(output.name, "output ");
}

// ---- the request ----

// The consumers of an input of the pipeline agree on its type and shape.
void CheckRequestInputs(const PipelineDefinition& definition, PipelineFaults& faults) {
  struct Consumer {
    std::string where;
    DataType type;
    Dimensions dimensions;
  };
  for (const std::string& name : definition.config.inputs) {
    std::optional<Consumer> met;
    for (const PipelineNode& node : definition.nodes()) {
      if (!node.known) continue;
      for (const OvmsConnection& input : node.config.inputs) {
        if (input.source.node_name != kRequestNode || input.source.data_item != name) continue;
        const TensorSpec* spec = FindSpec(node.inputs, input.name);
        if (spec == nullptr) continue;
        Dimensions dimensions = DimensionsOf(*spec);
        const std::string where = InputText(node, input.name);
        if (node.config.gather_from_node && !dimensions.empty()) dimensions.erase(dimensions.begin());
        if (!met) {
          met = Consumer{where, spec->type, std::move(dimensions)};
          continue;
        }
        const auto both = Intersect(met->dimensions, dimensions);
        if (!both) {
          faults.Add(
              Fault::kPipelineAmbiguousInputMetadata, "input " + Quoted(name),
              ToString(met->dimensions) + " as " + met->where + ", " + ToString(dimensions) + " as " + where);
        } else {
          met->dimensions = *both;
        }
        const bool converted = definition.config.convert_precision && CanConvert(met->type, spec->type);
        if (met->type != spec->type && !converted) {
          faults.Add(
              Fault::kPipelineAmbiguousInputMetadata, "input " + Quoted(name),
              TypeText(met->type) + " as " + met->where + ", " + TypeText(spec->type) + " as " + where);
        }
      }
    }
  }
}

}  // namespace

void CheckDefinition(const PipelineDefinition& definition, PipelineFaults& faults) {
  CheckLibraries(definition, faults);
  CheckEnds(definition, faults);
  CheckDemultiplexers(definition, faults);
  for (size_t node = 0; node < definition.nodes().size(); ++node) {
    CheckNodeName(definition, node, faults);
    CheckModel(definition, node, faults);
    CheckScatter(definition, node, faults);
    CheckGatherTarget(definition, node, faults);
    CheckInputs(definition, node, faults);
  }
  CheckOutputs(definition, faults);
  const bool acyclic = CheckCycles(definition, faults);
  // A missing node already has a fault; the nodes connected to it would get another one.
  if (!faults.Has(Fault::kPipelineMissingNode)) CheckConnected(definition, faults);
  if (acyclic) CheckGatherOrder(definition, faults);
  if (acyclic && !faults.Has(Fault::kPipelineWrongDemultiplexerGatherOrder)) {
    CheckSequences(definition, faults);
  }
  CheckRequestInputs(definition, faults);
}

}  // namespace braid
