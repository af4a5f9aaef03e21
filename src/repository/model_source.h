// ModelSource: what the versions of a model are made from: its folder, and its configuration as the folder or
// the load request has it.
//
//   BRAID_ASSIGN_OR_RETURN(ModelSource source, reader.Open(request));
//   BRAID_ASSIGN_OR_RETURN(const auto versions, ListVersions(source.folder, &ignored));
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
  // Set when the files came with the load request.
  std::shared_ptr<const void> temporary_files = {};  // shared with the backend, which may need them longer
  // Of such files: no two requests have the same number. 0 for a folder in a repository.
  uint64_t request_number = 0;
  // As it is before the model completes it: named, with a backend and a version policy.
  inference::ModelConfig config = {};
};

// All const methods may be called from any thread; they read the disk, and keep nothing of it.
class SourceReader {
 public:
  struct Options {
    // Of {model}/configs/{name}.pbtxt; a model without such a file is read from its config.pbtxt.
    std::string model_config_name;
    // Whether a model may do without a configuration, and a configuration without a backend.
    bool auto_complete = true;
    // Where the files of load requests are kept; each in a private folder that goes when nobody needs it.
    std::string temporary_directory;
  };

  // `folders` outlives it.
  SourceReader(Options options, const ModelFolders& folders)
      : options_(std::move(options)), folders_(folders) {}

  // The folder of a request's model; files that came with the request are written to one. The configuration
  // is not read yet, so that who looks at the folder first sees what changes later. Errors: NOT_FOUND when
  // no repository has it, and others.
  Result<ModelSource> Open(const LoadRequest& request) const;

  // Sets source.config; `versions` are those in the folder, ascending. Errors: why it cannot be read, or is
  // wrong before the model has completed it.
  Status ReadConfig(const LoadRequest& request, const std::vector<int64_t>& versions,
                    ModelSource& source) const;

  // Whether a configuration that came with the request leaves what chooses code to the model's folder: backend, file that
  // runs, environment, isolation. For servers whose clients may not bring files. Errors: UNSUPPORTED, with the field.
  Status CheckOverride(const LoadRequest& request) const;

  // What a model would use if it were loaded now. One that cannot be read uses nothing; its load says why.
  std::set<std::string> ModelsUsed(const LoadRequest& request) const;

  // Removes the files of requests that servers which were killed have left.
  void RemoveAbandoned() const;

 private:
  Result<ModelSource> OpenFiles(const LoadRequest& request) const;
  // Nothing when the model has no configuration.
  Result<std::optional<inference::ModelConfig>> ConfigOf(const LoadRequest& request,
                                                         const Folder& folder) const;
  Status FillBackend(const Folder& folder, const std::vector<int64_t>& versions,
                     inference::ModelConfig& config) const;

  const Options options_;
  const ModelFolders& folders_;
  mutable std::atomic<uint64_t> last_request_number_{0};
};

}  // namespace braid
