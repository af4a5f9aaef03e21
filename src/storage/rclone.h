// Rclone: runs the program rclone, which speaks the protocols of object stores.
//
// Credentials go to it in its variables, never in its arguments.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "storage/credentials.h"
#include "workers/worker_support.h"

namespace braid {

// A file in an object store. Equal objects need no second copy.
struct StoredObject {
  uint64_t size = 0;
  std::string modified;
  std::string md5;  // empty if the store has none
  bool operator==(const StoredObject&) const = default;
};
using Listing = std::map<std::string, StoredObject>;  // by path beneath the listed place

struct CopyProgress {
  uint64_t bytes = 0;
  uint64_t total_bytes = 0;
};

class Rclone {
 public:
  struct Options {
    // How long it may make no progress before it is ended.
    int64_t timeout_ns = 0;
    std::string timeout_option = {};  // named in that error
    // Where the program is looked for, as in $PATH.
    std::string path = {};
    std::function<Result<std::shared_ptr<WorkerSupport>>()> support = {};
  };
  // `log` outlives it.
  Rclone(Options options, Logger& log) : options_(std::move(options)), log_(log) {}

  // The calls block. Errors: FAILED_PRECONDITION without the program or the bucket; UNAVAILABLE, with
  // rclone's own reason but without credentials.

  // Lists all files beneath a place.
  Result<Listing> List(const RcloneRemote& remote);
  // Lists the names of the folders directly in a place.
  Result<std::vector<std::string>> ListFolders(const RcloneRemote& remote);
  // Copies files of a place into a new local folder, and compares sizes and hashes.
  Status Copy(const RcloneRemote& remote, const std::vector<std::string>& files, const std::string& folder,
              const std::function<void(const CopyProgress&)>& progress);

  // Ends the calls in progress, and all later ones. Any thread.
  void BeginShutdown() { stopping_.store(true, std::memory_order_relaxed); }

 private:
  using OnProgress = std::function<void(const CopyProgress&)>;
  Result<std::string> Run(const RcloneRemote& remote, std::vector<std::string> arguments,
                          const std::string& input, const OnProgress& progress);
  Result<std::string> RunOnce(const RcloneRemote& remote, const Variables& variables,
                              const std::vector<std::string>& arguments, const std::string& input,
                              const OnProgress& progress);
  Result<std::string> FindProgram() const;

  const Options options_;
  Logger& log_;
  std::atomic<bool> stopping_ = false;
};

// Reads the output of "rclone lsjson". Errors: INTERNAL.
Result<Listing> ParseListing(std::string_view json);

// Checks that the objects can be files of one folder: plain names, and no file in the place of a folder.
// Errors: INVALID_ARGUMENT, with the first name that is wrong.
Status CheckNames(const Listing& listing);

// Whether rclone shows an object of this name as it is: it writes characters that a file's name cannot have
// as others, such as a full-width dot.
bool IsPlainObjectName(std::string_view path);

}  // namespace braid
