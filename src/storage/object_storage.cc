#include "storage/object_storage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "base/clock.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCachePrefix = "braid-models-";
constexpr size_t kMostObjects = 100000;
// How often a copy is made anew because the objects changed meanwhile.
constexpr int kMostCopies = 3;
constexpr int64_t kCopyLogNs = 10 * kSecondNs;
constexpr int64_t kMostPauseNs = 60 * kSecondNs;
constexpr double kMebi = 1 << 20;
// Left free on the disk.
constexpr uint64_t kSpareBytes = uint64_t{16} << 20;

// Returns the time of a copied file.
Result<int64_t> TimeOfCopied(const std::string& path, uint64_t size) {
  struct stat info = {};
  if (::lstat(path.c_str(), &info) != 0) return ErrnoError("'" + path + "'", errno);
  if (!S_ISREG(info.st_mode)) return InternalError("'" + path + "' is not a file");
  if (static_cast<uint64_t>(info.st_size) != size) {
    return UnavailableError(
        fmt::format("'{}' has {} bytes, and the object has {}", path, info.st_size, size));
  }
  return info.st_mtim.tv_sec * kSecondNs + info.st_mtim.tv_nsec;
}

std::string NameOfUrl(const StorageUrl& url) {
  return url.path.empty() ? url.bucket : url.path.substr(url.path.rfind('/') + 1);
}

}  // namespace

LocalCopy::~LocalCopy() {
  std::error_code ignored;  // the rest goes with the cache
  fs::remove_all(place_, ignored);
}

// ---- RemoteFolder ----

RemoteFolder::RemoteFolder(StorageUrl url, ObjectStorage& storage)
    : url_(std::move(url)), storage_(storage) {}

Status RemoteFolder::Update(bool again) {
  MutexLock update(update_mutex_);
  auto listing = storage_.List(url_);
  if (!listing.ok()) {
    MutexLock lock(mutex_);
    fault_ = listing.status();
    return fault_;
  }
  return UpdateTo(std::move(*listing), again);
}

Status RemoteFolder::Update(const Listing& listing) {
  MutexLock update(update_mutex_);
  return UpdateTo(listing, false);
}

Status RemoteFolder::UpdateTo(Listing listing, bool again) {
  if (listing.empty()) {
    MutexLock lock(mutex_);
    fault_ = NotFoundError("'" + url_.text + "' has no objects");
    last_ = nullptr;
    return fault_;
  }
  std::shared_ptr<const LocalCopy> before;
  {
    MutexLock lock(mutex_);
    before = last_;
    if (before != nullptr && before->listing_ == listing) {
      fault_ = OkStatus();
      return fault_;
    }
    if (!again && !fault_.ok() && SteadyNowNs() < again_ns_) return fault_;
  }
  Status status = UnavailableError("'" + url_.text + "' changes while it is copied");
  std::shared_ptr<LocalCopy> made;
  for (int i = 0; i < kMostCopies; ++i) {
    auto copy = CopyAll(listing, made != nullptr ? made.get() : before.get());
    status = copy.status();
    if (!copy.ok()) break;
    made = std::move(*copy);
    // The files are of one state only if nothing has changed meanwhile.
    auto after = storage_.List(url_);
    status = after.status();
    if (!after.ok() || *after == listing) break;
    status = UnavailableError("'" + url_.text + "' changes while it is copied");
    listing = std::move(*after);
  }
  failures_ = status.ok() ? 0 : failures_ + 1;
  again_ns_ = SteadyNowNs() + std::min(kSecondNs << std::min(failures_, 10), kMostPauseNs);
  MutexLock lock(mutex_);
  fault_ = status;
  if (status.ok()) last_ = std::move(made);
  return status;
}

