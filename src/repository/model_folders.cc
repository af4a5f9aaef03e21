#include "repository/model_folders.h"

#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "config/model_name.h"
#include "repository/version_policy.h"

namespace braid {
namespace {

constexpr size_t kMaxEntries = 100000;
constexpr size_t kMaxDepth = 16;

bool Hidden(std::string_view name) { return name.starts_with('.'); }

// For example "007" and "v1".
bool LooksLikeVersion(std::string_view name) {
  if (name.starts_with('v') || name.starts_with('V')) name.remove_prefix(1);
  return !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
}

bool IsConfig(const std::string& name) { return name == "config.pbtxt" || name == "configs"; }

// Mixes in a file's size and time.
uint64_t MixFile(uint64_t seed, const Folder& folder, const std::string& name) {
  struct stat info = {};
  if (!folder.Stat(name, info)) return seed;
  seed = Mix(seed, static_cast<uint64_t>(info.st_size));
  seed = Mix(seed, static_cast<uint64_t>(info.st_mtim.tv_sec));
  return Mix(seed, static_cast<uint64_t>(info.st_mtim.tv_nsec));
}

}  // namespace

bool IsIgnored(std::string_view name) {
  if (Hidden(name) || name == "__pycache__" || name.ends_with(".pyc")) return true;
  // Vim, Emacs, JetBrains.
  return name.ends_with('~') || (name.size() > 1 && name.starts_with('#') && name.ends_with('#')) ||
         name.ends_with(".swp") || name.ends_with("___jb_tmp___") || name.ends_with("___jb_old___");
}

uint64_t Mix(uint64_t seed, std::string_view text) {
  uint64_t hash = seed ^ 0xcbf29ce484222325u;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return Mix(hash, text.size());
}

uint64_t Mix(uint64_t seed, uint64_t value) {
  // The finalizer of splitmix64.
  uint64_t z = (seed ^ value) + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

ModelFolders::ModelFolders(std::vector<std::string> repositories, ObjectStorage* storage, bool on_request,
                           int threads) {
  for (std::string& repository : repositories) {
    if (!IsUrl(repository)) {
      repositories_.push_back(std::move(repository));
      continue;
    }
    auto url = ParseStorageUrl(repository);
    if (url.ok() && storage == nullptr)
      url = UnsupportedError("'" + repository + "' is in an object store; expected a folder");
    if (!url.ok()) {
      unusable_ = url.status();
    } else {
      remote_.push_back(std::make_unique<RemoteRepository>(std::move(*url), *storage, on_request, threads));
    }
  }
}

Status ModelFolders::Refresh(Logger& log) const {
  BRAID_RETURN_IF_ERROR(unusable_);
  Status first;
  for (const auto& repository : remote_) {
    if (Status status = repository->Refresh(log); first.ok()) first = std::move(status);
  }
  return first;
}

void ModelFolders::Update(const std::string& name) const {
  for (const auto& repository : remote_) repository->Update(name);
}

Result<std::map<std::string, int>> ModelFolders::Names(Skipped& skipped) const {
  BRAID_RETURN_IF_ERROR(unusable_);
  std::map<std::string, int> names;
  const auto add = [&](const std::string& name, const Status& named) {
    if (named.ok()) ++names[name];
    if (!named.ok()) skipped[name] = named;
  };
  for (const auto& repository : remote_) {
    for (const std::string& name : repository->names()) {
      if (!Hidden(name)) add(name, CheckRemoteModelName(name));
    }
  }
  for (const std::string& path : repositories_) {
    BRAID_ASSIGN_OR_RETURN(const Folder repository, Folder::Open(path));
    BRAID_ASSIGN_OR_RETURN(const auto entries, repository.List(kMaxEntries));
    for (const auto& entry : entries) {
      if (Hidden(entry.name)) continue;
      if (!entry.fault.ok()) {
        skipped[entry.name] = entry.fault;
      } else if (entry.kind == Folder::Kind::kFolder) {
        add(entry.name, CheckModelName(entry.name));
      }
    }
  }
  return names;
}

std::vector<std::string> ModelFolders::Misgivings() const {
  std::vector<std::string> found;
  for (const auto& repository : remote_) {
    if (repository->names().empty())
      found.push_back("'" + repository->url().text +
                      "' has no model folder; expected MODEL/config.pbtxt and MODEL/1/ in it");
  }
  for (const std::string& path : repositories_) {
    const auto repository = Folder::Open(path);
    if (!repository.ok()) continue;
    const auto entries = repository->List(kMaxEntries);
    if (!entries.ok()) continue;
    const std::string where = "'" + repository->path() + "'";
    const std::string parent = repository->path().substr(0, repository->path().rfind('/'));
    const bool models = std::ranges::any_of(*entries, [](const auto& entry) {
      return entry.kind == Folder::Kind::kFolder && !Hidden(entry.name) && !ParseVersion(entry.name);
    });
    const bool versions = std::ranges::any_of(*entries, [](const auto& entry) {
      return entry.kind == Folder::Kind::kFolder && ParseVersion(entry.name);
    });
    if (!models && (versions || repository->HasFile("config.pbtxt"))) {
      found.push_back(
          where +
          " looks like the folder of a model; serve the model repository that contains it: braid serve " +
          (parent.empty() ? "/" : parent));
    } else if (repository->HasFile("config.json")) {
      found.push_back(where +
                      " has a config.json, which a model repository does not use; to serve it: braid serve "
                      "--config_path " +
                      repository->path() + "/config.json");
    } else if (!models) {
      found.push_back(where + " has no model folder; expected MODEL/config.pbtxt and MODEL/1/ in it");
    }
  }
  return found;
}

Result<ModelFolder> ModelFolders::Open(const std::string& name) const {
  std::optional<ModelFolder> found;
  if (!CheckModelName(name).ok()) return NotFoundError("model not found in any model repository.");
  BRAID_RETURN_IF_ERROR(unusable_);
  const auto take = [&found](Result<ModelFolder> folder) {
    if (!folder.ok()) {
      return folder.status().code() == StatusCode::kNotFound ? OkStatus() : folder.status();
    }
    if (found) return AlreadyExistsError("not unique across all model repositories");
    found = std::move(*folder);
    return OkStatus();
  };
  for (const std::string& path : repositories_) {
    BRAID_ASSIGN_OR_RETURN(const Folder repository, Folder::Open(path));
    auto folder = repository.OpenFolder(name);
    if (folder.ok()) {
      std::string place = folder->path();
      BRAID_RETURN_IF_ERROR(take(ModelFolder{.folder = std::move(*folder), .place = std::move(place)}));
    } else {
      BRAID_RETURN_IF_ERROR(take(folder.status()));
    }
  }
  for (const auto& repository : remote_) {
    auto copy = repository->Open(name);
    if (!copy.ok()) {
      BRAID_RETURN_IF_ERROR(take(copy.status()));
      continue;
    }
    BRAID_ASSIGN_OR_RETURN(Folder folder, Folder::Open((*copy)->path()));
    BRAID_RETURN_IF_ERROR(take(ModelFolder{.folder = std::move(folder),
                                           .place = repository->url().Beneath(name).text,
                                           .copy = std::move(*copy)}));
  }
  if (!found) return NotFoundError("model not found in any model repository.");
  return std::move(*found);
}

uint64_t FingerprintOf(const Folder& folder, const std::vector<std::string>& files) {
  uint64_t print = 0;
  for (const std::string& name : files) print = MixFile(Mix(print, name), folder, name);
  return print;
}

Fingerprint FingerprintOf(const Folder& model, std::string_view suffix) {
  struct Task {
    Folder folder;
    std::string path;
    size_t depth;
    uint64_t* part;  // the hash that its files change besides the whole
  };
  Fingerprint print;
  size_t entries_left = kMaxEntries;
  std::vector<Task> tasks;
  auto start = model.OpenFolder(".");
  if (!start.ok()) return print;
  tasks.push_back({std::move(start).value(), "", 0, &print.common});
  while (!tasks.empty()) {
    const Task task = std::move(tasks.back());
    tasks.pop_back();
    auto entries = task.folder.List(entries_left);
    if (!entries.ok()) {
      // A folder that cannot be read differs from one that can.
      print.whole = Mix(print.whole, entries.status().message());
      continue;
    }
    entries_left -= entries->size();
    for (const auto& entry : *entries) {
      if (IsIgnored(entry.name)) continue;
      if (entry.kind != Folder::Kind::kFolder && !entry.name.ends_with(suffix)) continue;
      const std::string path = task.path + "/" + entry.name;
      const auto version = task.depth == 0 ? ParseVersion(entry.name) : std::nullopt;
      uint64_t ignored = 0;
      uint64_t* part = task.part;
      if (version && entry.kind == Folder::Kind::kFolder) part = &print.versions[*version];
      if (task.depth == 0 && IsConfig(entry.name)) part = &ignored;
      uint64_t hash = Mix(0, path);
      if (entry.kind == Folder::Kind::kFolder) {
        // Only a folder's contents count: its own time also changes with ignored files.
        if (task.depth + 1 < kMaxDepth) {
          if (auto folder = task.folder.OpenFolder(entry.name); folder.ok()) {
            tasks.push_back(
                {std::move(folder).value(), path, task.depth + 1, part == &ignored ? nullptr : part});
          }
        }
      } else {
        hash = MixFile(hash, task.folder, entry.name);
      }
      print.whole = Mix(print.whole, hash);
      if (part != nullptr) *part = Mix(*part, hash);
    }
  }
  return print;
}

Result<std::vector<int64_t>> ListVersions(const Folder& model, std::map<std::string, std::string>& ignored) {
  BRAID_ASSIGN_OR_RETURN(const auto entries, model.List(kMaxEntries));
  std::vector<int64_t> versions;
  for (const auto& entry : entries) {
    const auto version = ParseVersion(entry.name);
    if (!entry.fault.ok()) {
      if (version) ignored[entry.name] = entry.fault.message();
    } else if (entry.kind == Folder::Kind::kFolder && version) {
      versions.push_back(*version);
    } else if (entry.kind == Folder::Kind::kFolder && LooksLikeVersion(entry.name)) {
      ignored[entry.name] = "versions are integers from 1, without leading zeros";
    }
  }
  std::sort(versions.begin(), versions.end());
  return versions;
}

}  // namespace braid
