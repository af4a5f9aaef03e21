// EnvironmentStore: the environments that models name, each made once and shared by its models.
//
// A folder is used as it is. An archive is unpacked into a temporary folder, which goes when the last model
// that uses it goes. An environment that has changed on the disk since it was made is another one: models
// that are loaded from then on get the new one, those that run keep theirs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "backends/python/environment.h"
#include "backends/python/shared_builds.h"

namespace braid {

class EnvironmentStore {
 public:
  struct Options {
    WorkerSpawner::Options spawner;  // python and environment are set for each environment
    std::string temporary_directory = "/tmp";
    // Unpacks archives in a process of its own (UnpackApart); empty: they are unpacked in this one.
    std::string unpack_program = {};
    uint64_t max_bytes = UINT64_MAX;  // of an unpacked archive
    std::string max_bytes_option;
  };

  // Removes what killed servers have left. `support` outlives the store and its environments.
  EnvironmentStore(Options options, WorkerSupport& support);

  // The environment at an absolute path. Blocks while an archive is unpacked, by this thread or by another;
  // `progress` is told of it about each second. Errors: INTERNAL, with a text that names path and fault.
  Result<std::shared_ptr<PythonEnvironment>> Get(const std::string& path,
                                                 const std::function<void(const std::string&)>& progress);

  // From here on Get() fails where it would unpack, also what is in progress. Any thread.
  void BeginShutdown() { stopping_.store(true, std::memory_order_relaxed); }

 private:
  using Value = Result<std::shared_ptr<PythonEnvironment>>;
  Value UseFolder(const std::string& path);
  Value UseArchive(const std::string& path, const std::function<void(const std::string&)>& progress);
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
