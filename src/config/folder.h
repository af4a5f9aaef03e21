// Folder: an open directory, and names that cannot lead out of it.
//
// A path from a configuration or a request is resolved beneath the descriptor, by the kernel, so that neither ".." nor an
// absolute path reaches anything else. Symbolic links that lie in the folder are the operator's, and are followed wherever
// they lead. Const methods may be called from any thread.
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
    // Of what a symbolic link leads to.
    Kind kind = Kind::kOther;
    // Why a symbolic link cannot be followed.
    Status fault = {};
  };

  // Opens any folder by path; the path is the operator's and is followed wherever it leads.
  static Result<Folder> Open(const std::string& path);

  // Opens a folder of this one. Errors: NOT_FOUND when there is none; INTERNAL when it cannot be opened, e.g. because the
  // name leads out of this folder, or is a symbolic link to nothing.
  Result<Folder> OpenFolder(const std::string& relative_path) const;

  // A whole file of this folder. Errors: as above; also not a regular file, or more than `max_bytes`.
  Result<std::string> ReadFile(const std::string& relative_path, size_t max_bytes) const;
  bool HasFile(const std::string& relative_path) const;

  // Everything in this folder but "." and "..", sorted by name. Errors: INTERNAL; more than `max_entries`.
  Result<std::vector<Entry>> List(size_t max_entries) const;

  // Size and times of one of this folder's own entries; a symbolic link is followed for it wherever it leads,
  // which tells no more than that something has changed. False when there is nothing.
  bool Stat(const std::string& name, struct stat& result) const;

  // Creates a file with `content` in this folder, and the folders before it; nothing that exists is
  // overwritten or followed. Only the server's user can read it. REQUIRES:
  // IsPlainRelativePath(relative_path).
  Status CreateFile(const std::string& relative_path, std::string_view content) const;

  // As it was opened, made absolute.
  const std::string& path() const { return path_; }

 private:
  Folder(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  Result<UniqueFd> OpenBeneath(const std::string& relative_path, int flags) const;
  // `resolve`: how links and ".." are taken, as openat2() has it.
  Result<UniqueFd> OpenBeneath(const std::string& relative_path, int flags, uint64_t resolve) const;

  std::string path_;
  UniqueFd fd_;
};

// Whether a path is relative and made of plain names alone: no "..", ".", empty parts, backslashes or control
// characters.
bool IsPlainRelativePath(std::string_view path);

}  // namespace braid
