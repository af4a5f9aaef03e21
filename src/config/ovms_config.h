// config.json: what an operator of OpenVINO Model Server writes down (models, pipelines, custom node
// libraries, graphs), and the options of a single model on the command line, which become the same thing.
//
//   BRAID_ASSIGN_OR_RETURN(OvmsConfig config, ParseOvmsConfig(text, "/etc/braid"));
//
// All functions are pure; any thread. Plain data. Keys, types and ranges are right after parsing; a model
// whose values are wrong in themselves (a shape that is none) carries its fault, so that the other models can
// be served. What depends on models and files (which inputs a shape is for, whether nodes fit together) is
// checked by those who load them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "serving/servable.h"

namespace braid {

// A `shape`: "auto", or dimensions, each a number, -1 (any size) or a range "1:8".
struct OvmsShape {
  bool automatic = false;
  std::vector<DimensionRange> dimensions;
  bool operator==(const OvmsShape&) const = default;
};

// A `layout`: how the client's dimensions are ordered and, behind a colon, the model's.
struct OvmsLayout {
  std::string tensor;  // "NHWC", "N..."
  std::string model;   // empty: not given
  bool operator==(const OvmsLayout&) const = default;
};

// A `batch_size`.
struct OvmsBatchSize {
  bool automatic = false;
  DimensionRange size;
  bool operator==(const OvmsBatchSize&) const = default;
};

struct OvmsVersionPolicy {
  enum class Kind : unsigned char { kLatest, kAll, kSpecific } kind = Kind::kLatest;
  int64_t latest = 1;
  std::vector<int64_t> specific;
  bool operator==(const OvmsVersionPolicy&) const = default;
};

struct OvmsModelConfig {
  std::string name;
  // Absolute; holds the version folders.
  std::string base_path;
  // Nothing: as the model says. Does nothing where a shape is given.
  std::optional<OvmsBatchSize> batch_size;
  // By input; "" is the model's only input.
  std::map<std::string, OvmsShape> shapes;
  // By input or output; "" is the model's only input.
  std::map<std::string, OvmsLayout> layouts;
  // 0: as many infer requests as the device finds best.
  uint32_t nireq = 0;
  std::string target_device = "CPU";
  std::map<std::string, std::variant<std::string, bool, int64_t, double>> plugin_config;
  // Compiled models are kept in the cache folder.
  bool allow_cache = true;
  OvmsVersionPolicy version_policy;
  // Names of precisions ("FP32") by input or output; "" is the only input.
  std::map<std::string, std::string> precisions;
  // By input, "" is all: one number, or one for each channel.
  std::vector<double> mean;
  std::vector<double> scale;
  // "RGB:BGR" and the like: the client's, and the model's.
  std::string color_format;
  bool stateful = false;
  bool idle_sequence_cleanup = true;
  bool low_latency_transformation = false;
  uint32_t max_sequence_number = 500;
  // Braid's own: nodes of pipelines and sessions of graphs may use this stateful model.
  bool allow_in_pipelines = false;
  // Braid's own: whether the model runs in a native worker. Nothing: as --isolate says.
  std::optional<bool> isolate;
  // A graph.pbtxt named by a model entry makes it a graph's; see GraphOfModelEntry().
  std::string graph_path;
  std::string subconfig;
  // What is wrong with the values of this entry: the model is known and cannot be loaded.
  Status fault;
  bool operator==(const OvmsModelConfig&) const = default;
};

struct OvmsCustomNodeLibrary {
  std::string name;
  std::string base_path;  // absolute path of the .so
  // Braid's own: whether its nodes run in native workers. Nothing: as --isolate says.
  std::optional<bool> isolate;
  Status fault;  // why the path cannot be used
  bool operator==(const OvmsCustomNodeLibrary&) const = default;
};

// What an input takes: an output of a node by its alias, or of the request ("request") by its name.
struct OvmsDataSource {
  std::string node_name;
  std::string data_item;
  bool operator==(const OvmsDataSource&) const = default;
};

// A name and its source, in the order of the file.
struct OvmsConnection {
  std::string name;
  OvmsDataSource source;
  bool operator==(const OvmsConnection&) const = default;
};

struct OvmsNodeOutput {
  std::string data_item;  // as the model or library names it
  std::string alias;      // as other nodes do
  bool operator==(const OvmsNodeOutput&) const = default;
};

struct OvmsNodeConfig {
  enum class Type : unsigned char { kModel, kCustom } type = Type::kModel;
  std::string name;
  std::string model_name;    // of kModel
  std::string library_name;  // of kCustom
  std::optional<int64_t> version;
  std::vector<std::pair<std::string, std::string>> params;
  std::vector<OvmsConnection> inputs;
  std::vector<OvmsNodeOutput> outputs;
  // -1 is dynamic (the file's 0 too), above 0 fixed.
  std::optional<int32_t> demultiply_count;
  std::optional<std::string> gather_from_node;
  bool operator==(const OvmsNodeConfig&) const = default;
};

struct OvmsPipelineConfig {
  std::string name;
  std::vector<std::string> inputs;
  std::vector<OvmsConnection> outputs;
  std::vector<OvmsNodeConfig> nodes;
  std::optional<int32_t> demultiply_count;
  // Braid's own, off unless asked for: models with automatic batch or shape may be nodes, and tensors get the
  // precision that the next node wants ("allow_auto_shape", "convert_precision" of the entry).
  bool allow_auto_shape = false;
  bool convert_precision = false;
  bool operator==(const OvmsPipelineConfig&) const = default;
};

struct OvmsGraphConfig {
  std::string name;
  std::string base_path;   // absolute, with a slash at its end
  std::string graph_path;  // absolute
  std::string subconfig;   // absolute; the file may be missing
  bool operator==(const OvmsGraphConfig&) const = default;
};

struct OvmsMetricsConfig {
  bool enable = false;
  // Empty: the default set.
  std::vector<std::string> list;
  bool operator==(const OvmsMetricsConfig&) const = default;
};

struct OvmsConfig {
  std::vector<OvmsModelConfig> models;
  std::vector<OvmsPipelineConfig> pipelines;
  std::vector<OvmsCustomNodeLibrary> custom_node_libraries;
  std::vector<OvmsGraphConfig> graphs;
  std::optional<OvmsMetricsConfig> metrics;
  // Sentences for the log: what is accepted and means something else than it seems (demultiply_count 0, a
  // second entry of a name).
  std::vector<std::string> warnings;
};

// Reads a config.json; relative paths are relative to `folder`. Errors: FAILED_PRECONDITION (kJsonInvalid)
// with the place of the syntax error, or with the path of each key that is unknown or of a wrong type
// ("/model_config_list/0/config/nireq: ..."), all faults in one message; UNSUPPORTED for a feature that this
// server does not have.
Result<OvmsConfig> ParseOvmsConfig(std::string_view text, const std::string& folder);

// One fault of a file, with its place.
struct OvmsFault {
  std::string path;  // "/model_config_list/0/config/nireq"
  std::string what;
  bool unsupported = false;  // a feature that this server does not have
  // Of a key that there is not: those that there are in its object.
  std::vector<std::string> keys = {};
};
// The same; `faults` gets those of the file, and those of entries that keep these alone from being served.
Result<OvmsConfig> ParseOvmsConfig(std::string_view text, const std::string& folder,
                                   std::vector<OvmsFault>& faults);

// Reads {"model_config_list": [...]} alone: a graph's subconfig. Texts for the log go to `warnings`.
Result<std::vector<OvmsModelConfig>> ParseOvmsSubconfig(std::string_view text, const std::string& folder,
                                                        std::vector<std::string>& warnings);
Result<std::vector<OvmsModelConfig>> ParseOvmsSubconfig(std::string_view text, const std::string& folder,
                                                        std::vector<std::string>& warnings,
                                                        std::vector<OvmsFault>& faults);

// The graph that a model entry is, should its folder hold a graph.pbtxt.
OvmsGraphConfig GraphOfModelEntry(const OvmsModelConfig& entry);

// Errors: INVALID_ARGUMENT "Invalid name in metrics_list" for a metric that does not exist.
Status CheckOvmsMetricNames(const std::vector<std::string>& names);

// The options of one model as texts, as they stand on the command line: `shape` may be JSON or a plain text,
// and so on. By option name without dashes ("model_name", "model_path", "batch_size", "shape", "layout",
// "nireq", "target_device", "plugin_config", "model_version_policy", "precision", "mean", "scale",
// "color_format", "stateful", ...). Relative paths are relative to `folder`. Errors: INVALID_ARGUMENT that
// names the option.
Result<OvmsModelConfig> ModelConfigFromOptions(const std::map<std::string, std::string>& options,
                                               const std::string& folder);

}  // namespace braid
