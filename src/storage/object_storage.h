// ObjectStorage: local copies of folders in object stores, so that the rest of the server sees plain folders.
//
//   std::shared_ptr<RemoteFolder> folder = storage.Open(url);
//   Status updated = folder->Update();            // lists; copies if something has changed
//   BRAID_ASSIGN_OR_RETURN(auto copy, folder->Get());
//   ... copy->path() ...                          // the files stay as long as `copy`
//
// A copy never changes: an update makes a new one beside it. Unchanged files are linked, not copied again.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/temporary_folder.h"
#include "config/storage_url.h"
#include "storage/rclone.h"

namespace braid {

class ObjectStorage;

// One state of a remote folder, in a local folder of the same name. Removed with its last owner.
class LocalCopy {
 public:
  LocalCopy(std::shared_ptr<TemporaryFolder> cache, std::string place, const std::string& name)
      : cache_(std::move(cache)), place_(std::move(place)), path_(place_ + "/" + name) {}
  ~LocalCopy();
  LocalCopy(const LocalCopy&) = delete;
  LocalCopy& operator=(const LocalCopy&) = delete;

  const std::string& path() const { return path_; }

 private:
  friend class ObjectStorage;
  friend class RemoteFolder;
  const std::shared_ptr<TemporaryFolder> cache_;
  const std::string place_;  // a folder that has this copy alone
  const std::string path_;
  Listing listing_;
  std::map<std::string, int64_t> written_ns_ = {};  // the time of each file
};

// Thread-safe.
class RemoteFolder {
 public:
  // `storage` outlives it.
  RemoteFolder(StorageUrl url, ObjectStorage& storage);

  const StorageUrl& url() const { return url_; }

  // Makes the copy equal to the stored files. After a failure, Get() returns the error. Blocks. Errors:
  // NOT_FOUND if nothing is stored there. Unless `again`, a failed copy is not repeated for a while.
  Status Update(bool again = true);
  // Likewise, with a listing that was made just now, and not `again`.
  Status Update(const Listing& listing);

  // Returns the copy that the last update has made or confirmed, or that update's error.
  Result<std::shared_ptr<const LocalCopy>> Get() const;
  // Returns the last copy, even if a later update has failed; null if there is none.
  std::shared_ptr<const LocalCopy> last() const;

 private:
  Status UpdateTo(Listing listing, bool again) BRAID_REQUIRES(update_mutex_);
  Result<std::shared_ptr<LocalCopy>> CopyAll(const Listing& listing, const LocalCopy* before);
  static bool Link(const LocalCopy& before, const std::string& path, const StoredObject& object,
                   const std::string& target);

  const StorageUrl url_;
  ObjectStorage& storage_;
  Mutex update_mutex_;  // held during an update
  int failures_ BRAID_GUARDED_BY(update_mutex_) = 0;
  int64_t again_ns_ BRAID_GUARDED_BY(update_mutex_) = 0;  // when a failed copy is repeated
  mutable Mutex mutex_;
  std::shared_ptr<const LocalCopy> last_ BRAID_GUARDED_BY(mutex_);
  Status fault_ BRAID_GUARDED_BY(mutex_);
};

class ObjectStorage {
 public:
  struct Options {
    // The copies are in a private folder in it, which is removed at the end.
    std::string cache_directory = "/tmp";
    int64_t timeout_ns = 0;
    std::string timeout_option = {};
    std::string cache_option = {};  // named when the disk is full
    Variables variables = {};       // with the credentials; those of the server
    std::function<Result<std::shared_ptr<WorkerSupport>>()> support = {};
    // Called with the path of that private folder before it has files.
    std::function<void(const std::string&)> on_cache = {};
  };
  // `log` outlives it.
  ObjectStorage(Options options, Logger& log);

  // Returns the folder at a URL; equal URLs share one as long as one of them is in use.
  std::shared_ptr<RemoteFolder> Open(const StorageUrl& url);

  // As Rclone's. Errors name the URL.
  Result<Listing> List(const StorageUrl& url);
  Result<std::vector<std::string>> ListFolders(const StorageUrl& url);

  // Returns a text that changes with the file at a URL. Errors: NOT_FOUND if there is no such file.
  Result<std::string> StateOfFile(const StorageUrl& url);
  // Returns a copy of that file; its path is the file's.
  Result<std::shared_ptr<const LocalCopy>> CopyFile(const StorageUrl& url);

  // Returns the folder of the copies, which the first call creates.
  Result<std::shared_ptr<TemporaryFolder>> Cache();

  // Copies in progress fail from now on. Any thread.
  void BeginShutdown() { rclone_.BeginShutdown(); }

 private:
  friend class RemoteFolder;
  // Makes an empty place for a copy.
  Result<std::shared_ptr<LocalCopy>> MakePlace(const std::string& name);
  Result<StoredObject> ListFile(const StorageUrl& url);
  // Copies files into the copy's folder, and checks their sizes.
  Status Copy(const StorageUrl& url, const Listing& listing, const std::vector<std::string>& files,
              const std::string& folder);

  const Options options_;
  Logger& log_;
  Rclone rclone_;
  std::atomic<uint64_t> last_copy_ = 0;
  Mutex mutex_;
  std::shared_ptr<TemporaryFolder> cache_ BRAID_GUARDED_BY(mutex_);
  std::map<std::string, std::weak_ptr<RemoteFolder>> folders_ BRAID_GUARDED_BY(mutex_);  // by URL
};

}  // namespace braid
