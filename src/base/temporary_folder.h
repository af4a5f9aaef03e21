// TemporaryFolder: a private folder with an unpredictable name, gone with its last owner.
//
// A server that is killed cannot remove its folders; the next one does. It knows them by their names' prefix,
// and that nobody uses them by a lock on the folder itself, which the kernel drops when a process dies.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/unique_fd.h"

namespace braid {

class TemporaryFolder {
 public:
  // Makes a new folder in `parent` that only the server's user can enter; its name starts with `prefix`,
  // which says what it is for ("braid-files-"). Shared, because those who use the files leave in any order.
  static Result<std::shared_ptr<TemporaryFolder>> Create(const std::string& parent, std::string_view prefix);
  // Removes the folder and everything in it.
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

  // Removes what servers that were killed have left in `parent` under names that start with `prefix`.
  static void RemoveAbandoned(const std::string& parent, std::string_view prefix);

 private:
  TemporaryFolder(std::string path, UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  std::string path_;
  UniqueFd lock_;  // locked for as long as the folder is in use
};

}  // namespace braid
