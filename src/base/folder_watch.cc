#include "base/folder_watch.h"

#include <dirent.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "base/clock.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostDepth = 16;
constexpr size_t kMostEntries = 1000000;
constexpr int kMostLinks = 16;
constexpr size_t kMostNamed = 100;

// A writer that closes a file has finished it, so IN_MODIFY only prolongs a burst.
constexpr uint32_t kEvents = IN_CLOSE_WRITE | IN_MODIFY | IN_ATTRIB | IN_CREATE | IN_DELETE | IN_MOVED_FROM |
                             IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF;

Status LimitReached(const char* setting, const std::string& what) {
  std::string value;
  std::ifstream(fmt::format("/proc/sys/fs/inotify/{}", setting)) >> value;
  return ResourceExhaustedError(fmt::format(
      "cannot watch {}: the limit fs.inotify.{} ({}) of this user is reached; raise it, for example "
      "with `sysctl -w fs.inotify.{}=524288`",
      what, setting, value.empty() ? "unknown" : value, setting));
}

// Whether a new name is complete at once: a link. A new file is closed later.
bool IsLink(const std::string& path) {
  struct stat info = {};
  return ::lstat(path.c_str(), &info) == 0 && (S_ISLNK(info.st_mode) || info.st_nlink > 1);
}

bool IsFolder(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

void EventBurst::NoteChange(int64_t now_ns) {
  if (!first_ns_) first_ns_ = now_ns;
  last_ns_ = now_ns;
}

void EventBurst::NoteWrite(int64_t now_ns) { last_ns_ = now_ns; }

std::optional<int64_t> EventBurst::end_ns() const {
  if (!first_ns_) return std::nullopt;
  return std::min(last_ns_ + pause_ns_, *first_ns_ + most_ns_);
}

Result<std::unique_ptr<FolderWatch>> FolderWatch::Create(Options options) {
  UniqueFd inotify(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!inotify.valid() && errno == EMFILE) return LimitReached("max_user_instances", "files");
  if (!inotify.valid()) return ErrnoError("inotify_init1", errno);
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return ErrnoError("eventfd", errno);
  return std::unique_ptr<FolderWatch>(
      new FolderWatch(std::move(options), std::move(inotify), std::move(wake)));
}

Result<FolderWatch::Watched*> FolderWatch::Add(const std::string& folder, Round& round) {
  const int watch = ::inotify_add_watch(inotify_.get(), folder.c_str(), kEvents | IN_ONLYDIR);
  if (watch < 0) {
    if (errno == ENOSPC) return LimitReached("max_user_watches", "'" + folder + "'");
    if (errno != ENOENT && errno != ENOTDIR) {
      round.unseen->push_back(fmt::format("'{}' is not watched: {}", folder, std::strerror(errno)));
    }
    return nullptr;
  }
  Watched& watched = round.watched[watch];
  if (watched.path.empty()) watched.path = folder;
  return &watched;
}

Status FolderWatch::AddPath(const std::string& path, const std::string& shown, bool tree, Round& round) {
  std::error_code fault;
  fs::path place = fs::absolute(path, fault).lexically_normal();
  if (!place.has_filename()) place = place.parent_path();  // "models/"
  for (int links = 0; links < kMostLinks; ++links) {
    if (!fs::exists(fs::symlink_status(place, fault))) {
      // Its folder may be missing too.
      fs::path above = place;
      while (above.has_relative_path() && !fs::is_directory(above.parent_path(), fault))
        above = above.parent_path();
      BRAID_ASSIGN_OR_RETURN(Watched * watched, Add(above.parent_path(), round));
      if (watched != nullptr) watched->names.emplace(above.filename(), shown);
      return OkStatus();
    }
    const bool link = fs::is_symlink(fs::symlink_status(place, fault));
    if (link || !tree || !IsFolder(place)) {
      BRAID_ASSIGN_OR_RETURN(Watched * watched, Add(place.parent_path(), round));
      if (watched != nullptr) watched->names.emplace(place.filename(), shown);
    }
    if (!link) break;
    place = (place.parent_path() / fs::read_symlink(place, fault)).lexically_normal();
    if (!place.has_filename()) place = place.parent_path();
  }
  return tree && IsFolder(place) ? AddTree(place, shown, 0, round) : OkStatus();
}

Status FolderWatch::AddTree(const std::string& folder, const std::string& shown, size_t depth, Round& round) {
  // Before the folder is listed, so that later entries become events.
  BRAID_ASSIGN_OR_RETURN(Watched * watched, Add(folder, round));
  if (watched == nullptr || watched->all) return OkStatus();  // `all`: also ends a circle of links
  watched->all = true;
  watched->path = shown;
  if (depth == kMostDepth) {
    round.unseen->push_back(
        fmt::format("the folders in '{}' are not watched: they are nested too deeply", folder));
    return OkStatus();
  }
  const auto close = [](DIR* dir) { ::closedir(dir); };
  const std::unique_ptr<DIR, decltype(close)> dir(::opendir(folder.c_str()), close);
  if (!dir) return OkStatus();  // gone meanwhile
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == ".." || options_.ignored(name)) continue;
    if (++round.entries > kMostEntries) {
      return ResourceExhaustedError(
          fmt::format("cannot watch '{}': more than {} files", folder, kMostEntries));
    }
    const std::string path = folder + "/" + name;
    struct stat info = {};
    if (::lstat(path.c_str(), &info) != 0) continue;
    if (S_ISLNK(info.st_mode)) BRAID_RETURN_IF_ERROR(AddPath(path, shown + "/" + name, true, round));
    if (S_ISDIR(info.st_mode)) BRAID_RETURN_IF_ERROR(AddTree(path, shown + "/" + name, depth + 1, round));
  }
  return OkStatus();
}

