// Folder: an open directory that resolves names beneath it.
//
// The kernel resolves a path from a configuration or a request beneath the descriptor, so that neither ".."
// nor an absolute path leads out. The operator owns the symbolic links in the folder, and they are followed
// anywhere. Const methods are thread-safe.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace braid {

class Folder {
 public:
  enum class Kind : unsigned char { kFile, kFolder, kOther };
  struct Entry {
    std::string name;
    // The kind of a symbolic link's target.
    Kind kind = Kind::kOther;
    // The reason why a symbolic link cannot be followed.
    Status fault = {};
  };

  // Opens any folder by path. The operator owns the path, and its links are followed anywhere.
  static Result<Folder> Open(const std::string& path);

  // Opens a folder of this one. Errors: NOT_FOUND if there is none; INTERNAL if it cannot be opened, for
  // example because the name leads out of this folder or is a broken symbolic link.
  Result<Folder> OpenFolder(const std::string& relative_path) const;

  // Reads a whole file of this folder. Errors: as OpenFolder(); also for other than regular files, and for
  // more than `max_bytes`.
  Result<std::string> ReadFile(const std::string& relative_path, size_t max_bytes) const;
  bool HasFile(const std::string& relative_path) const;

  // Lists this folder, sorted by name, without "." and "..". Errors: INTERNAL; more than `max_entries`.
  Result<std::vector<Entry>> List(size_t max_entries) const;

  // Gets size and times of one of this folder's own entries; callers only use them to detect changes. A
  // symbolic link is followed anywhere. Returns false if there is no such entry.
  bool Stat(const std::string& name, struct stat& result) const;

  // Creates a file with `content` in this folder, and its parent folders. Existing files are not overwritten,
  // and links are not followed. Only the server's user can read it. REQUIRES:
  // IsPlainRelativePath(relative_path).
  Status CreateFile(const std::string& relative_path, std::string_view content) const;

  // The path with which the folder was opened, made absolute.
  const std::string& path() const { return path_; }

 private:
  Folder(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  Result<UniqueFd> OpenBeneath(const std::string& relative_path, int flags) const;
  // The flags in `resolve` are those of openat2().
  Result<UniqueFd> OpenBeneath(const std::string& relative_path, int flags, uint64_t resolve) const;

  std::string path_;
  UniqueFd fd_;
};

// Whether a path is relative and has only plain names: no "..", ".", empty parts, backslashes or control
// characters.
bool IsPlainRelativePath(std::string_view path);

}  // namespace braid
