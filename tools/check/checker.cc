#include "check/checker.h"

#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "check/graph_check.h"
#include "check/load_sandbox.h"
#include "check/ovms_check.h"
#include "check/repository_check.h"
#include "check/targets.h"

namespace braid::check {
namespace {

using Kind = Target::Kind;

// Checks the files of one server.
Status CheckServer(const CheckRequest& request, const std::vector<std::string>& repositories,
                   const std::string& config, CheckResult& result) {
  ServerOptions options = request.server;
  options.folders.model_repositories = repositories;
  BRAID_ASSIGN_OR_RETURN(auto sandbox, LoadSandbox::Create(options, request.import));
  OvmsCheck ovms(*sandbox, result.findings, result.summary);
  const bool right = config.empty() || ovms.CheckModels(config);
  if (!repositories.empty()) {
    RepositoryCheck(*sandbox, repositories, result.findings, result.summary).CheckAll();
  }
  if (right && !config.empty()) ovms.CheckPipelinesAndGraphs();
  return OkStatus();
}

Status CheckModelAlone(const CheckRequest& request, const Target& target, CheckResult& result) {
  ServerOptions options = request.server;
  options.folders.model_repositories = {target.path};
  if (!target.config_name.empty()) options.folders.model_config_name = target.config_name;
  BRAID_ASSIGN_OR_RETURN(auto sandbox, LoadSandbox::Create(options, request.import));
  RepositoryCheck(*sandbox, {target.path}, result.findings, result.summary).CheckModel(target.model);
  return OkStatus();
}

Status CheckSubconfigAlone(const CheckRequest& request, const Target& target, CheckResult& result) {
  BRAID_ASSIGN_OR_RETURN(auto sandbox, LoadSandbox::Create(request.server, request.import));
  OvmsCheck(*sandbox, result.findings, result.summary).CheckSubconfig(target.path);
  return OkStatus();
}

Status CheckGraphAlone(const CheckRequest& request, const Target& target, CheckResult& result) {
  BRAID_ASSIGN_OR_RETURN(auto sandbox, LoadSandbox::Create(request.server, request.import));
  std::error_code fault;
  const std::filesystem::path file = std::filesystem::absolute(target.path, fault);
  OvmsGraphConfig graph;
  graph.name = file.parent_path().filename().string();
  graph.base_path = file.parent_path().string() + "/";
  graph.graph_path = target.path;
  CheckGraph(*sandbox, graph, {}, result.findings, result.summary);
  return OkStatus();
}

}  // namespace

Result<CheckResult> Check(const CheckRequest& request) {
  CheckResult result;
  std::vector<Target> targets;
  for (const std::string& path : request.paths) {
    BRAID_ASSIGN_OR_RETURN(auto found, FindTargets(path));
    targets.insert(targets.end(), found.begin(), found.end());
  }
  std::vector<std::string> repositories;
  for (const Target& target : targets) {
    if (target.kind == Kind::kRepository) repositories.push_back(target.path);
  }
  const std::string& config = request.server.config.config_path;
  if (!repositories.empty() || !config.empty()) {
    BRAID_RETURN_IF_ERROR(CheckServer(request, repositories, config, result));
  }
  for (const Target& target : targets) {
    switch (target.kind) {
      case Kind::kRepository:
        break;
      case Kind::kModel:
        BRAID_RETURN_IF_ERROR(CheckModelAlone(request, target, result));
        break;
      case Kind::kConfig:
        BRAID_RETURN_IF_ERROR(CheckServer(request, {}, target.path, result));
        break;
      case Kind::kSubconfig:
        BRAID_RETURN_IF_ERROR(CheckSubconfigAlone(request, target, result));
        break;
      case Kind::kGraph:
        BRAID_RETURN_IF_ERROR(CheckGraphAlone(request, target, result));
        break;
    }
  }
  result.findings.Sort();
  return result;
}

}  // namespace braid::check
