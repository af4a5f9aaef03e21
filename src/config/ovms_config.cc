#include "config/ovms_config.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "config/model_name.h"
#include "config/ovms_config_parts.h"
#include "config/storage_url.h"
#include "serving/faults.h"

namespace braid {
namespace {

constexpr std::string_view kDefaultGraph = "graph.pbtxt";
constexpr std::string_view kDefaultSubconfig = "subconfig.json";

bool HasParentPart(const std::string& path) {
  const std::filesystem::path parts(path);
  return std::find(parts.begin(), parts.end(), "..") != parts.end();
}

// Resolves a graph's paths, each relative to the one before.
OvmsGraphConfig MakeGraph(std::string name, const std::string& base_path, const std::string& graph_path,
                          const std::string& subconfig) {
  OvmsGraphConfig graph;
  graph.name = std::move(name);
  graph.base_path = base_path + (base_path.ends_with('/') ? "" : "/");
  graph.graph_path =
      OvmsAbsolutePath(graph_path.empty() ? std::string(kDefaultGraph) : graph_path, base_path);
  graph.subconfig =
      OvmsAbsolutePath(subconfig.empty() ? std::string(kDefaultSubconfig) : subconfig, base_path);
  return graph;
}

class FileReader {
 public:
  FileReader(const std::string& folder, std::vector<std::string>& warnings, std::vector<OvmsFault>& faults)
      : folder_(folder), warnings_(warnings), faults_(faults) {}

  Result<OvmsConfig> Read(std::string_view text, bool models_alone) {
    auto json = ParseJsonText(text, findings_.faults);
    if (!json.ok()) return FaultError(Fault::kJsonInvalid, json.status().message());
    JsonObject root(*json, "", findings_.faults);
    OvmsConfig config;
    ReadModels(root, config);
    if (!models_alone) {
      ReadLibraries(root, config);
      ReadPipelines(root, config);
      ReadGraphs(root, config);
      ReadMonitoring(root, config);
      ReadCustomLoaders(root);
    }
    root.Finish();
    Tell(findings_.faults, false);
    Tell(findings_.unsupported, true);
    if (!findings_.faults.empty()) return FaultError(Fault::kJsonInvalid, findings_.faults.Text());
    if (!findings_.unsupported.empty()) {
      return FaultError(Fault::kNotImplemented, findings_.unsupported.Text());
    }
    if (config.metrics) {
      Status names = CheckOvmsMetricNames(config.metrics->list);
      if (!names.ok()) faults_.push_back({"/monitoring/metrics/metrics_list", names.message()});
      BRAID_RETURN_IF_ERROR(names);
    }
    warnings_.insert(warnings_.end(), findings_.warnings.begin(), findings_.warnings.end());
    return config;
  }

 private:
  void Tell(const JsonFaults& faults, bool unsupported) {
    for (const auto& [path, what, keys] : faults.all()) faults_.push_back({path, what, unsupported, keys});
  }

  // Adds `entry` unless its name exists already.
  template <class Entry>
  void AddFirst(std::vector<Entry>& entries, Entry entry, const std::string& place) {
    const bool known = std::any_of(entries.begin(), entries.end(),
                                   [&entry](const Entry& other) { return other.name == entry.name; });
    if (known) {
      findings_.warnings.push_back(place + ": duplicate name '" + entry.name + "'; the first entry is used");
    } else {
      entries.push_back(std::move(entry));
    }
  }

  void ReadModels(JsonObject& root, OvmsConfig& config) {
    constexpr std::string_view key = "model_config_list";
    root.List(root.Require(key), key, [&](const Json& element, const std::string& place) {
      JsonObject entry(element, place, findings_.faults);
      if (const Json* inside = entry.Require("config")) {
        JsonFaults own;
        OvmsModelConfig model = ReadOvmsModel(*inside, entry.PathOf("config"), folder_, findings_, own);
        Tell(own, false);
        if (!own.empty()) model.fault = InvalidArgumentError(own.Text());
        AddFirst(config.models, std::move(model), place);
      }
      entry.Finish();
    });
  }

  void ReadLibraries(JsonObject& root, OvmsConfig& config) {
    constexpr std::string_view key = "custom_node_library_config_list";
    root.List(root.Get(key), key, [&](const Json& element, const std::string& place) {
      JsonObject entry(element, place, findings_.faults);
      OvmsCustomNodeLibrary library;
      library.name = entry.RequiredText("name").value_or("");
      const std::string path = entry.RequiredText("base_path").value_or("");
      if (HasParentPart(path) || IsUrl(path)) {
        const std::string what =
            "'" + path +
            (IsUrl(path) ? "' is remote; a library must be a local file" : "' must not contain '..'");
        faults_.push_back({entry.PathOf("base_path"), what});
        library.fault = FaultError(Fault::kPathInvalid, entry.PathOf("base_path") + ": " + what);
      }
      library.base_path = OvmsAbsolutePath(path, folder_);
      library.isolate = entry.Bool("isolate");
      entry.Finish();
      AddFirst(config.custom_node_libraries, std::move(library), place);
    });
  }

  void ReadPipelines(JsonObject& root, OvmsConfig& config) {
    constexpr std::string_view key = "pipeline_config_list";
    root.List(root.Get(key), key, [&](const Json& element, const std::string& place) {
      AddFirst(config.pipelines, ReadOvmsPipeline(element, place, findings_), place);
    });
  }

