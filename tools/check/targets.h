// The targets of `braid check`: repositories, models and files found under the paths of its command line.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace braid::check {

struct Target {
  enum class Kind : unsigned char { kRepository, kModel, kConfig, kSubconfig, kGraph };
  Kind kind = Kind::kRepository;
  // The repository of a model; otherwise the file or folder itself.
  std::string path;
  // Of kModel: the name of its folder, and NAME if its configuration is configs/NAME.pbtxt.
  std::string model = {};
  std::string config_name = {};
};

// Returns the targets at a path. A target is a model repository, a model's folder, a config.pbtxt (also
// configs/NAME.pbtxt), a config.json, a subconfig.json, or another .pbtxt for a graph. Searches other folders
// for all of these. Reads the disk. Errors: NOT_FOUND, which lists the expected files.
Result<std::vector<Target>> FindTargets(const std::string& path);

}  // namespace braid::check
