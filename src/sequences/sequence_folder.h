// SequenceFolder: the folder of --sequence_state_path. It has a file for each version of a model that has
// sequences.
//
// One server uses it at a time: the folder is locked, and the lock ends with the process. Names of models are
// encoded, so that none leads out of the folder. Only the server's user can read the files.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/unique_fd.h"
#include "sequences/sequence_file.h"

namespace braid {

// Any thread, but one file must not be used by two threads at once.
class SequenceFolder {
 public:
  // Opens the folder; creates it, but not its parents, if it does not exist. Errors: INVALID_ARGUMENT, naming
  // the path, if it cannot be created or written, is not a folder, or another server uses it.
  static Result<SequenceFolder> Open(const std::string& path);

  // Returns the file name of one version: "name.1.sequences". All but letters, digits, '-', '_' and inner '.'
  // are written as %XX. A long name is shortened to its beginning and a hash.
  static std::string NameOf(std::string_view model, int64_t version);
  std::string PathOf(const std::string& name) const { return path_ + "/" + name; }

  // As the functions of sequence_file.h.
  Result<SequenceFile> Read(const std::string& name) const { return ReadSequenceFile(fd_, name); }
  Status Write(const std::string& name, const SequenceFile& content,
               const std::function<bool()>& give_up) const {
    return WriteSequenceFile(fd_, name, content, give_up);
  }
  // Returns OK if there is no such file, too.
  Status Remove(const std::string& name) const;
  // Renames a file, if it exists, to `name` followed by `suffix`. Replaces a file that was set aside earlier.
  Status SetAside(const std::string& name, std::string_view suffix) const;

 private:
  SequenceFolder(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  UniqueFd fd_;  // locked
};

}  // namespace braid
