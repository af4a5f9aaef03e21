// RemoteRepository: a model repository in an object store. Each model has its own local copy.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "storage/object_storage.h"

namespace braid {

// Checks that a folder of a store can be a model's. Errors: INVALID_ARGUMENT.
Status CheckRemoteModelName(const std::string& name);

// Thread-safe.
class RemoteRepository {
 public:
  // `storage` outlives it. `on_request`: only Update() copies. `threads` models are copied in parallel.
  RemoteRepository(StorageUrl url, ObjectStorage& storage, bool on_request, int threads)
      : url_(std::move(url)), storage_(storage), on_request_(on_request), threads_(threads) {}

  const StorageUrl& url() const { return url_; }

  // Reads the names of the models and, if not `on_request`, copies those that have changed. A model that
  // cannot be copied is logged, and keeps its last copy. Errors: the store cannot be read.
  Status Refresh(Logger& log);
  // Copies one model if it has changed; a failure is the result of Open().
  void Update(const std::string& name);

  // Returns the names of the last Refresh().
  std::set<std::string> names() const;
  // Errors: NOT_FOUND for a model that is not there; those of the model's last update.
  Result<std::shared_ptr<const LocalCopy>> Open(const std::string& name) const;

 private:
  std::shared_ptr<RemoteFolder> FolderOf(const std::string& name);

  const StorageUrl url_;
  ObjectStorage& storage_;
  const bool on_request_;
  const int threads_;
  mutable Mutex mutex_;
  std::set<std::string> names_ BRAID_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<RemoteFolder>> folders_ BRAID_GUARDED_BY(mutex_);
  std::map<std::string, Status> faults_ BRAID_GUARDED_BY(mutex_);  // as logged
};

}  // namespace braid
