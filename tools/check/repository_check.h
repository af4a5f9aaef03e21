// RepositoryCheck: loads the models of model repositories as the server does, up to the start of their
// instances.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "check/config_rules.h"
#include "check/finding.h"
#include "check/load_sandbox.h"
#include "check/summary.h"
#include "check/text_file.h"
#include "repository/load_plan.h"
#include "repository/model_folders.h"
#include "repository/model_source.h"
#include "repository/version_loader.h"

namespace braid::check {

// Not thread-safe.
class RepositoryCheck {
 public:
  // `repositories` belong to one server. All references outlive the check.
  RepositoryCheck(LoadSandbox& sandbox, std::vector<std::string> repositories, Findings& findings,
                  Summary& summary);

  // Checks all models.
  void CheckAll();
  // Checks one model and its dependencies.
  void CheckModel(const std::string& name);

 private:
  // The files of a model that is being checked.
  struct Model {
    std::string name;
    std::string folder;
    // Null if there is no configuration.
    std::unique_ptr<TextFile> file;
    bool text_is_wrong = false;
  };

  void Load(Model& model);
  void CheckVersions(const Model& model, const LoadPlan& plan);
  Result<std::shared_ptr<Servable>> LoadVersion(const Model& model, const LoadPlan& plan, int64_t version);
  std::unique_ptr<TextFile> ReadConfigText(const Model& model) const;
  void NoteFolders(const Model& model, const Folder& folder);
  // Notes a model that asks for OpenAI's API and cannot take chats.
  void NoteChat(const Model& model, const LoadPlan& plan, const ServableInfo& info);
  void Add(const Model& model, Level level, std::string rule, const std::string& field, std::string message,
           std::string advice = {}, std::string page = {});
  // Adds the finding that a model does not load. `field`: the field at fault; empty: unknown.
  void AddFault(const Model& model, const Status& status, const std::string& field,
                const std::optional<CodePlace>& code = std::nullopt);
  std::string FieldOf(const Status& status, const inference::ModelConfig& config, int64_t version,
                      const Folder& folder) const;
  bool KnowsBackend(const std::string& name) const;
  std::vector<std::string> Backends() const;
  std::string WhyMissing(const std::string& model) const;
  std::set<std::string> UsesOf(const std::string& name) const;

  LoadSandbox& sandbox_;
  const std::vector<std::string> repositories_;
  Findings& findings_;
  Summary& summary_;
  ManagerOptions options_;
  const ModelFolders folders_;
  const SourceReader reader_;
  const VersionLoader loader_;
  std::set<std::string> names_;
  std::set<std::string> begun_;
  // The reason why each failed model does not load; empty for models that cannot be read.
  std::map<std::string, std::string> failed_;
};

}  // namespace braid::check
