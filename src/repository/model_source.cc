#include "repository/model_source.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/temporary_folder.h"
#include "base/utf8.h"
#include "config/config_json.h"
#include "config/isolated_parts.h"
#include "config/known_backends.h"
#include "config/model_config.h"
#include "pipeline/ensemble_dag.h"

namespace braid {
namespace {

constexpr size_t kMaxConfigBytes = size_t{16} << 20;
constexpr size_t kMaxVersionFiles = 100000;
// The prefix of folders with the files of load requests.
constexpr std::string_view kFilesPrefix = "braid-files-";

// OpenVINO's properties that name files or folders differ between its versions, so they are matched by
// suffix.
bool ChoosesCode(const inference::ModelConfig& config, std::string_view parameter) {
  if (parameter == "EXECUTION_ENV_PATH" || parameter == "WORKER_ISOLATION" || parameter == kIsolateParameter)
    return true;
  return !RunsUserCode(config.backend()) &&
         (parameter.ends_with("_DIR") || parameter.ends_with("_PATH") || parameter.ends_with("_FILE"));
}

// Returns the fields that choose the code that runs and its isolation, by name. Fields without a value are
// left out.
std::map<std::string, std::string> CodeChoices(const inference::ModelConfig& config) {
  std::map<std::string, std::string> choices = {
      {"backend", config.backend()},
      {"runtime", config.runtime()},
      {"default_model_filename", ModelFileOf(config)},
      {"model_repository_agents", config.model_repository_agents().SerializeAsString()},
      {"platform", IsEnsemble(config) ? "ensemble" : ""}};
  for (const auto& [capability, file] : config.cc_model_filenames())
    choices["cc_model_filenames[" + capability + "]"] = file;
  for (const auto& [name, value] : config.parameters()) {
    if (ChoosesCode(config, name)) choices["parameters[" + name + "]"] = value.string_value();
  }
  std::erase_if(choices, [](const auto& choice) { return choice.second.empty(); });
  return choices;
}

}  // namespace

Result<ModelSource> SourceReader::Open(const LoadRequest& request) const {
  if (!request.files.empty()) return OpenFiles(request);
  BRAID_ASSIGN_OR_RETURN(ModelFolder found, folders_.Open(request.model_name));
  return ModelSource{
      .folder = std::move(found.folder), .place = std::move(found.place), .copy = std::move(found.copy)};
}

Result<ModelSource> SourceReader::OpenFiles(const LoadRequest& request) const {
  const std::string& name = request.model_name;
  if (!request.config_json) {
    return InvalidArgumentError("Load parameter 'config' must be specified for model file override");
  }
  for (const auto& [path, content] : request.files) {
    std::string_view relative = path;
    if (relative.starts_with('/')) relative.remove_prefix(1);
    if (!IsPlainRelativePath(relative)) {
      return InvalidArgumentError("Invalid file parameter 'file:" + path +
                                  "' must stay within model directory.");
    }
  }
  BRAID_ASSIGN_OR_RETURN(std::shared_ptr<TemporaryFolder> temporary,
                         TemporaryFolder::Create(options_.temporary_directory, kFilesPrefix));
  BRAID_ASSIGN_OR_RETURN(const Folder parent, Folder::Open(temporary->path()));
  for (const auto& [path, content] : request.files) {
    // The folder has the model's name, as in a repository.
    const std::string relative = name + (path.starts_with('/') ? "" : "/") + path;
    if (!IsPlainRelativePath(relative))
      return InvalidArgumentError("the model's name is not a valid folder name");
    BRAID_RETURN_IF_ERROR(parent.CreateFile(relative, content));
  }
  BRAID_ASSIGN_OR_RETURN(Folder folder, parent.OpenFolder(name));
  std::string place = folder.path();
  return ModelSource{.folder = std::move(folder),
                     .place = std::move(place),
                     .temporary_files = std::move(temporary),
                     .request_number = ++last_request_number_};
}

Result<std::optional<inference::ModelConfig>> SourceReader::ConfigOf(const LoadRequest& request,
                                                                     const Folder& folder) const {
  if (request.config_json) {
    auto config = ConfigFromJson(*request.config_json);
    if (!config.ok()) return config.status().WithPrefix("Invalid config override: ");
    return std::optional(std::move(config).value());
  }
  std::vector<std::string> places;
  if (const std::string custom = "configs/" + options_.model_config_name + ".pbtxt";
      !options_.model_config_name.empty() && IsPlainRelativePath(custom)) {
    places.push_back(custom);
  }
  places.emplace_back("config.pbtxt");
  for (const std::string& place : places) {
    auto text = folder.ReadFile(place, kMaxConfigBytes);
    if (!text.ok()) {
      if (text.status().code() == StatusCode::kNotFound) continue;
      return text.status();
    }
    BRAID_ASSIGN_OR_RETURN(auto config, ParseConfigText(*text, folder.path() + "/" + place));
    return std::optional(std::move(config));
  }
  if (!options_.auto_complete) {
    return InternalError("failed to open text file for read " + folder.path() +
                         "/config.pbtxt: No such file or directory");
  }
  return std::optional<inference::ModelConfig>();
}

Status SourceReader::ReadConfig(const LoadRequest& request, const std::vector<int64_t>& versions,
                                ModelSource& source) const {
  BRAID_ASSIGN_OR_RETURN(auto config, ConfigOf(request, source.folder));
  source.config = config ? std::move(*config) : inference::ModelConfig();
  BRAID_RETURN_IF_ERROR(CompleteNames(source.config, request.model_name));
  BRAID_RETURN_IF_ERROR(FillBackend(source.folder, versions, source.config));
  return CheckConfigFile(source.config);
}

Status SourceReader::FillBackend(const Folder& folder, const std::vector<int64_t>& versions,
                                 inference::ModelConfig& config) const {
  if (!config.backend().empty() || IsEnsemble(config)) return OkStatus();
  if (!config.platform().empty()) {
    config.set_backend(std::string(BackendOfPlatform(config.platform())));
    return OkStatus();
  }
  if (!options_.auto_complete) return OkStatus();  // the check of the configuration says what is missing
  std::vector<std::string> files;
  if (!versions.empty()) {
    BRAID_ASSIGN_OR_RETURN(const Folder version, folder.OpenFolder(std::to_string(versions.front())));
    BRAID_ASSIGN_OR_RETURN(const auto entries, version.List(kMaxVersionFiles));
    for (const auto& entry : entries) files.push_back(entry.name);
  }
  BRAID_ASSIGN_OR_RETURN(std::string backend, GuessBackend(config.name(), files));
  config.set_backend(std::move(backend));
  return OkStatus();
}

Status SourceReader::CheckOverride(const LoadRequest& request) const {
  const auto read = [this](const LoadRequest& one) -> Result<inference::ModelConfig> {
    BRAID_ASSIGN_OR_RETURN(ModelSource source, Open(one));
    std::map<std::string, std::string> ignored;
    BRAID_ASSIGN_OR_RETURN(const auto versions, ListVersions(source.folder, ignored));
    BRAID_RETURN_IF_ERROR(ReadConfig(one, versions, source));
    return std::move(source.config);
  };
  const auto wanted =
      read({.model_name = request.model_name, .config_json = request.config_json, .files = {}});
  if (!wanted.ok()) return OkStatus();  // the load says why
  constexpr const char* kEnd = ", the server was started with --allow-file-overrides=false";
  const auto folder = read({.model_name = request.model_name, .config_json = {}, .files = {}});
  if (!folder.ok()) {
    return UnsupportedError("load parameter 'config' is not allowed for model '" + request.model_name +
                            "', whose folder has no readable configuration" + kEnd);
  }
  const auto theirs = CodeChoices(*wanted);
  const auto ours = CodeChoices(*folder);
  if (theirs == ours) return OkStatus();
  const auto differs = std::ranges::mismatch(theirs, ours);
  const bool added =
      differs.in2 == ours.end() || (differs.in1 != theirs.end() && differs.in1->first <= differs.in2->first);
  return UnsupportedError("load parameter 'config' may not change '" +
                          Shortened(added ? differs.in1->first : differs.in2->first) + "' of model '" +
                          request.model_name + "'" + kEnd);
}

std::set<std::string> SourceReader::ModelsUsed(const LoadRequest& request) const {
  std::optional<inference::ModelConfig> config;
  if (request.config_json) {
    if (auto parsed = ConfigFromJson(*request.config_json); parsed.ok()) config = std::move(*parsed);
  } else if (const auto found = folders_.Open(request.model_name); found.ok()) {
    if (auto read = ConfigOf(request, found->folder); read.ok()) config = std::move(*read);
  }
  std::set<std::string> names;
  if (!config) return names;
  for (const ServableUse& use : UsesOfEnsemble(*config)) names.insert(use.name);
  return names;
}

void SourceReader::RemoveAbandoned() const {
  TemporaryFolder::RemoveAbandoned(options_.temporary_directory, kFilesPrefix);
}

}  // namespace braid