Result<std::shared_ptr<LocalCopy>> RemoteFolder::CopyAll(const Listing& listing, const LocalCopy* before) {
  const auto named = [this](const Status& status) { return status.WithPrefix("'" + url_.text + "': "); };
  if (listing.size() > kMostObjects)
    return named(ResourceExhaustedError(fmt::format("it has more than {} objects", kMostObjects)));
  if (Status names = CheckNames(listing); !names.ok()) return named(names);
  BRAID_ASSIGN_OR_RETURN(auto copy, storage_.MakePlace(NameOfUrl(url_)));
  std::error_code fault;
  if (!fs::create_directory(copy->path(), fault) && fault)
    return ErrnoError("'" + copy->path() + "'", fault.value());
  std::vector<std::string> missing;
  for (const auto& [path, object] : listing) {
    if (before == nullptr || !Link(*before, path, object, copy->path() + "/" + path)) missing.push_back(path);
  }
  if (!missing.empty()) BRAID_RETURN_IF_ERROR(named(storage_.Copy(url_, listing, missing, copy->path())));
  for (const auto& [path, object] : listing) {
    BRAID_ASSIGN_OR_RETURN(copy->written_ns_[path], TimeOfCopied(copy->path() + "/" + path, object.size));
  }
  copy->listing_ = listing;
  return copy;
}

// Links a file that the earlier copy has, unless a model's code has changed it.
bool RemoteFolder::Link(const LocalCopy& before, const std::string& path, const StoredObject& object,
                        const std::string& target) {
  const auto known = before.listing_.find(path);
  if (known == before.listing_.end() || known->second != object) return false;
  const std::string source = before.path() + "/" + path;
  const auto written_ns = TimeOfCopied(source, object.size);
  if (!written_ns.ok() || *written_ns != before.written_ns_.at(path)) return false;
  std::error_code fault;
  fs::create_directories(fs::path(target).parent_path(), fault);
  return ::link(source.c_str(), target.c_str()) == 0;
}

Result<std::shared_ptr<const LocalCopy>> RemoteFolder::Get() const {
  MutexLock lock(mutex_);
  if (!fault_.ok()) return fault_;
  if (last_ == nullptr) return NotFoundError("'" + url_.text + "' has not been copied");
  return last_;
}

std::shared_ptr<const LocalCopy> RemoteFolder::last() const {
  MutexLock lock(mutex_);
  return last_;
}

// ---- ObjectStorage ----

ObjectStorage::ObjectStorage(Options options, Logger& log)
    : options_(std::move(options)),
      log_(log),
      rclone_({.timeout_ns = options_.timeout_ns,
               .timeout_option = options_.timeout_option,
               .path = options_.variables.contains("PATH") ? options_.variables.at("PATH") : "/usr/bin:/bin",
               .support = options_.support},
              log) {
  TemporaryFolder::RemoveAbandoned(options_.cache_directory, kCachePrefix);
}

std::shared_ptr<RemoteFolder> ObjectStorage::Open(const StorageUrl& url) {
  MutexLock lock(mutex_);
  std::weak_ptr<RemoteFolder>& known = folders_[url.text];
  auto folder = known.lock();
  if (folder == nullptr) {
    folder = std::make_shared<RemoteFolder>(url, *this);
    known = folder;
    std::erase_if(folders_, [](const auto& each) { return each.second.expired(); });
  }
  return folder;
}

Result<Listing> ObjectStorage::List(const StorageUrl& url) {
  BRAID_ASSIGN_OR_RETURN(const RcloneRemote remote, RemoteOf(url, options_.variables));
  auto listing = rclone_.List(remote);
  if (!listing.ok()) return listing.status().WithPrefix("'" + url.text + "': ");
  return listing;
}

Result<std::vector<std::string>> ObjectStorage::ListFolders(const StorageUrl& url) {
  BRAID_ASSIGN_OR_RETURN(const RcloneRemote remote, RemoteOf(url, options_.variables));
  auto names = rclone_.ListFolders(remote);
  if (!names.ok()) return names.status().WithPrefix("'" + url.text + "': ");
  return names;
}

Result<StoredObject> ObjectStorage::ListFile(const StorageUrl& url) {
  BRAID_ASSIGN_OR_RETURN(const Listing listing, List(url));
  // A place that is a file is listed as that file alone.
  const auto file = listing.find(NameOfUrl(url));
  if (listing.size() != 1 || file == listing.end() || url.path.empty())
    return NotFoundError("'" + url.text + "' is not a file");
  return file->second;
}

Result<std::string> ObjectStorage::StateOfFile(const StorageUrl& url) {
  BRAID_ASSIGN_OR_RETURN(const StoredObject file, ListFile(url));
  return fmt::format("{} {} {}", file.size, file.modified, file.md5);
}

