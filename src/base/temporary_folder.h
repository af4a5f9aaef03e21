// TemporaryFolder: a private folder with an unpredictable name, removed with its last owner.
//
// A server that is killed cannot remove its folders; the next server does. It recognises them by the prefix
// of their names. A lock on a folder shows that it is in use; the kernel drops the lock when the process
// dies.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/unique_fd.h"

namespace braid {

class TemporaryFolder {
 public:
  // Creates a folder in `parent` that only the server's user can enter. Its name starts with `prefix`, which
  // says its purpose ("braid-files-"). Shared, because the users of the files finish in any order.
  static Result<std::shared_ptr<TemporaryFolder>> Create(const std::string& parent, std::string_view prefix);
  // Removes the folder and everything in it.
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

  // Removes folders in `parent` whose names start with `prefix` and whose server was killed.
  static void RemoveAbandoned(const std::string& parent, std::string_view prefix);

 private:
  TemporaryFolder(std::string path, UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  std::string path_;
  UniqueFd lock_;  // held while the folder is in use
};

}  // namespace braid
