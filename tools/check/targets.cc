#include "check/targets.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/utf8.h"
#include "check/json_fields.h"
#include "config/config_file.h"
#include "config/known_backends.h"
#include "config/model_name.h"
#include "config/storage_url.h"
#include "repository/version_policy.h"

namespace braid::check {
namespace {

namespace fs = std::filesystem;

// The depth of the search for repositories and files.
constexpr int kDeepestFolder = 8;
constexpr size_t kMostEntries = 100000;

bool IsPlainFile(const fs::path& path) {
  std::error_code fault;
  return fs::is_regular_file(path, fault);
}

bool IsFolder(const fs::path& path) {
  std::error_code fault;
  return fs::is_directory(path, fault);
}

// Returns the folders in a folder, except hidden ones, by name.
std::vector<fs::path> FoldersIn(const fs::path& folder) {
  std::vector<fs::path> folders;
  std::error_code fault;
  size_t entries = 0;
  for (fs::directory_iterator at(folder, fault), end; !fault && at != end; at.increment(fault)) {
    if (++entries > kMostEntries) break;
    if (at->path().filename().string().starts_with('.') || !IsFolder(at->path())) continue;
    folders.push_back(at->path());
  }
  std::ranges::sort(folders);
  return folders;
}

bool HasConfig(const fs::path& folder) { return IsPlainFile(folder / "config.pbtxt"); }

bool IsModelFolder(const fs::path& folder) {
  if (HasConfig(folder)) return true;
  return std::ranges::any_of(FoldersIn(folder), [](const fs::path& version) {
    if (!ParseVersion(version.filename().string())) return false;
    std::error_code fault;
    return std::ranges::any_of(ModelFileNames(),
                               [&](std::string_view file) { return fs::exists(version / file, fault); });
  });
}

// A config.json in a folder may belong to another program.
bool IsOvmsConfig(const fs::path& file) {
  if (!IsPlainFile(file)) return false;
  const auto text = ReadConfigFile(file.string());
  if (!text.ok()) return false;
  const JsonFields fields(*text);
  return fields.fault().has_value() || fields.Find("/model_config_list") != nullptr ||
         fields.Find("/mediapipe_config_list") != nullptr;
}

// Makes the path absolute, so that "models/m/" and "." have a filename.
fs::path Plain(const fs::path& path) {
  std::error_code fault;
  fs::path whole = fs::absolute(path, fault).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

std::string ParentOf(const fs::path& path) {
  const std::string given = path.parent_path().string();
  return path.has_filename() && !given.empty() && path.filename() != "." && path.filename() != ".."
             ? given
             : Plain(path).parent_path().string();
}

// `above`: a file in a parent folder lists the models, so only Triton configurations are searched for.
void Search(const fs::path& folder, bool above, int depth, std::vector<Target>& targets) {
  const auto folders = FoldersIn(folder);
  const auto is_model = [above](const fs::path& one) { return above ? HasConfig(one) : IsModelFolder(one); };
  if (is_model(folder)) {
    targets.push_back({Target::Kind::kModel, ParentOf(folder), Plain(folder).filename().string()});
    return;
  }
  const fs::path config = folder / "config.json";
  bool named = above;
  if (!above && IsOvmsConfig(config)) {
    targets.push_back({Target::Kind::kConfig, config.string()});
    named = true;
  } else if (!above && IsPlainFile(folder / "graph.pbtxt")) {
    targets.push_back({Target::Kind::kGraph, (folder / "graph.pbtxt").string()});
    named = true;
  }
  const bool repository = std::ranges::any_of(
      folders, [named](const fs::path& one) { return named ? HasConfig(one) : IsModelFolder(one); });
  if (repository) {
    targets.push_back({Target::Kind::kRepository, folder.string()});
    return;
  }
  if (depth == kDeepestFolder) return;
  for (const fs::path& one : folders) Search(one, named, depth + 1, targets);
}

Target FileTarget(const fs::path& file) {
  const fs::path whole = Plain(file);
  const std::string name = whole.filename().string();
  if (name.ends_with(".json")) {
    return {name == "subconfig.json" ? Target::Kind::kSubconfig : Target::Kind::kConfig, file.string()};
  }
  const fs::path folder = whole.parent_path();
  if (name == "config.pbtxt") {
    const fs::path given = file.parent_path();
    return {Target::Kind::kModel, given.empty() ? folder.parent_path().string() : ParentOf(given),
            folder.filename().string()};
  }
  if (folder.filename() == "configs" && HasConfig(folder.parent_path())) {
    return {Target::Kind::kModel, folder.parent_path().parent_path().string(),
            folder.parent_path().filename().string(), whole.stem().string()};
  }
  return {Target::Kind::kGraph, file.string()};
}

}  // namespace

Result<std::vector<Target>> FindTargets(const std::string& path) {
  if (IsUrl(path)) {
    return UnsupportedError(
        "'" + WithoutCredentials(path) +
        "' is in object storage; braid check reads local files: copy it first, for example "
        "with rclone copy");
  }
  std::error_code fault;
  if (!fs::exists(path, fault)) return NotFoundError("there is no file or folder '" + path + "'");
  if (IsPlainFile(path)) {
    if (path.ends_with(".json") || path.ends_with(".pbtxt")) return std::vector<Target>{FileTarget(path)};
    return NotFoundError("'" + path + "' is neither a .json nor a .pbtxt");
  }
  if (!IsFolder(path)) return NotFoundError("'" + path + "' is neither a folder nor a file");
  fs::path folder = path;
  if (!folder.has_filename() && folder.has_parent_path() && folder != folder.root_path())
    folder = folder.parent_path();
  std::vector<Target> targets;
  Search(folder, false, 0, targets);
  if (targets.empty()) {
    return NotFoundError("there is nothing to check in '" + path +
                         "': no config.pbtxt, no folder 1 with a model, no config.json, no graph.pbtxt");
  }
  return targets;
}

}  // namespace braid::check