Result<std::shared_ptr<const LocalCopy>> ObjectStorage::CopyFile(const StorageUrl& url) {
  BRAID_ASSIGN_OR_RETURN(const StoredObject file, ListFile(url));
  const std::string name = NameOfUrl(url);
  BRAID_ASSIGN_OR_RETURN(std::shared_ptr<LocalCopy> copy, MakePlace(name));
  StorageUrl folder = url;
  folder.path = url.path.size() == name.size() ? "" : url.path.substr(0, url.path.size() - name.size() - 1);
  const Status copied = Copy(folder, {{name, file}}, {name}, copy->place_);
  if (!copied.ok()) return copied.WithPrefix("'" + url.text + "': ");
  BRAID_ASSIGN_OR_RETURN(const StoredObject after, ListFile(url));
  if (after != file) return UnavailableError("'" + url.text + "' changes while it is copied");
  return std::shared_ptr<const LocalCopy>(std::move(copy));
}

Result<std::shared_ptr<LocalCopy>> ObjectStorage::MakePlace(const std::string& name) {
  BRAID_ASSIGN_OR_RETURN(auto cache, Cache());
  const std::string place = fmt::format("{}/{}", cache->path(), ++last_copy_);
  if (::mkdir(place.c_str(), 0755) != 0) return ErrnoError("'" + place + "'", errno);
  return std::make_shared<LocalCopy>(std::move(cache), place, name);
}

Result<std::shared_ptr<TemporaryFolder>> ObjectStorage::Cache() {
  MutexLock lock(mutex_);
  if (cache_ == nullptr) {
    BRAID_ASSIGN_OR_RETURN(cache_, TemporaryFolder::Create(options_.cache_directory, kCachePrefix));
    if (options_.on_cache) options_.on_cache(cache_->path());
  }
  return cache_;
}

Status ObjectStorage::Copy(const StorageUrl& url, const Listing& listing,
                           const std::vector<std::string>& files, const std::string& folder) {
  uint64_t bytes = 0;
  for (const std::string& file : files) bytes += listing.at(file).size;
  struct statvfs disk = {};
  const uint64_t room = ::statvfs(folder.c_str(), &disk) == 0 ? disk.f_bavail * disk.f_frsize : UINT64_MAX;
  if (bytes > room || room - bytes < kSpareBytes) {
    return ResourceExhaustedError(
        fmt::format("the copy needs {:.1f} MiB, and '{}' has {:.1f} MiB; {} names another folder",
                    static_cast<double>(bytes) / kMebi, options_.cache_directory,
                    static_cast<double>(room) / kMebi, options_.cache_option));
  }
  BRAID_ASSIGN_OR_RETURN(const RcloneRemote remote, RemoteOf(url, options_.variables));
  BRAID_LOG_INFO(log_, "copying '{}': {} files, {:.1f} MiB", url.text, files.size(),
                 static_cast<double>(bytes) / kMebi);
  const int64_t start = SteadyNowNs();
  int64_t next_log = start + kCopyLogNs;
  BRAID_RETURN_IF_ERROR(rclone_.Copy(remote, files, folder, [&](const CopyProgress& done) {
    if (SteadyNowNs() < next_log) return;
    next_log = SteadyNowNs() + kCopyLogNs;
    BRAID_LOG_INFO(log_, "copying '{}': {} %, {:.0f} of {:.0f} MiB", url.text,
                   bytes == 0 ? 100 : std::min<uint64_t>(done.bytes * 100 / bytes, 100),
                   static_cast<double>(done.bytes) / kMebi, static_cast<double>(bytes) / kMebi);
  }));
  for (const std::string& file : files) {
    const std::string target = folder + "/" + file;
    if (auto time = TimeOfCopied(target, listing.at(file).size); !time.ok())
      return time.status().WithPrefix("the copy is not complete: ");
    // A new time shows a new file, even if the object's own time is an old one.
    if (::utimensat(AT_FDCWD, target.c_str(), nullptr, AT_SYMLINK_NOFOLLOW) != 0)
      return ErrnoError("the time of '" + target + "'", errno);
  }
  BRAID_LOG_INFO(log_, "copied '{}' in {:.1f} s", url.text,
                 static_cast<double>(SteadyNowNs() - start) / kSecondNs);
  return OkStatus();
}

}  // namespace braid