  void ReadGraphs(JsonObject& root, OvmsConfig& config) {
    constexpr std::string_view key = "mediapipe_config_list";
    root.List(root.Get(key), key, [&](const Json& element, const std::string& place) {
      JsonObject entry(element, place, findings_.faults);
      const std::string name = ReadServableName(entry);
      const std::string base_path = entry.Text("base_path").value_or("");
      const std::string graph_path = entry.Text("graph_path").value_or("");
      const std::string subconfig = entry.Text("subconfig").value_or("");
      if (IsUrl(base_path))
        entry.Fault("base_path", "'" + base_path + "' is remote; a graph must be in a local folder");
      entry.Finish();
      AddFirst(config.graphs,
               MakeGraph(name, OvmsAbsolutePath(base_path.empty() ? name : base_path, folder_), graph_path,
                         subconfig),
               place);
    });
  }

  void ReadMonitoring(JsonObject& root, OvmsConfig& config) {
    const Json* value = root.Get("monitoring");
    if (value == nullptr) return;
    JsonObject monitoring(*value, root.PathOf("monitoring"), findings_.faults);
    if (const Json* inside = monitoring.Require("metrics")) {
      JsonObject metrics(*inside, monitoring.PathOf("metrics"), findings_.faults);
      OvmsMetricsConfig read;
      metrics.Require("enable");
      read.enable = metrics.Bool("enable").value_or(false);
      metrics.List(metrics.Get("metrics_list"), "metrics_list",
                   [&](const Json& one, const std::string& place) {
                     if (auto name = ReadJsonText(one, place, findings_.faults))
                       read.list.push_back(std::move(*name));
                   });
      metrics.Finish();
      config.metrics = std::move(read);
    }
    monitoring.Finish();
  }

  void ReadCustomLoaders(JsonObject& root) {
    constexpr std::string_view key = "custom_loader_config_list";
    root.List(root.Get(key), key, [&](const Json&, const std::string& place) {
      findings_.unsupported.Add(place, "custom loaders are not supported");
    });
  }

  const std::string& folder_;
  std::vector<std::string>& warnings_;
  std::vector<OvmsFault>& faults_;
  OvmsFindings findings_;
};

}  // namespace

std::string ReadServableName(JsonObject& object) {
  std::string name = object.RequiredText("name").value_or("");
  if (name.empty()) return name;
  if (const Status status = CheckServableName(name); !status.ok()) object.Fault("name", status.message());
  return name;
}

std::string OvmsAbsolutePath(const std::string& path, const std::string& folder) {
  std::string whole =
      (std::filesystem::path(folder) / std::filesystem::path(path)).lexically_normal().string();
  while (whole.size() > 1 && whole.ends_with('/')) whole.pop_back();
  return whole;
}

Result<OvmsConfig> ParseOvmsConfig(std::string_view text, const std::string& folder) {
  std::vector<OvmsFault> faults;
  return ParseOvmsConfig(text, folder, faults);
}

Result<OvmsConfig> ParseOvmsConfig(std::string_view text, const std::string& folder,
                                   std::vector<OvmsFault>& faults) {
  std::vector<std::string> warnings;
  BRAID_ASSIGN_OR_RETURN(OvmsConfig config, FileReader(folder, warnings, faults).Read(text, false));
  config.warnings = std::move(warnings);
  return config;
}

Result<std::vector<OvmsModelConfig>> ParseOvmsSubconfig(std::string_view text, const std::string& folder,
                                                        std::vector<std::string>& warnings) {
  std::vector<OvmsFault> faults;
  return ParseOvmsSubconfig(text, folder, warnings, faults);
}

Result<std::vector<OvmsModelConfig>> ParseOvmsSubconfig(std::string_view text, const std::string& folder,
                                                        std::vector<std::string>& warnings,
                                                        std::vector<OvmsFault>& faults) {
  BRAID_ASSIGN_OR_RETURN(OvmsConfig config, FileReader(folder, warnings, faults).Read(text, true));
  return std::move(config.models);
}

OvmsGraphConfig GraphOfModelEntry(const OvmsModelConfig& entry) {
  return MakeGraph(entry.name, entry.base_path, entry.graph_path, entry.subconfig);
}

Status CheckOvmsMetricNames(const std::vector<std::string>& names) {
  static const std::set<std::string_view> known = {"ovms_streams",
                                                   "ovms_current_requests",
                                                   "ovms_current_graphs",
                                                   "ovms_requests_success",
                                                   "ovms_requests_fail",
                                                   "ovms_requests_accepted",
                                                   "ovms_requests_rejected",
                                                   "ovms_responses",
                                                   "ovms_request_time_us",
                                                   "ovms_inference_time_us",
                                                   "ovms_wait_for_infer_req_time_us",
                                                   "ovms_infer_req_queue_size",
                                                   "ovms_infer_req_active",
                                                   "ovms_graph_error",
                                                   "ovms_graph_processing_time_us",
                                                   "ovms_graph_request_latency_us",
                                                   "braid_sequences_active",
                                                   "braid_sequences_started",
                                                   "braid_sequences_restored",
                                                   "braid_sequences_ended",
                                                   "braid_sequences_expired",
                                                   "braid_sequences_lost",
                                                   "braid_sequences_rejected",
                                                   "braid_sequence_store_written",
                                                   "braid_sequence_store_failed",
                                                   "braid_sequence_store_taken_over",
                                                   "braid_sequence_store_fenced",
                                                   "braid_sequence_store_unconfirmed",
                                                   "braid_sequence_store_lag_ms"};
  for (const std::string& name : names) {
    if (!known.contains(name)) return InvalidArgumentError("Invalid name in metrics_list - " + name);
  }
  return OkStatus();
}

}  // namespace braid
