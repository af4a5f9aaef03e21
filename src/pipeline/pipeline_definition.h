// PipelineDefinition: an entry of `pipeline_config_list` together with all facts about the models and
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

// The node names that stand for the inputs and outputs of a pipeline.
inline constexpr std::string_view kRequestNode = "request";
inline constexpr std::string_view kResponseNode = "response";

struct PipelineNode {
  OvmsNodeConfig config;
  // The errors of finding the node's library, and of finding its model or reading the library's metadata.
  Status library;
  Status behind;
  // Whether its inputs and outputs are known. If not, connections to them are not checked.
  bool known = false;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  // It is a model of a config.json.
  bool config_model = false;
  bool automatic_shape = false;
  bool decoupled = false;
  // Set if clients name sequences to the servable behind the node.
  std::optional<StatefulSpec> stateful;
  int64_t version = 0;  // the version of the model that was found
};

class PipelineDefinition {
 public:
  explicit PipelineDefinition(OvmsPipelineConfig config) : config(std::move(config)) {}

  void AddNode(PipelineNode node);

  // Returns the first node of that name.
  std::optional<size_t> FindNode(std::string_view name) const;
  bool HasInput(std::string_view name) const;
  const std::vector<PipelineNode>& nodes() const { return nodes_; }

  const OvmsPipelineConfig config;

 private:
  std::vector<PipelineNode> nodes_;  // one for each of the configuration's, in order
  std::map<std::string, size_t, std::less<>> indexes_;
};

// Finds a spec by name; null if there is none.
const TensorSpec* FindSpec(const std::vector<TensorSpec>& specs, std::string_view name);
// Returns the output that an alias stands for; null if there is none.
const OvmsNodeOutput* FindAlias(const OvmsNodeConfig& node, std::string_view alias);

// Returns the output of a node that a source names; null if the source is the request or does not exist.
const TensorSpec* FindSource(const PipelineDefinition& definition, const OvmsDataSource& source);
// Returns the dimensions of a shard if the node is a demultiplexer, else those of the output.
Dimensions SourceDimensions(const PipelineNode& node, const TensorSpec& output);
// Returns the number of shards of `node_name` (or "request") as a dimension; any size without a
// demultiplexer.
DimensionRange ShardsOf(const PipelineDefinition& definition, std::string_view node_name);

// Returns the nodes that a node waits for; one that it waits for twice is listed twice.
std::vector<size_t> SourcesOf(const PipelineDefinition& definition, const PipelineNode& node);
// Returns all nodes, sources before their consumers. Leaves out nodes that wait for each other and the nodes
// behind them.
std::vector<size_t> SourcesFirst(const PipelineDefinition& definition);

// Returns whether an output of the pipeline or an input of a node takes `source`.
bool IsUsed(const PipelineDefinition& definition, const OvmsDataSource& source);
// Returns the used outputs, under the model's names, each once.
std::vector<std::string> UsedOutputs(const PipelineDefinition& definition, const PipelineNode& node);

// Returns, by node, the demultiplexers for whose shards the node runs one by one, outermost first. "request"
// stands for the request's own shards. REQUIRES: no fault in cycles and in the order of gathers.
std::vector<std::vector<std::string>> DemultiplexersAround(const PipelineDefinition& definition);
// Returns, by node, the demultiplexers whose shards are not yet gathered behind it: those around it, and the
// node itself.
std::vector<std::vector<std::string>> OpenDemultiplexers(const PipelineDefinition& definition);

// Return the specs that clients see. REQUIRES: no fault.
std::vector<TensorSpec> PipelineInputs(const PipelineDefinition& definition);
std::vector<TensorSpec> PipelineOutputs(const PipelineDefinition& definition);
// Returns the sequences of the pipeline; nothing if no node has sequences. The pipeline allows as many as
// each node does, and has no states itself.
std::optional<StatefulSpec> PipelineSequences(const PipelineDefinition& definition);

// Returns the DAG that runs. REQUIRES: no fault.
DagSpec MakeDagSpec(const PipelineDefinition& definition);

// An input whose tensor arrives in another type, with the input's own type.
struct PrecisionChange {
  size_t node = 0;
  std::string input;
  DataType to = DataType::kInvalid;
};
std::vector<PrecisionChange> PrecisionChanges(const PipelineDefinition& definition);

}  // namespace braid
