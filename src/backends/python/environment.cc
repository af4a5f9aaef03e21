#include "backends/python/environment.h"

#include <unistd.h>

#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>

#include "config/storage_url.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr const char* kParameter = "EXECUTION_ENV_PATH";
constexpr std::string_view kModelFolder = "$$TRITON_MODEL_DIRECTORY";

bool Exists(const fs::path& path) {
  std::error_code fault;
  return fs::exists(path, fault);
}

bool IsProgram(const fs::path& path) {
  std::error_code fault;
  return fs::is_regular_file(path, fault) && ::access(path.c_str(), X_OK) == 0;
}

// "bin/python3 is a link to /usr/bin/python3.12, which is not a program here", or nothing.
std::string DescribeDeadLink(const fs::path& path) {
  std::error_code fault;
  const fs::path target = fs::read_symlink(path, fault);
  if (fault) return "";
  return "; '" + path.string() + "' is a link to '" + target.string() +
         "', which is not a program on this machine";
}

}  // namespace

std::string EnvironmentPath(const inference::ModelConfig& config, const std::string& model_path) {
  const auto found = config.parameters().find(kParameter);
  if (found == config.parameters().end()) return "";
  std::string path = found->second.string_value();
  if (path.empty()) return "";
  for (size_t at = path.find(kModelFolder); at != std::string::npos;
       at = path.find(kModelFolder, at + model_path.size())) {
    path.replace(at, kModelFolder.size(), model_path);
  }
  if (IsUrl(path)) return path;
  fs::path whole = (fs::path(model_path) / path).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();
  return whole.string();
}

Result<std::string> FindInterpreter(const std::string& folder) {
  const fs::path activate = fs::path(folder) / "bin" / "activate";
  if (!Exists(activate)) {
    return InternalError("Path " + activate.string() +
                         " does not exist. The Python environment should contain an 'activate' script.");
  }
  std::string dead_link;
  for (const char* name : {"python3", "python"}) {
    const fs::path program = fs::path(folder) / "bin" / name;
    if (IsProgram(program)) return program.string();
    if (dead_link.empty()) dead_link = DescribeDeadLink(program);
  }
  return InternalError("the Python environment '" + folder +
                       "' has no interpreter: neither bin/python3 nor bin/python is a program" + dead_link);
}

std::vector<std::string> EnvironmentVariables(const char* const* inherited, const std::string& folder) {
  std::map<std::string, std::string, std::less<>> variables;
  for (; *inherited != nullptr; ++inherited) {
    const std::string_view text = *inherited;
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  const auto prepend = [&variables](const char* name, std::string first) {
    std::string& value = variables[name];
    value = std::move(first) + (value.empty() ? "" : ":") + value;
  };
  variables["VIRTUAL_ENV"] = folder;
  prepend("PATH", folder + "/bin");
  prepend("LD_LIBRARY_PATH", folder + "/lib");
  if (Exists(fs::path(folder) / "conda-meta")) variables["CONDA_PREFIX"] = folder;
  variables.erase("PYTHONHOME");
  // Ignores packages that the server's user has installed for another interpreter.
  variables["PYTHONNOUSERSITE"] = std::string("1");
  std::vector<std::string> texts;
  for (const auto& [name, value] : variables) texts.push_back(name + "=" + value);
  return texts;
}

}  // namespace braid
