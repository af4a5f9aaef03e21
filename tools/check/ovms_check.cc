#include "check/ovms_check.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "check/config_rules.h"
#include "check/graph_check.h"
#include "check/text_file.h"
#include "config/config_file.h"
#include "config/json_reader.h"
#include "config/storage_url.h"
#include "pipeline/built_in_nodes.h"
#include "repository/config_plan.h"
#include "repository/dependency_graph.h"
#include "serving/faults.h"

namespace braid::check {
namespace {

constexpr std::string_view kModels = "/model_config_list";
constexpr std::string_view kPipelines = "/pipeline_config_list";
constexpr std::string_view kLibraries = "/custom_node_library_config_list";
constexpr std::string_view kGraphEntries = "/mediapipe_config_list";
constexpr std::string_view kRefusedPage = "docs/moving-from-ovms.md#what-is-refused-or-is-not-there-yet";

std::string_view Last(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::string FolderOf(const std::string& path) {
  std::error_code fault;
  const std::filesystem::path absolute = std::filesystem::absolute(path, fault);
  return (fault ? std::filesystem::path(path) : absolute).parent_path().string();
}

bool IsFile(const std::string& path) {
  std::error_code fault;
  return std::filesystem::is_regular_file(path, fault);
}

std::vector<std::string> Names(const auto& entries) {
  std::vector<std::string> names;
  for (const auto& entry : entries) names.push_back(entry.name);
  return names;
}

}  // namespace

const OvmsCheck::File* OvmsCheck::ReadFile(const std::string& path, std::string& text) {
  auto read = ReadConfigFile(path);
  if (!read.ok()) {
    findings_.Add({Level::kError, "load", path, {}, read.status().message(), "", "", ""});
    return nullptr;
  }
  text = *std::move(read);
  files_.push_back(std::make_unique<const File>(File{path, JsonFields(text)}));
  return files_.back().get();
}

bool OvmsCheck::CheckModels(const std::string& path) {
  std::string text;
  main_ = ReadFile(path, text);
  if (main_ == nullptr) return false;
  std::vector<OvmsFault> faults;
  auto config = ParseOvmsConfig(text, FolderOf(path), faults);
  AddFaults(*main_, faults, config.status());
  if (!config.ok()) return false;
  ApplyOvmsRules(path, main_->fields, findings_);
  config_ = *std::move(config);
  for (const auto& [list, inside] : {std::pair{kModels, std::string_view("/config")},
                                     {kPipelines, ""},
                                     {kLibraries, ""},
                                     {kGraphEntries, ""}}) {
    NoteTwice(*main_, list, inside);
  }
  std::vector<OvmsModelConfig> plain;
  for (OvmsModelConfig& entry : config_.models) {
    OvmsGraphConfig graph = GraphOfModelEntry(entry);
    const bool known =
        std::ranges::find(config_.graphs, graph.name, &OvmsGraphConfig::name) != config_.graphs.end();
    if (!IsFile(graph.graph_path)) {
      plain.push_back(std::move(entry));
    } else if (!known) {
      config_.graphs.push_back(std::move(graph));
    }
  }
  config_.models = std::move(plain);
  for (const OvmsModelConfig& model : config_.models) {
    models_.emplace_back(EntryOf(*main_, kModels, "/config", model.name), model);
  }
  for (const OvmsGraphConfig& graph : config_.graphs) AddSubconfig(graph, path);
  for (const auto& [entry, model] : models_) CheckModel(entry, model);
  return true;
}

void OvmsCheck::CheckSubconfig(const std::string& path) {
  std::string text;
  const File* file = ReadFile(path, text);
  if (file == nullptr) return;
  std::vector<OvmsFault> faults;
  std::vector<std::string> warnings;
  auto models = ParseOvmsSubconfig(text, FolderOf(path), warnings, faults);
  AddFaults(*file, faults, models.status());
  if (!models.ok()) return;
  ApplyOvmsRules(path, file->fields, findings_);
  NoteTwice(*file, kModels, "/config");
  for (const OvmsModelConfig& model : *models)
    CheckModel(EntryOf(*file, kModels, "/config", model.name), model);
}

void OvmsCheck::AddSubconfig(const OvmsGraphConfig& graph, const std::string& config_path) {
  const std::string path = SubconfigOf(graph, config_path);
  if (path.empty()) return;
  std::string text;
  const File* file = ReadFile(path, text);
  if (file == nullptr) return;
  std::vector<OvmsFault> faults;
  std::vector<std::string> warnings;
  auto models = ParseOvmsSubconfig(text, FolderOf(path), warnings, faults);
  AddFaults(*file, faults, models.status());
  if (!models.ok()) return;
  ApplyOvmsRules(path, file->fields, findings_);
  for (OvmsModelConfig& model : *models) {
    Entry entry = EntryOf(*file, kModels, "/config", model.name);
    const bool known =
        std::ranges::any_of(models_, [&model](const auto& other) { return other.second.name == model.name; });
    if (known) {
      Add(entry, "/name", Level::kNote, "given-twice",
          "duplicate model '" + model.name + "'; this entry is ignored", model.name);
    } else {
      models_.emplace_back(std::move(entry), std::move(model));
    }
  }
}

void OvmsCheck::AddFaults(const File& file, const std::vector<OvmsFault>& faults, const Status& status) {
  for (const OvmsFault& fault : faults) {
    const FaultAdvice known = AdviceFor(fault.path);
    std::string advice(known.advice);
    std::string rule = fault.unsupported ? "refused" : "value";
    if (!fault.keys.empty()) {
      rule = "unknown-key";
      advice = DidYouMean(Last(fault.path), fault.keys);
      if (advice.empty()) advice = "leave it out";
    }
    const JsonField* field = file.fields.Find(fault.path);
    const Position at =
        field != nullptr && rule == "unknown-key" ? field->name : file.fields.PlaceOf(fault.path);
    const bool missing = field == nullptr && !fault.path.empty();
    findings_.Add(
        {fault.unsupported ? Level::kRefused : Level::kError, std::move(rule), file.path, at,
         (missing || !fault.path.empty() ? "'" + std::string(Last(fault.path)) + "': " : "") + fault.what,
         std::move(advice), std::string(known.page), ""});
  }
  if (status.ok() || !faults.empty()) return;
  findings_.Add({Level::kError, "syntax", file.path, file.fields.fault().value_or(Position{1, 1}),
                 status.message(), "", "", ""});
}

OvmsCheck::Entry OvmsCheck::EntryOf(const File& file, std::string_view list, std::string_view inside,
                                    const std::string& name) const {
  for (size_t i = 0;; ++i) {
    std::string place = JsonPath(std::string(list), i);
    if (file.fields.Find(place) == nullptr) return {&file, ""};
    place += inside;
    const JsonField* found = file.fields.Find(place + "/name");
    if (found != nullptr && found->value == name) return {&file, place};
  }
}

void OvmsCheck::NoteTwice(const File& file, std::string_view list, std::string_view inside) {
  std::set<std::string> names;
  for (size_t i = 0;; ++i) {
    const std::string place = JsonPath(std::string(list), i);
    if (file.fields.Find(place) == nullptr) return;
    const JsonField* name = file.fields.Find(place + std::string(inside) + "/name");
    if (name == nullptr || names.insert(name->value).second) continue;
    findings_.Add({Level::kNote, "given-twice", file.path, name->at,
                   "the name '" + name->value + "' is a duplicate; the first entry is used",
                   "remove one of them", "", name->value});
  }
}

void OvmsCheck::CheckModel(const Entry& entry, const OvmsModelConfig& model) {
  summary_.push_back({model.name, "OpenVINO model", entry.file->path, false, false});
  const size_t row = summary_.size() - 1;
  // Reading the file has already reported it with its position.
  if (!model.fault.ok()) return;
  if (model.batch_size && !model.shapes.empty()) {
    Add(entry, "/batch_size", Level::kNote, "no-effect",
        "'batch_size' has no effect, because the entry has a shape", model.name, "leave it out");
  }
  if (IsUrl(model.base_path)) {
    return Add(entry, "/base_path", Level::kError, "remote",
               "'" + model.base_path + "' is remote, and braid check reads local folders", model.name,
               "copy the model, for example with rclone copy, and check the copy");
  }
  const auto available = ListVersionFolders(model.base_path);
  if (!available.ok()) {
    return Add(entry, "/base_path", Level::kError, "load", available.status().message(), model.name,
               "name the folder that has the version folders, or a model file");
  }
  for (size_t i = 0; i < model.version_policy.specific.size(); ++i) {
    const int64_t version = model.version_policy.specific[i];
    if (std::ranges::find(*available, version) != available->end()) continue;
    Add(entry, JsonPath("/model_version_policy/specific/versions", i), Level::kNote, "missing-version",
        "version " + std::to_string(version) + " of the policy has no folder", model.name,
        "name versions that exist");
  }
  if (available->empty()) {
    return Add(entry, "/base_path", Level::kError, "no-version",
               FaultError(Fault::kNoModelVersionAvailable, model.base_path).message(), model.name,
               "put the model's files into its subfolder '1'");
  }
  const ConfigMakers makers = sandbox_.makers().ForConfig();
  bool all = true;
  for (const int64_t version : ChooseVersionFolders(model.version_policy, *available)) {
    const std::string path = VersionPathOf(model.base_path, version);
    auto servable = [&]() -> Result<std::shared_ptr<Servable>> {
      BRAID_ASSIGN_OR_RETURN(auto loaded, makers.load_model(model, version, path));
      loaded.info.name = model.name;
      loaded.info.version = version;
      return makers.make_servable(std::move(loaded.info), std::move(loaded.model));
    }();
    for (std::string& warning : sandbox_.TakeWarnings())
      Add(entry, "", Level::kDifference, "warning", std::move(warning), model.name);
    if (servable.ok()) {
      sandbox_.catalog().Publish(*std::move(servable));
      continue;
    }
    all = false;
    Add(entry, "", Level::kError, "load",
        "version " + std::to_string(version) + ": " + servable.status().message(), model.name);
  }
  summary_[row].loads = all;
}

CustomNodeLibraries OvmsCheck::OpenLibraries() {
  CustomNodeLibraries libraries;
  const ConfigMakers makers = sandbox_.makers().ForConfig();
  for (const OvmsCustomNodeLibrary& library : config_.custom_node_libraries) {
    const Entry entry = EntryOf(*main_, kLibraries, "", library.name);
    if (!library.fault.ok()) {
      libraries.emplace(library.name, library.fault);
      continue;
    }
    OvmsCustomNodeLibrary found = library;
    const std::optional<std::string> own = BuiltInNodeFor(library.base_path);
    if (own) {
      found.base_path = *own;
      Add(entry, "/base_path", Level::kNote, "built-in-node",
          "there is no file '" + library.base_path + "'; the server uses its own '" + *own + "'",
          library.name);
    } else if (!IsFile(library.base_path)) {
      Add(entry, "/base_path", Level::kError, "load", "there is no file '" + library.base_path + "'",
          library.name, "name the library's .so");
      libraries.emplace(library.name, NotFoundError("there is no file '" + library.base_path + "'"));
      continue;
    }
    // The code of a library runs when it is opened; the server's own is trusted.
    if (!own && !sandbox_.imports()) continue;
    auto opened = makers.open_library(found);
    if (!opened.ok())
      Add(entry, "/base_path", Level::kError, "load", opened.status().message(), library.name);
    libraries.emplace(library.name, std::move(opened));
  }
  return libraries;
}

void OvmsCheck::CheckPipelinesAndGraphs() {
  if (main_ == nullptr) return;
  libraries_ = OpenLibraries();
  for (const OvmsGraphConfig& graph : config_.graphs) {
    Entry entry = EntryOf(*main_, kGraphEntries, "", graph.name);
    if (entry.place.empty()) entry = EntryOf(*main_, kModels, "/config", graph.name);
    Finding blamed;
    blamed.path = main_->path;
    const bool named = main_->fields.Find(entry.place + "/graph_path") != nullptr;
    blamed.at = main_->fields.PlaceOf(entry.place + (named ? "/graph_path" : "/base_path"));
    CheckGraph(sandbox_, graph, blamed, findings_, summary_);
  }
  Dependencies uses;
  for (const OvmsPipelineConfig& pipeline : config_.pipelines) {
    for (const ServableUse& use : UsesOfPipeline(pipeline)) uses[pipeline.name].insert(use.name);
    uses[pipeline.name];
  }
  for (const auto& group : LoadOrder(uses)) {
    for (const std::string& name : group) {
      const auto pipeline = std::ranges::find(config_.pipelines, name, &OvmsPipelineConfig::name);
      CheckPipeline(EntryOf(*main_, kPipelines, "", name), *pipeline);
    }
  }
}

void OvmsCheck::CheckPipeline(const Entry& entry, const OvmsPipelineConfig& pipeline) {
  summary_.push_back({pipeline.name, "pipeline", entry.file->path, false, false});
  const size_t row = summary_.size() - 1;
  // A part of the pipeline: the key is its name in faults.
  struct Part {
    std::string place;
    std::string advice;
  };
  std::map<std::string, Part> parts;
  std::string unasked;
  for (size_t i = 0; i < pipeline.inputs.size(); ++i) {
    parts["input '" + pipeline.inputs[i] + "'"] = {JsonPath("/inputs", i), ""};
  }
  for (size_t i = 0; i < pipeline.outputs.size(); ++i) {
    parts["output '" + pipeline.outputs[i].name + "'"] = {JsonPath("/outputs", i), ""};
  }
  for (size_t i = 0; i < pipeline.nodes.size(); ++i) {
    const OvmsNodeConfig& node = pipeline.nodes[i];
    const std::string who = "node '" + node.name + "'";
    const std::string place = JsonPath("/nodes", i);
    parts.emplace(who, Part{place, ""});
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      parts.emplace(who + ", input '" + node.inputs[k].name + "'", Part{JsonPath(place + "/inputs", k), ""});
    }
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      parts.emplace(who + ", output '" + node.outputs[k].data_item + "'",
                    Part{JsonPath(place + "/outputs", k), ""});
    }
    if (node.type == OvmsNodeConfig::Type::kModel) {
      if (sandbox_.IsOpen(node.model_name)) unasked = "model '" + node.model_name + "'";
      if (sandbox_.catalog().Find(node.model_name, -1).ok()) continue;
      std::vector<std::string> names = Names(config_.models);
      const auto pipelines = Names(config_.pipelines);
      names.insert(names.end(), pipelines.begin(), pipelines.end());
      const bool known = std::ranges::find(names, node.model_name) != names.end();
      parts[who] = {place + "/model_name", known ? "" : DidYouMean(node.model_name, names)};
    } else if (!libraries_.contains(node.library_name)) {
      const auto names = Names(config_.custom_node_libraries);
      if (std::ranges::find(names, node.library_name) != names.end()) {
        unasked = "library '" + node.library_name + "'";
      } else {
        parts[who] = {place + "/library_name", DidYouMean(node.library_name, names)};
      }
    }
  }
  if (!unasked.empty()) {
    summary_[row].open = summary_[row].loads = true;
    sandbox_.NoteOpen(pipeline.name);
    return Add(entry, "/nodes", Level::kNote, "not-checked",
               "the pipeline was not checked: the code of " + unasked + " defines its tensors", pipeline.name,
               "check with --import");
  }
  std::vector<PipelineFault> faults;
  auto servable = sandbox_.makers().Pipeline(pipeline, libraries_, &faults);
  if (servable.ok()) {
    sandbox_.catalog().Publish(*std::move(servable));
    summary_[row].loads = true;
    return;
  }
  if (faults.empty()) faults.push_back({"", servable.status()});
  for (const PipelineFault& fault : faults) {
    Part part;
    // Uses the longest matching name. `parts` is sorted, so a longer name comes later.
    for (const auto& [where, there] : parts) {
      if (fault.where.starts_with(where)) part = there;
    }
    const bool refused = fault.status.fault() == Fault::kNotImplemented;
    Add(entry, part.place, refused ? Level::kRefused : Level::kError, refused ? "refused" : "load",
        fault.status.message(), pipeline.name, std::move(part.advice));
  }
}

void OvmsCheck::Add(const Entry& entry, std::string_view key, Level level, std::string rule,
                    std::string message, std::string servable, std::string advice) {
  const std::string field = entry.place + std::string(key);
  std::string page;
  if (level == Level::kRefused) page = kRefusedPage;
  findings_.Add({level, std::move(rule), entry.file->path, entry.file->fields.PlaceOf(field),
                 std::move(message), std::move(advice), std::move(page), std::move(servable)});
}

}  // namespace braid::check
