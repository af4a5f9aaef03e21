// What a path on the command line of `braid check` holds.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace braid::check {

struct Target {
  enum class Kind : unsigned char { kRepository, kModel, kConfig, kSubconfig, kGraph };
  Kind kind = Kind::kRepository;
  // The repository of a model, else the file or folder itself.
  std::string path;
  // Of kModel: its folder's name, and NAME of its configs/NAME.pbtxt if it is that.
  std::string model = {};
  std::string config_name = {};
};

// A model repository, a model's folder, a config.pbtxt (also configs/NAME.pbtxt), a config.json, a subconfig.json, another
// .pbtxt for a graph; or a folder with some of these below it, all of which are found. Reads the disk. Errors: NOT_FOUND,
// with what was looked for.
Result<std::vector<Target>> FindTargets(const std::string& path);

}  // namespace braid::check
