// PipelineDefinition: an entry of `pipeline_config_list` together with what is known of the models and
// libraries behind its nodes. Plain data: the rules (pipeline_check.h), the metadata and the DAG are
// functions of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "config/ovms_config.h"
#include "pipeline/dag.h"
#include "pipeline/dimensions.h"
#include "serving/servable.h"

namespace braid {

// The names under which a pipeline's inputs and outputs are nodes of it.
inline constexpr std::string_view kRequestNode = "request";
inline constexpr std::string_view kResponseNode = "response";

struct PipelineNode {
  OvmsNodeConfig config;
  // Why nothing is known of what stands behind the node: of its library, and of its model or of what the
  // library says about itself.
  Status library;
  Status behind;
  // Whether its inputs and outputs are known; where not, what is connected to them is not compared.
  bool known = false;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  // It is a model of a config.json.
  bool config_model = false;
  bool automatic_shape = false;
  bool decoupled = false;
  // Set where clients name sequences to what stands behind the node.
  std::optional<StatefulSpec> stateful;
  int64_t version = 0;  // which of the model's was found
};

class PipelineDefinition {
 public:
  explicit PipelineDefinition(OvmsPipelineConfig config) : config(std::move(config)) {}

  void AddNode(PipelineNode node);

  // The first node of that name.
  std::optional<size_t> FindNode(std::string_view name) const;
  bool HasInput(std::string_view name) const;
  const std::vector<PipelineNode>& nodes() const { return nodes_; }

  const OvmsPipelineConfig config;

 private:
  std::vector<PipelineNode> nodes_;  // one for each of the configuration's, in order
  std::map<std::string, size_t, std::less<>> indexes_;
};

// By name; null when there is none.
const TensorSpec* FindSpec(const std::vector<TensorSpec>& specs, std::string_view name);
// The output that an alias stands for; null when there is none.
const OvmsNodeOutput* FindAlias(const OvmsNodeConfig& node, std::string_view alias);

// The output of a node that a source names; null where the source is the request, or where the names lead
// nowhere.
const TensorSpec* FindSource(const PipelineDefinition& definition, const OvmsDataSource& source);
// The dimensions of its shards when the node is a demultiplexer, else its own.
Dimensions SourceDimensions(const PipelineNode& node, const TensorSpec& output);
// How many shards of `node_name` ("request" too) there are, as a dimension; any number when it is none.
DimensionRange ShardsOf(const PipelineDefinition& definition, std::string_view node_name);

// The nodes that a node waits for; one that it waits for twice stands here twice.
std::vector<size_t> SourcesOf(const PipelineDefinition& definition, const PipelineNode& node);
// All nodes, sources before those that take from them; without those that wait for each other and those
// behind them.
std::vector<size_t> SourcesFirst(const PipelineDefinition& definition);

// Whether any input or output of the pipeline or of a node takes it.
bool IsUsed(const PipelineDefinition& definition, const OvmsDataSource& source);
// The outputs that are used, as the model names them, each once.
std::vector<std::string> UsedOutputs(const PipelineDefinition& definition, const PipelineNode& node);

// The demultiplexers for whose shards a node runs one by one, outermost first; by node. "request" for the
// request's own. REQUIRES: no fault in cycles and in the order of gathers.
std::vector<std::vector<std::string>> DemultiplexersAround(const PipelineDefinition& definition);
// Those whose shards are not gathered where a node's outputs leave it: these, and the node itself.
std::vector<std::vector<std::string>> OpenDemultiplexers(const PipelineDefinition& definition);

// What clients read. REQUIRES: no fault.
std::vector<TensorSpec> PipelineInputs(const PipelineDefinition& definition);
std::vector<TensorSpec> PipelineOutputs(const PipelineDefinition& definition);
// Set when nodes have sequences, which are then those of the pipeline's clients, too: as many as each node
// allows, and no states of the pipeline's own.
std::optional<StatefulSpec> PipelineSequences(const PipelineDefinition& definition);

// What runs. REQUIRES: no fault.
DagSpec MakeDagSpec(const PipelineDefinition& definition);

// Inputs of nodes whose tensors come in another precision, with their own.
struct PrecisionChange {
  size_t node = 0;
  std::string input;
  DataType to = DataType::kInvalid;
};
std::vector<PrecisionChange> PrecisionChanges(const PipelineDefinition& definition);

}  // namespace braid
