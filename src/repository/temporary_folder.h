// TemporaryFolder: a private folder for the files of a load request, gone with its last owner.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "base/unique_fd.h"

namespace braid {

class TemporaryFolder {
 public:
  // Makes a new folder in `parent` that only the server's user can enter. Shared between the repository and
  // the backend, whichever needs the files longer.
  static Result<std::shared_ptr<TemporaryFolder>> Create(const std::string& parent);
  // Removes the folder and everything in it.
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

  // Removes what servers that were killed have left in `parent`.
  static void RemoveAbandoned(const std::string& parent);

 private:
  TemporaryFolder(std::string path, UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  std::string path_;
  UniqueFd lock_;  // locked for as long as the folder is in use; the kernel unlocks it when the process dies
};

}  // namespace braid
