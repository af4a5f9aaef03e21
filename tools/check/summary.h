// Summary: each checked servable with its result, for the report.
#pragma once

#include <string>
#include <vector>

namespace braid::check {

struct Checked {
  std::string name;
  // "Python model", "OpenVINO model", "ensemble", "pipeline", "graph".
  std::string kind;
  // The path of its configuration, or of its folder.
  std::string path;
  bool loads = false;
  // Its files load, but it depends on code that was not run.
  bool open = false;
};

using Summary = std::vector<Checked>;

}  // namespace braid::check
