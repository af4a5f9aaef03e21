// ModelSource: a model's folder and its configuration, from a model repository or a load request.
//
//   BRAID_ASSIGN_OR_RETURN(ModelSource source, reader.Open(request));
//   BRAID_ASSIGN_OR_RETURN(const auto versions, ListVersions(source.folder, ignored));
//   BRAID_RETURN_IF_ERROR(reader.ReadConfig(request, versions, source));
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "config/folder.h"
#include "model_config.pb.h"
#include "repository/model_folders.h"
#include "serving/model_control.h"

namespace braid {

struct ModelSource {
  Folder folder;
  // ModelFolder's.
  std::string place = {};
  std::shared_ptr<const LocalCopy> copy = {};
  // Set if the load request contained the files.
  std::shared_ptr<const void> temporary_files = {};  // shared with the backend, which may need them longer
  // Unique for each request with files; 0 for a folder in a repository.
  uint64_t request_number = 0;
  // The configuration before the model completes it: with a name, a backend and a version policy.
  inference::ModelConfig config = {};
};

// Thread-safe. Every call reads the disk, and nothing is cached.
class SourceReader {
 public:
  struct Options {
    // Selects {model}/configs/{name}.pbtxt; a model without such a file uses its config.pbtxt.
    std::string model_config_name;
    // Whether a model may omit its configuration, and a configuration its backend.
    bool auto_complete = true;
    // Where the files of load requests are kept, each in a private folder that is removed with its last user.
    std::string temporary_directory;
  };

  // `folders` outlives the reader.
  SourceReader(Options options, const ModelFolders& folders)
      : options_(std::move(options)), folders_(folders) {}

  // Opens the folder of a request's model; files of the request are written to a new folder. Does not read
  // the configuration yet: a caller that takes the folder's fingerprint first detects later changes. Errors:
  // NOT_FOUND if no repository has the model, and others.
  Result<ModelSource> Open(const LoadRequest& request) const;

  // Sets source.config. `versions` are the folder's versions, ascending. Errors: the configuration cannot be
  // read, or is wrong before the model has completed it.
  Status ReadConfig(const LoadRequest& request, const std::vector<int64_t>& versions,
                    ModelSource& source) const;

  // Checks that a configuration in the request does not change the code that runs: backend, file,
  // environment, isolation. Used by servers whose clients may not send files. Errors: UNSUPPORTED, with the
  // field.
  Status CheckOverride(const LoadRequest& request) const;

  // Returns the dependencies that a model would have if it were loaded now. Returns none if the model cannot
  // be read; its load reports the error.
  std::set<std::string> ModelsUsed(const LoadRequest& request) const;

  // Removes request files that killed servers have left.
  void RemoveAbandoned() const;

 private:
  Result<ModelSource> OpenFiles(const LoadRequest& request) const;
  // nullopt if the model has no configuration.
  Result<std::optional<inference::ModelConfig>> ConfigOf(const LoadRequest& request,
                                                         const Folder& folder) const;
  Status FillBackend(const Folder& folder, const std::vector<int64_t>& versions,
                     inference::ModelConfig& config) const;

  const Options options_;
  const ModelFolders& folders_;
  mutable std::atomic<uint64_t> last_request_number_{0};
};

}  // namespace braid
