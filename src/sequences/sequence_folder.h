// SequenceFolder: the folder of --sequence_state_path, with a file for each version of a model that has
// sequences.
//
// One server at a time: the folder is locked, by a lock that goes with the process. Names of models are
// encoded, so that none leads out of the folder. Only the server's user can read what is in it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/unique_fd.h"
#include "sequences/sequence_file.h"

namespace braid {

// Any thread; not for use of one file by two threads at once.
class SequenceFolder {
 public:
  // Makes the folder, not the folders before it, when there is none. Errors: INVALID_ARGUMENT when it cannot
  // be made or written, is no folder, or another server uses it; the text names the path.
  static Result<SequenceFolder> Open(const std::string& path);

  // The name of the file of one version: "name.1.sequences". What is no letter, digit, '-', '_' or '.' within
  // a name is written as %XX, and of a long name its beginning and a hash.
  static std::string NameOf(std::string_view model, int64_t version);
  std::string PathOf(const std::string& name) const { return path_ + "/" + name; }

  // As the functions of sequence_file.h.
  Result<SequenceFile> Read(const std::string& name) const { return ReadSequenceFile(fd_, name); }
  Status Write(const std::string& name, const SequenceFile& content,
               const std::function<bool()>& give_up) const {
    return WriteSequenceFile(fd_, name, content, give_up);
  }
  // OK also when there is none.
  Status Remove(const std::string& name) const;
  // Renames a file, if there is one, to `name` with `suffix` behind it, in the place of one that was set
  // aside before.
  Status SetAside(const std::string& name, std::string_view suffix) const;

 private:
  SequenceFolder(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  UniqueFd fd_;  // locked
};

}  // namespace braid
