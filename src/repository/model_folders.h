// What lies in the model repositories: model folders, their versions, and whether they have changed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "config/folder.h"

namespace braid {

// The model folders of all repositories. Reads the disk at each call; any thread.
class ModelFolders {
 public:
  explicit ModelFolders(std::vector<std::string> repositories) : repositories_(std::move(repositories)) {}

  // What is no model, by name, and why: a folder whose name no model can have, or a link that leads to nothing.
  using Skipped = std::map<std::string, Status>;
  // Names of model folders, and in how many of the repositories each is. Hidden folders are left out. Errors: a
  // repository that cannot be read.
  Result<std::map<std::string, int>> Names(Skipped& skipped) const;

  // Of each folder that hardly is a model repository, what it seems to be, and what to type instead.
  std::vector<std::string> Misgivings() const;

  // Opens a model's folder, also a hidden one; what is no model's name is not found. Errors: NOT_FOUND;
  // ALREADY_EXISTS when it is in two repositories; INTERNAL.
  Result<Folder> Open(const std::string& name) const;

 private:
  std::vector<std::string> repositories_;
};

// Numbers that change when a file is added, removed, or differs in size or time. Files that Python writes
// beside what it runs, and hidden ones, do not count.
struct Fingerprint {
  uint64_t whole = 0;
  // Everything outside of the version folders but the configuration, which is compared by its content.
  uint64_t common = 0;
  std::map<int64_t, uint64_t> versions;
};
Fingerprint FingerprintOf(const Folder& model);

// Version folders of a model, ascending. `ignored` gets the names of folders that look like versions and are none, and why.
Result<std::vector<int64_t>> ListVersions(const Folder& model, std::map<std::string, std::string>& ignored);

// Mixes a value into a fingerprint.
uint64_t Mix(uint64_t seed, uint64_t value);
uint64_t Mix(uint64_t seed, std::string_view text);

}  // namespace braid
