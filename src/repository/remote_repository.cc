#include "repository/remote_repository.h"

#include <utility>
#include <vector>

#include "config/model_name.h"
#include "repository/parallel.h"

namespace braid {

Status CheckRemoteModelName(const std::string& name) {
  BRAID_RETURN_IF_ERROR(CheckModelName(name));
  if (IsPlainObjectName(name)) return OkStatus();
  return InvalidArgumentError(
      "'" + name + "' is not a valid name for a model: it stands for a name that no folder can have");
}

Status RemoteRepository::Refresh(Logger& log) {
  if (on_request_) {
    BRAID_ASSIGN_OR_RETURN(const std::vector<std::string> folders, storage_.ListFolders(url_));
    std::set<std::string> names(folders.begin(), folders.end());
    MutexLock lock(mutex_);
    std::erase_if(folders_, [&names](const auto& each) { return !names.contains(each.first); });
    names_ = std::move(names);
    return OkStatus();
  }
  BRAID_ASSIGN_OR_RETURN(const Listing all, storage_.List(url_));
  std::map<std::string, Listing> models;
  for (const auto& [path, object] : all) {
    const size_t slash = path.find('/');
    // Files beside the models are of no use, as in a local repository.
    if (slash != std::string::npos) models[path.substr(0, slash)].emplace(path.substr(slash + 1), object);
  }
  std::vector<std::pair<std::string, const Listing*>> work;
  for (const auto& [name, listing] : models) {
    if (!name.starts_with('.') && CheckRemoteModelName(name).ok()) work.emplace_back(name, &listing);
  }
  {
    const auto is_gone = [&models](const auto& each) { return !models.contains(each.first); };
    MutexLock lock(mutex_);
    names_.clear();
    for (const auto& [name, listing] : models) names_.insert(name);
    std::erase_if(folders_, is_gone);
    std::erase_if(faults_, is_gone);
  }
  ParallelFor(work.size(), threads_, [&](size_t i) {
    const auto& [name, listing] = work[i];
    const LogAbout about(name);
    const Status status = FolderOf(name)->Update(*listing);
    MutexLock lock(mutex_);
    if (faults_[name] == status) return;
    faults_[name] = status;
    if (!status.ok()) BRAID_LOG_ERROR(log, "model '{}' is not copied: {}", name, status.message());
  });
  return OkStatus();
}

void RemoteRepository::Update(const std::string& name) {
  if (!CheckRemoteModelName(name).ok()) return;
  if (FolderOf(name)->Update().code() != StatusCode::kNotFound) return;
  MutexLock lock(mutex_);
  folders_.erase(name);
}

std::shared_ptr<RemoteFolder> RemoteRepository::FolderOf(const std::string& name) {
  MutexLock lock(mutex_);
  auto& folder = folders_[name];
  if (folder == nullptr) folder = storage_.Open(url_.Beneath(name));
  return folder;
}

std::set<std::string> RemoteRepository::names() const {
  MutexLock lock(mutex_);
  return names_;
}

Result<std::shared_ptr<const LocalCopy>> RemoteRepository::Open(const std::string& name) const {
  std::shared_ptr<RemoteFolder> folder;
  {
    MutexLock lock(mutex_);
    const auto found = folders_.find(name);
    if (found == folders_.end()) return NotFoundError("model not found in any model repository.");
    folder = found->second;
  }
  BRAID_ASSIGN_OR_RETURN(auto copy, folder->Get());
  return copy;
}

}  // namespace braid
