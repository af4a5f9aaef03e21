// OvmsConfig: the config.json of OpenVINO Model Server, with models, pipelines, custom node libraries and
// graphs. The options of a single model on the command line become the same structures.
//
//   BRAID_ASSIGN_OR_RETURN(OvmsConfig config, ParseOvmsConfig(text, "/etc/braid"));
//
// Plain data; all functions are pure and thread-safe. The parser checks keys, types and ranges. A model with
// an invalid value (for example a malformed shape) carries its fault, so that the other models can be served.
// Code that loads the models checks everything that depends on models and files, for example whether nodes
// fit together.
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

// A `shape`: "auto", or dimensions. A dimension is a number, -1 (any size) or a range "1:8".
struct OvmsShape {
  bool automatic = false;
  std::vector<DimensionRange> dimensions;
  bool operator==(const OvmsShape&) const = default;
};

// A `layout`: the order of the client's dimensions and, after a colon, of the model's.
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
  // Absolute, or the URL of an object store (StorageUrl::text); contains the version folders.
  std::string base_path;
  // nullopt: the model decides. Has no effect if a shape is given.
  std::optional<OvmsBatchSize> batch_size;
  // By input; "" is the model's only input.
  std::map<std::string, OvmsShape> shapes;
  // By input or output; "" is the model's only input.
  std::map<std::string, OvmsLayout> layouts;
  // 0: the device's optimal number of infer requests.
  uint32_t nireq = 0;
  std::string target_device = "CPU";
  std::map<std::string, std::variant<std::string, bool, int64_t, double>> plugin_config;
  // Whether compiled models are kept in the cache folder.
  bool allow_cache = true;
  OvmsVersionPolicy version_policy;
  // Names of precisions ("FP32") by input or output; "" is the only input.
  std::map<std::string, std::string> precisions;
  // For image inputs: one number, or one per channel.
  std::vector<double> mean;
  std::vector<double> scale;
  // "RGB:BGR" and the like: the client's format, then the model's.
  std::string color_format;
  bool stateful = false;
  bool idle_sequence_cleanup = true;
  bool low_latency_transformation = false;
  uint32_t max_sequence_number = 500;
  // Specific to Braid: whether nodes of pipelines and sessions of graphs may use this stateful model.
  bool allow_in_pipelines = false;
  // Specific to Braid: whether the model runs in a native worker. nullopt: --isolate decides.
  std::optional<bool> isolate;
  // With a graph.pbtxt, the entry is a graph's; see GraphOfModelEntry().
  std::string graph_path;
  std::string subconfig;
  // The error in this entry's values. The model is known but cannot be loaded.
  Status fault;
  bool operator==(const OvmsModelConfig&) const = default;
};

struct OvmsCustomNodeLibrary {
  std::string name;
  std::string base_path;  // absolute path of the .so
  // Specific to Braid: whether its nodes run in native workers. nullopt: --isolate decides.
  std::optional<bool> isolate;
  Status fault;  // why the path cannot be used
  bool operator==(const OvmsCustomNodeLibrary&) const = default;
};

// The source of an input: a node's output by its alias, or the request's ("request") by its name.
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
  std::string data_item;  // the model's or library's name for it
  std::string alias;      // the other nodes' name for it
  bool operator==(const OvmsNodeOutput&) const = default;
};

struct OvmsNodeConfig {
  enum class Type : unsigned char { kModel, kCustom } type = Type::kModel;
  std::string name;
  std::string model_name;    // for kModel
  std::string library_name;  // for kCustom
  std::optional<int64_t> version;
  std::vector<std::pair<std::string, std::string>> params;
  std::vector<OvmsConnection> inputs;
  std::vector<OvmsNodeOutput> outputs;
  // -1 is dynamic (also for a 0 in the file), above 0 is fixed.
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
  // Specific to Braid, off by default: models with automatic batch or shape may be nodes, and tensors are
  // converted to the next node's precision ("allow_auto_shape", "convert_precision" of the entry).
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
  // Log messages about accepted values with a surprising meaning (demultiply_count 0, a second entry with the
  // same name).
  std::vector<std::string> warnings;
};

// Parses a config.json; relative paths are relative to `folder`. Errors: FAILED_PRECONDITION (kJsonInvalid)
// with the place of the syntax error, or with all unknown keys and wrong types by path
// ("/model_config_list/0/config/nireq: ..."). UNSUPPORTED for a feature that this server does not have.
Result<OvmsConfig> ParseOvmsConfig(std::string_view text, const std::string& folder);

// One fault of a file, with its place.
struct OvmsFault {
  std::string path;  // "/model_config_list/0/config/nireq"
  std::string what;
  bool unsupported = false;  // a feature that this server does not have
  // For an unknown key: the keys that its object may have.
  std::vector<std::string> keys = {};
};
// Like above. Collects in `faults` the file's faults, and those that affect single entries.
Result<OvmsConfig> ParseOvmsConfig(std::string_view text, const std::string& folder,
                                   std::vector<OvmsFault>& faults);

// Parses a graph's subconfig, which has only {"model_config_list": [...]}. Log messages go to `warnings`.
Result<std::vector<OvmsModelConfig>> ParseOvmsSubconfig(std::string_view text, const std::string& folder,
                                                        std::vector<std::string>& warnings);
Result<std::vector<OvmsModelConfig>> ParseOvmsSubconfig(std::string_view text, const std::string& folder,
                                                        std::vector<std::string>& warnings,
                                                        std::vector<OvmsFault>& faults);

// Returns the graph of a model entry, for the case that its folder has a graph.pbtxt.
OvmsGraphConfig GraphOfModelEntry(const OvmsModelConfig& entry);

// Errors: INVALID_ARGUMENT "Invalid name in metrics_list" for a metric that does not exist.
Status CheckOvmsMetricNames(const std::vector<std::string>& names);

// Parses the options of one model as texts from the command line; `shape` and others may be JSON or plain
// text. Keys are option names without dashes ("model_name", "model_path", "batch_size", "shape", "layout",
// "nireq", "target_device", "plugin_config", "model_version_policy", "precision", "mean", "scale",
// "color_format", "stateful", ...). Relative paths are relative to `folder`. Errors: INVALID_ARGUMENT that
// names the option.
Result<OvmsModelConfig> ModelConfigFromOptions(const std::map<std::string, std::string>& options,
                                               const std::string& folder);

}  // namespace braid
