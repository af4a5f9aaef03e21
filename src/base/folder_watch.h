// FolderWatch: waits until files are saved in folders, by inotify.
//
//   BRAID_ASSIGN_OR_RETURN(auto watch, FolderWatch::Create({.ignored = IsIgnored}));
//   for (;;) {
//     std::vector<std::string> unseen;
//     BRAID_RETURN_IF_ERROR(watch->Watch({.trees = {"models"}, .files = {"config.json"}}, unseen));
//     ...                                                  // read the files
//     FolderWatch::Changes changes = watch->Await(FolderWatch::kNever);
//   }
//
// An event only says that it is time to look. A caller that reads the files after Watch() misses no change:
// later ones end the next Await().
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace braid {

// When a burst of events is over: after a pause, or after a while for files that are written all the time.
// Times are SteadyNowNs().
class EventBurst {
 public:
  EventBurst(int64_t pause_ns, int64_t most_ns) : pause_ns_(pause_ns), most_ns_(most_ns) {}

  // Records a change, which begins or prolongs a burst.
  void NoteChange(int64_t now_ns);
  // Records that a file is being written. That prolongs a burst, but begins none: the change comes later.
  void NoteWrite(int64_t now_ns);
  // When the burst ends; nullopt outside of a burst.
  std::optional<int64_t> end_ns() const;
  void Clear() { first_ns_.reset(); }

 private:
  const int64_t pause_ns_;
  const int64_t most_ns_;
  std::optional<int64_t> first_ns_;
  int64_t last_ns_ = 0;
};

// Not thread-safe, except for Wake().
class FolderWatch {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  struct Options {
    // Whether files and folders of this name do not count.
    std::function<bool(std::string_view name)> ignored = [](std::string_view) { return false; };
    int64_t pause_ns = 40'000'000;
    int64_t most_ns = 1'000'000'000;
  };
  // The files to watch, which need not exist. Symbolic links are followed, and are watched themselves.
  struct Wanted {
    std::vector<std::string> trees;  // folders with all their subfolders
    std::vector<std::string> files;
  };
  struct Changes {
    // The changed files, by the paths through which they are watched; not all of them after an overflow.
    std::set<std::string> files;
  };

  // Errors: RESOURCE_EXHAUSTED, with the name of the system's limit.
  static Result<std::unique_ptr<FolderWatch>> Create(Options options);

  // Watches these files in place of those before. Folders that are not readable are not watched; `unseen`
  // gets a text for each. Errors: RESOURCE_EXHAUSTED, with the system's limit; files may be unwatched then.
  Status Watch(const Wanted& wanted, std::vector<std::string>& unseen);

  // Waits until a burst of changes is over, until `until_ns` (SteadyNowNs() time), or for Wake().
  Changes Await(int64_t until_ns);
  // Ends the current Await(), or else the next one. Any thread.
  void Wake();

  // Whether the path is on a file system that other machines can write to. inotify does not see that.
  static bool IsRemote(const std::string& path);

 private:
  // A watched folder. Several paths can lead to it; the first one names it.
  struct Watched {
    std::string path;
    bool all = false;                          // all names count
    std::map<std::string, std::string> names;  // the names that count otherwise, with the paths to report
  };
  // The state of one Watch().
  struct Round {
    std::map<int, Watched> watched;
    size_t entries = 0;
    std::vector<std::string>* unseen = nullptr;
  };

  FolderWatch(Options options, UniqueFd inotify, UniqueFd wake)
      : options_(std::move(options)),
        inotify_(std::move(inotify)),
        wake_(std::move(wake)),
        burst_(options_.pause_ns, options_.most_ns) {}

  // Watches one folder. Returns its entry, or null if it has gone or cannot be read.
  Result<Watched*> Add(const std::string& folder, Round& round);
  // Watches the name and the links behind it, and the folder at their end if it is a tree. `shown` is the path
  // to report.
  Status AddPath(const std::string& path, const std::string& shown, bool tree, Round& round);
  Status AddTree(const std::string& folder, const std::string& shown, size_t depth, Round& round);
  // Reads the events that are there.
  void Read(Changes& changes, int64_t now_ns);

  const Options options_;
  const UniqueFd inotify_;
  const UniqueFd wake_;
  EventBurst burst_;
  std::map<int, Watched> watched_;  // by watch descriptor
};

}  // namespace braid
