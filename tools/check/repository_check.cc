#include "check/repository_check.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "backends/openvino/triton_files.h"
#include "backends/python/python_files.h"
#include "config/initial_states.h"
#include "config/known_backends.h"
#include "config/model_config.h"
#include "config/model_name.h"
#include "config/openai_settings.h"
#include "config/servable_info.h"
#include "config/supported_features.h"
#include "config/warmup.h"
#include "pipeline/ensemble_dag.h"
#include "repository/version_policy.h"
#include "serving/uses.h"

namespace braid::check {
namespace {

constexpr size_t kMostConfigBytes = size_t{16} << 20;

ManagerOptions OptionsOf(const ServerOptions& server, const std::vector<std::string>& repositories) {
  ManagerOptions options;
  options.folders = server.folders;
  options.folders->model_repositories = repositories;
  return options;
}

SourceReader::Options ReaderOptions(const FolderOptions& options) {
  return {.model_config_name = options.model_config_name,
          .auto_complete = options.auto_complete,
          .temporary_directory = options.temporary_directory};
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string KindOf(const inference::ModelConfig& config) {
  if (IsEnsemble(config)) return "ensemble";
  const KnownBackend* backend = FindKnownBackend(config.backend());
  return backend != nullptr ? std::string(backend->kind) : "model of backend '" + config.backend() + "'";
}

}  // namespace

RepositoryCheck::RepositoryCheck(LoadSandbox& sandbox, std::vector<std::string> repositories,
                                 Findings& findings, Summary& summary)
    : sandbox_(sandbox),
      repositories_(std::move(repositories)),
      findings_(findings),
      summary_(summary),
      options_(OptionsOf(sandbox.options(), repositories_)),
      folders_(repositories_),
      reader_(ReaderOptions(*options_.folders), folders_),
      loader_(options_, sandbox.folder_makers(), sandbox.log(),
              [this](const std::string& model) { return WhyMissing(model); }) {
  ModelFolders::Skipped skipped;
  auto names = folders_.Names(skipped);
  if (!names.ok()) {
    findings_.Add(
        {Level::kError, "repository", repositories_.front(), {}, names.status().message(), "", "", ""});
    return;
  }
  for (const auto& [name, count] : *names) names_.insert(name);
  for (const auto& [name, why] : skipped) {
    const bool named = CheckModelName(name).ok();
    findings_.Add(
        {Level::kNote,
         "skipped-folder",
         repositories_.front(),
         {},
         "the folder '" + name + "' is skipped: " + (named ? why.message() : "it is not a valid model name"),
         named ? "fix the link" : "rename it",
         "",
         ""});
  }
}

void RepositoryCheck::CheckAll() {
  for (const std::string& name : names_) CheckModel(name);
}

void RepositoryCheck::CheckModel(const std::string& name) {
  if (!begun_.insert(name).second) return;
  Model model;
  model.name = name;
  for (const std::string& repository : repositories_) {
    std::error_code ignored;
    const std::string folder = std::filesystem::path(repository) / name;
    if (std::filesystem::is_directory(folder, ignored)) model.folder = folder;
  }
  Load(model);
}

void RepositoryCheck::Load(Model& model) {
  const LoadRequest request{.model_name = model.name, .config_json = {}, .files = {}};
  summary_.push_back({model.name, "model", model.folder, false, false});
  const size_t row = summary_.size() - 1;
  auto source = reader_.Open(request);
  if (!source.ok()) {
    failed_[model.name];
    return AddFault(model, source.status(), "");
  }
  model.file = ReadConfigText(model);
  if (model.file != nullptr) {
    summary_[row].path = model.file->path();
    model.text_is_wrong = model.file->ReportFaults(model.name, findings_);
  }
  NoteFolders(model, source->folder);
  auto folder = folders_.Open(model.name);
  auto plan = MakeLoadPlan(reader_, request, std::move(*source), sandbox_.log());
  sandbox_.TakeWarnings();  // NoteFolders() has reported them
  if (!plan.ok()) {
    failed_[model.name];
    // ReportFaults() has added the faults of the text, with positions.
    if (model.text_is_wrong) return;
    std::string field;
    if (model.file != nullptr && folder.ok()) {
      std::map<std::string, std::string> ignored;
      auto versions = ListVersions(folder->folder, ignored);
      // Reads as much of it as possible, without the server's additions.
      ModelSource again{.folder = std::move(folder->folder)};
      static_cast<void>(
          reader_.ReadConfig(request, versions.ok() ? *versions : std::vector<int64_t>(), again));
      const FieldFault fault = FindFileFault(again.config);
      field = fault.status == plan.status()       ? fault.field
              : again.config.name() != model.name ? "name"
                                                  : "backend";
    }
    return AddFault(model, plan.status(), field);
  }
  summary_[row].kind = KindOf(plan->source.config);
  if (model.file != nullptr && !model.text_is_wrong) {
    ApplyModelRules(*model.file, model.name,
                    {.rate_limited = sandbox_.options().rate_limit == RateLimitMode::kExecutionCount,
                     .has_cache = sandbox_.options().response_cache_bytes > 0},
                    findings_);
  }
  for (const ServableUse& use : plan->uses) {
    if (names_.contains(use.name)) CheckModel(use.name);
  }
  CheckVersions(model, *plan);
  summary_[row].loads = !failed_.contains(model.name);
  summary_[row].open = sandbox_.IsOpen(model.name);
}

void RepositoryCheck::CheckVersions(const Model& model, const LoadPlan& plan) {
  const auto& policy = plan.source.config.version_policy();
  for (int i = 0; i < policy.specific().versions_size(); ++i) {
    const int64_t version = policy.specific().versions(i);
    if (plan.keys.contains(version)) continue;
    Add(model, plan.keys.empty() ? Level::kError : Level::kNote, "missing-version",
        FieldAt("version_policy.specific.versions", i),
        "version " + std::to_string(version) + " is specified, but folder '" + std::to_string(version) +
            "' does not exist",
        "name versions that exist");
  }
  if (plan.keys.empty()) {
    failed_[model.name] =
        "at least one version must be available under the version policy of model '" + model.name + "'";
    if (policy.specific().versions().empty()) {
      Add(model, Level::kError, "no-version", "version_policy", failed_[model.name],
          "create a folder '1' beside config.pbtxt with the model's files" +
              std::string(IsEnsemble(plan.source.config) ? "; an ensemble's folder is empty" : ""));
    }
    return;
  }
  std::vector<std::shared_ptr<Servable>> loaded;
  for (const auto& [version, key] : plan.keys) {
    auto servable = LoadVersion(model, plan, version);
    if (!servable.ok()) continue;
    NoteChat(model, plan, (*servable)->info());
    loaded.push_back(*std::move(servable));
  }
  // As in the server: all versions are published, or none.
  if (failed_.contains(model.name)) return;
  for (auto& servable : loaded) sandbox_.catalog().Publish(std::move(servable));
  if (!sandbox_.IsOpen(model.name)) return;
  if (IsEnsemble(plan.source.config)) {
    Add(model, Level::kNote, "not-checked", "ensemble_scheduling",
        "the tensors of the steps were not compared: the code of some models defines them",
        sandbox_.imports() ? "" : "check with --import");
  } else if (sandbox_.imports()) {
    Add(model, Level::kNote, "not-checked", "",
        "the model calls the server during its import, so its code was not fully checked");
  }
}

Result<std::shared_ptr<Servable>> RepositoryCheck::LoadVersion(const Model& model, const LoadPlan& plan,
                                                               int64_t version) {
  const auto uses_of = [this](const std::string& name) {
    const std::set<std::string> uses = UsesOf(name);
    return std::vector<std::string>(uses.begin(), uses.end());
  };
  sandbox_.TakeFaultLocation();
  Result<std::shared_ptr<Servable>> loaded = [&]() -> Result<std::shared_ptr<Servable>> {
    if (const std::string cycle = FindCycle(uses_of, model.name); !cycle.empty()) {
      return InvalidArgumentError("circular dependency between ensembles: " + cycle);
    }
    return loader_.Load(plan.source, version, [](const std::string&) {});
  }();
  for (std::string& warning : sandbox_.TakeWarnings())
    Add(model, Level::kDifference, "warning", "", std::move(warning));
  if (loaded.ok()) return loaded;
  const LoadSandbox::FaultLocation fault_location = sandbox_.TakeFaultLocation();
  failed_[model.name] +=
      "version " + std::to_string(version) + " is at UNAVAILABLE state: " + loaded.status().ToString() + ";";
  std::string field = fault_location.field;
  if (field.empty() && !fault_location.code)
    field = FieldOf(loaded.status(), plan.source.config, version, plan.source.folder);
  AddFault(model, loaded.status(), field, fault_location.code);
  return loaded;
}

std::unique_ptr<TextFile> RepositoryCheck::ReadConfigText(const Model& model) const {
  const auto folder = Folder::Open(model.folder);
  if (!folder.ok()) return nullptr;
  std::vector<std::string> places = {"config.pbtxt"};
  if (const std::string& name = options_.folders->model_config_name; !name.empty()) {
    places.insert(places.begin(), "configs/" + name + ".pbtxt");
  }
  for (const std::string& place : places) {
    auto text = folder->ReadFile(place, kMostConfigBytes);
    if (!text.ok()) continue;
    return std::make_unique<TextFile>(model.folder + "/" + place, *std::move(text),
                                      inference::ModelConfig::default_instance());
  }
  return nullptr;
}

void RepositoryCheck::NoteFolders(const Model& model, const Folder& folder) {
  std::map<std::string, std::string> ignored;
  static_cast<void>(ListVersions(folder, ignored));
  for (const auto& [name, why] : ignored) {
    findings_.Add({Level::kNote,
                   "version-folder",
                   model.folder + "/" + name,
                   {},
                   "the folder is not a version: " + why,
                   ParseVersion(name) ? "fix the link" : "rename it",
                   "",
                   model.name});
  }
  if (folder.HasFile("triton_python_backend_stub")) {
    findings_.Add({Level::kDifference,
                   "python-stub",
                   model.folder + "/triton_python_backend_stub",
                   {},
                   "the stub is not used: models run without one",
                   "set the parameter EXECUTION_ENV_PATH to an environment",
                   "docs/compatibility.md#processes-and-environments",
                   model.name});
  }
}

void RepositoryCheck::NoteChat(const Model& model, const LoadPlan& plan, const ServableInfo& info) {
  const std::string field = "parameters[" + std::string(kOpenAiParameter) + "]";
  const bool asked = plan.source.config.parameters().contains(std::string(kOpenAiParameter));
  if (!asked || !info.openai.renders_chats ||
      plan.source.config.parameters().contains(std::string(kChatTemplateParameter))) {
    return;
  }
  for (const std::string& place : {std::string(), std::to_string(info.version) + "/"}) {
    for (const char* file : {"chat_template.jinja", "tokenizer_config.json"}) {
      if (plan.source.folder.HasFile(place + file)) return;
    }
  }
  Add(model, Level::kNote, "no-chat", field,
      "the model has no chat template: /v1/completions serves it, and /v1/chat/completions does not",
      "add a chat_template.jinja to its folder, or an input 'messages'", "docs/openai.md#chats");
}

void RepositoryCheck::Add(const Model& model, Level level, std::string rule, const std::string& field,
                          std::string message, std::string advice, std::string page) {
  Finding finding{level,           std::move(rule), model.folder, {}, std::move(message), std::move(advice),
                  std::move(page), model.name};
  if (model.file != nullptr) {
    finding.path = model.file->path();
    if (!field.empty()) finding.at = model.file->fields().PlaceOf(field);
  }
  findings_.Add(std::move(finding));
}

void RepositoryCheck::AddFault(const Model& model, const Status& status, const std::string& field,
                               const std::optional<CodePlace>& code) {
  const FaultAdvice known = field.empty() ? FaultAdvice() : AdviceFor(field);
  const bool refused = status.code() == StatusCode::kUnsupported || known.level == Level::kRefused;
  const Level level = refused ? Level::kRefused : Level::kError;
  if (code) {
    findings_.Add({level,
                   "import",
                   code->file,
                   {code->line, code->line > 0 ? 1 : 0},
                   FirstLine(status.message()),
                   "",
                   "",
                   model.name});
    return;
  }
  std::string advice(known.advice);
  if (model.file != nullptr) {
    if (const TextField* named = model.file->fields().Find(field); named != nullptr) {
      std::vector<std::string> right;
      if (field == "backend" || field == "platform") right = Backends();
      if (field.ends_with(".model_name")) right.assign(names_.begin(), names_.end());
      if (std::string meant = DidYouMean(named->value, right); !meant.empty()) advice = std::move(meant);
    }
  }
  Add(model, level, refused ? "refused" : "load", field, status.message(), std::move(advice),
      std::string(known.page));
}

// The loader returns only a status. To find the field at fault, repeats the loader's checks one by one.
std::string RepositoryCheck::FieldOf(const Status& status, const inference::ModelConfig& config,
                                     int64_t version, const Folder& folder) const {
  inference::ModelConfig whole = config;
  const auto field_of = [&](const GpuPlacement& placement) -> std::string {
    for (const FieldFault& fault : {FindUnsupportedFeature(whole), FindConfigFault(whole, placement)}) {
      if (!fault.ok() && fault.status == status) return fault.field;
    }
    return "";
  };
  if (std::string field = field_of({}); !field.empty()) return field;
  for (const GpuPlacement& placement : sandbox_.PlacementsOf(config)) {
    whole = config;
    NormalizeConfig(whole, placement);
    if (std::string field = field_of(placement); !field.empty()) return field;
  }
  if (status.message().starts_with("circular dependency")) return "ensemble_scheduling";
  if (!IsEnsemble(config) && (!KnowsBackend(config.backend()) || CheckTritonBackend(config) == status)) {
    return config.platform().empty() ? "backend" : "platform";
  }
  // For faults in files that the configuration names: tests each field that names one by itself.
  const auto is_of = [&](const inference::ModelConfig& part) {
    auto info = MakeServableInfo(std::make_shared<inference::ModelConfig>(part), version, folder);
    return !info.ok() && info.status() == status;
  };
  inference::ModelConfig rest = whole;
  rest.clear_output();
  rest.clear_model_warmup();
  rest.mutable_sequence_batching()->clear_state();
  for (int i = 0; i < whole.output_size(); ++i) {
    inference::ModelConfig part = rest;
    *part.add_output() = whole.output(i);
    if (is_of(part)) return FieldAt("output", i) + ".label_filename";
  }
  for (int i = 0; i < whole.model_warmup_size(); ++i) {
    inference::ModelConfig part = rest;
    *part.add_model_warmup() = whole.model_warmup(i);
    if (is_of(part)) return FieldAt("model_warmup", i);
  }
  for (int i = 0; i < whole.sequence_batching().state_size(); ++i) {
    inference::ModelConfig part = rest;
    *part.mutable_sequence_batching()->add_state() = whole.sequence_batching().state(i);
    if (is_of(part)) return FieldAt("sequence_batching.state", i) + ".initial_state";
  }
  return whole.default_model_filename() == config.default_model_filename() &&
                 !config.default_model_filename().empty()
             ? "default_model_filename"
             : "";
}

bool RepositoryCheck::KnowsBackend(const std::string& name) const {
  const auto known = Backends();
  return std::ranges::find(known, name) != known.end();
}

std::vector<std::string> RepositoryCheck::Backends() const {
  std::vector<std::string> names;
  for (const KnownBackend& each : KnownBackends()) names.emplace_back(each.name);
  std::error_code fault;
  for (std::filesystem::directory_iterator at(options_.folders->backend_directory, fault), end;
       !fault && at != end; at.increment(fault)) {
    std::string name = at->path().filename();
    if (!PythonFiles::HostedIn(options_.folders->backend_directory, name).empty())
      names.push_back(std::move(name));
  }
  return names;
}

std::string RepositoryCheck::WhyMissing(const std::string& model) const {
  const auto found = failed_.find(model);
  if (found == failed_.end()) return "which has no loaded version.";
  if (found->second.empty()) return "which is not valid.";
  return "which has no loaded version. Model '" + model + "' loading failed with error: " + found->second;
}

std::set<std::string> RepositoryCheck::UsesOf(const std::string& name) const {
  return reader_.ModelsUsed({.model_name = name, .config_json = {}, .files = {}});
}

}  // namespace braid::check
