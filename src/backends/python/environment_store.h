// EnvironmentStore: the Python environments of models; each is made once and shared by its models.
//
// A folder is used as it is. An archive is unpacked into a temporary folder, which is deleted with the last
// model that uses it. If an environment changes on the disk, models loaded later get the new one; running
// models keep theirs.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "backends/python/environment.h"
#include "backends/python/shared_builds.h"
#include "base/unique_fd.h"
#include "storage/object_storage.h"

namespace braid {

class EnvironmentStore {
 public:
  struct Options {
    WorkerSpawner::Options spawner;  // python and environment are set for each environment
    std::string temporary_directory = "/tmp";
    // The program that unpacks archives in another process (UnpackApart); empty: they are unpacked in this
    // one.
    std::string unpack_program = {};
    uint64_t max_bytes = UINT64_MAX;  // of an unpacked archive
    std::string max_bytes_option;
    // Copies archives in object stores; outlives the store. Null: such archives are errors.
    ObjectStorage* storage = nullptr;
  };

  // Deletes leftovers of killed servers. `support` outlives the store and its environments.
  EnvironmentStore(Options options, WorkerSupport& support);

  // Returns the environment at an absolute path or a URL. Blocks while this or another thread unpacks an
  // archive; `progress` is called about each second. Errors: INTERNAL; the text names the path and the fault.
  Result<std::shared_ptr<PythonEnvironment>> Get(const std::string& path,
                                                 const std::function<void(const std::string&)>& progress);

  // From now on Get() fails if it would unpack an archive; unpacking in progress fails too. Any thread.
  void BeginShutdown() { stopping_.store(true, std::memory_order_relaxed); }

 private:
  using Value = Result<std::shared_ptr<PythonEnvironment>>;
  Value UseFolder(const std::string& path);
  Value UseArchive(const std::string& path, const std::function<void(const std::string&)>& progress);
  Value UseRemote(const std::string& url, const std::function<void(const std::string&)>& progress);
  Value UnpackFile(const std::string& path, const UniqueFd& file, const struct stat& info,
                   const std::function<void(const std::string&)>& progress);
  Value Unpack(const std::string& path, int archive_fd, uint64_t archive_bytes,
               const std::function<void(const std::string&)>& progress);
  Value Make(const std::string& folder, std::shared_ptr<TemporaryFolder> files);
  Status CheckRunning() const;

  const Options options_;
  WorkerSupport& support_;
  Logger& log_;
  std::atomic<bool> stopping_ = false;
  SharedBuilds<PythonEnvironment> environments_;
};

}  // namespace braid
