// PythonFiles: the files of Python models, for backends that run the models or only check them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "base/status.h"
#include "scheduling/backend.h"

namespace braid {

class PythonFiles : public Backend {
 public:
  std::string_view name() const override { return "python"; }
  std::string HostedFile(std::string_view backend, const std::string& backend_directory) const override {
    return HostedIn(backend_directory, backend);
  }
  std::string DefaultFile(const inference::ModelConfig&, const std::string&) const override {
    return "model.py";
  }
  bool RunsUserCode() const override { return true; }

  // Returns the file of a Python-based backend: a folder with a model.py that all of its models run. Empty if
  // there is none.
  static std::string HostedIn(const std::string& backend_directory, std::string_view backend) {
    std::string file = backend_directory + "/" + std::string(backend) + "/model.py";
    return IsFile(file) ? file : std::string();
  }
  // Returns the name of the model's module: "1.model" for a file in the version folder, "model" for a hosted
  // backend's.
  static std::string ModuleName(const ModelLocation& location) {
    const std::filesystem::path file(location.model_file);
    const std::string stem = file.stem().string();
    return file.parent_path() == std::filesystem::path(location.version_path)
               ? std::to_string(location.version) + "." + stem
               : stem;
  }

 protected:
  // Checks that the model's file exists; for Prepare(). Errors: INTERNAL.
  static Status CheckFile(const ModelLocation& location) {
    if (IsFile(location.model_file)) return OkStatus();
    return InternalError("Failed to preinitialize Python stub: Python model file not found in '" +
                         location.model_file + "'");
  }

 private:
  static bool IsFile(const std::string& path) {
    std::error_code fault;
    return std::filesystem::is_regular_file(path, fault);
  }
};

}  // namespace braid
