// ModelFolders: the model folders in the repositories, their versions, and fingerprints that detect changes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "config/folder.h"
#include "repository/remote_repository.h"

namespace braid {

// An open model folder.
struct ModelFolder {
  Folder folder;
  // The folder's path, or its URL in an object store. Stays the same when the store's files change.
  std::string place;
  // Keeps the copy of a folder in an object store; null for other folders.
  std::shared_ptr<const LocalCopy> copy = {};
};

// The model folders of all repositories. Thread-safe. Every call reads the disk; repositories in object
// stores are read by Refresh() and Update().
class ModelFolders {
 public:
  // `storage` outlives the object; only a repository in an object store needs it. `on_request`: models there
  // are copied by Update() alone.
  explicit ModelFolders(std::vector<std::string> repositories, ObjectStorage* storage = nullptr,
                        bool on_request = false, int threads = 1);

  // Whether a repository is in an object store.
  bool remote() const { return !remote_.empty(); }
  // Reads the names of the models in object stores and, if not `on_request`, copies models that have
  // changed. Blocks. Errors: a store that cannot be read.
  Status Refresh(Logger& log) const;
  // Copies one model if it has changed; a failure is the result of Open(). Blocks.
  void Update(const std::string& name) const;

  // Skipped entries by name, with the reason: the name is not valid for a model, or a link leads to nothing.
  using Skipped = std::map<std::string, Status>;
  // Returns the names of model folders, and the number of repositories that have each. Hidden folders are
  // left out. Errors: a repository that cannot be read.
  Result<std::map<std::string, int>> Names(Skipped& skipped) const;

  // Returns a hint for each path that hardly is a model repository: its likely kind, and the command to use
  // instead.
  std::vector<std::string> Misgivings() const;

  // Opens a model's folder, even a hidden one. Errors: NOT_FOUND, also for a name that is not valid for a
  // model; ALREADY_EXISTS if two repositories have it; INTERNAL.
  Result<ModelFolder> Open(const std::string& name) const;

 private:
  std::vector<std::string> repositories_;  // folders
  std::vector<std::unique_ptr<RemoteRepository>> remote_;
  Status unusable_;  // a URL that cannot be read
};

// Whether files and folders of this name do not belong to a model: hidden ones, those that Python writes
// beside the code it runs, and the backups of editors.
bool IsIgnored(std::string_view name);

// Hashes that change when a file is added, removed, or differs in size or time. Ignored files do not count.
struct Fingerprint {
  uint64_t whole = 0;
  // Everything outside of the version folders, except for the configuration, which is compared by its
  // content.
  uint64_t common = 0;
  std::map<int64_t, uint64_t> versions;
};
// With a suffix, only files whose names end so count.
Fingerprint FingerprintOf(const Folder& model, std::string_view suffix = {});
// The same for some files of a folder.
uint64_t FingerprintOf(const Folder& folder, const std::vector<std::string>& files);

// Returns the version folders of a model, ascending. `ignored` gets the folders whose names only look like
// versions, with the reason.
Result<std::vector<int64_t>> ListVersions(const Folder& model, std::map<std::string, std::string>& ignored);

// Mixes a value into a fingerprint.
uint64_t Mix(uint64_t seed, uint64_t value);
uint64_t Mix(uint64_t seed, std::string_view text);

}  // namespace braid