Status FolderWatch::Watch(const Wanted& wanted, std::vector<std::string>& unseen) {
  Round round;
  round.unseen = &unseen;
  Status status;
  for (std::string tree : wanted.trees) {
    while (tree.size() > 1 && tree.ends_with('/')) tree.pop_back();
    if (status.ok()) status = AddPath(tree, tree, true, round);
  }
  for (const std::string& file : wanted.files) {
    if (status.ok()) status = AddPath(file, file, false, round);
  }
  for (auto& [watch, before] : watched_) {
    if (round.watched.contains(watch)) continue;
    if (status.ok()) {
      ::inotify_rm_watch(inotify_.get(), watch);
    } else {
      round.watched.emplace(watch, std::move(before));
    }
  }
  watched_ = std::move(round.watched);
  return status;
}

void FolderWatch::Read(Changes& changes, int64_t now_ns) {
  alignas(inotify_event) char buffer[16384];
  const auto note = [&](std::string file) {
    burst_.NoteChange(now_ns);
    if (changes.files.size() < kMostNamed) changes.files.insert(std::move(file));
  };
  for (ssize_t length = 0; (length = ::read(inotify_.get(), buffer, sizeof(buffer))) > 0;) {
    for (const char* at = buffer; at < buffer + length;) {
      const auto* event = reinterpret_cast<const inotify_event*>(at);
      at += sizeof(inotify_event) + event->len;
      if (event->mask & IN_Q_OVERFLOW) burst_.NoteChange(now_ns);
      const auto found = watched_.find(event->wd);
      if (found == watched_.end()) continue;
      const Watched& watched = found->second;
      if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT)) note(watched.path);
      if (event->mask & IN_IGNORED) watched_.erase(found);  // the system's watch has ended
      if (event->len == 0) continue;
      const std::string name = event->name;
      const auto named = watched.names.find(name);
      if (named == watched.names.end() && (!watched.all || options_.ignored(name))) continue;
      const bool folder = event->mask & IN_ISDIR;
      if (event->mask & IN_MODIFY) {
        burst_.NoteWrite(now_ns);
      } else if ((event->mask & IN_CREATE) && !folder && !IsLink(watched.path + "/" + name)) {
        burst_.NoteWrite(now_ns);
      } else {
        note(named == watched.names.end() ? watched.path + "/" + name : named->second);
      }
    }
  }
}

FolderWatch::Changes FolderWatch::Await(int64_t until_ns) {
  Changes changes;
  for (;;) {
    const int64_t now_ns = SteadyNowNs();
    Read(changes, now_ns);
    const int64_t end_ns = std::min(until_ns, burst_.end_ns().value_or(kNever));
    if (now_ns >= end_ns) break;
    pollfd fds[] = {{inotify_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    // Rounded up; in steps that fit.
    const int64_t wait_ms = std::min<int64_t>((end_ns - now_ns) / kMillisecondNs + 1, 3'600'000);
    if (::poll(fds, 2, static_cast<int>(wait_ms)) > 0 && fds[1].revents != 0) {
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t taken = ::read(wake_.get(), &count, sizeof(count));
      break;
    }
  }
  burst_.Clear();
  return changes;
}

void FolderWatch::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof(one));
}

bool FolderWatch::IsRemote(const std::string& path) {
  struct statfs info = {};
  if (::statfs(path.c_str(), &info) != 0) return false;
  constexpr uint32_t kCifs = 0xFF534D42;
  constexpr uint32_t kSmb2 = 0xFE534D42;
  constexpr uint32_t kFuse = 0x65735546;
  constexpr uint32_t kCeph = 0x00C36400;
  const auto type = static_cast<uint32_t>(info.f_type);
  return type == NFS_SUPER_MAGIC || type == SMB_SUPER_MAGIC || type == V9FS_MAGIC ||
         type == AFS_SUPER_MAGIC || type == kCifs || type == kSmb2 || type == kFuse || type == kCeph;
}

}  // namespace braid
