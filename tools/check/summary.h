// What has been checked, for the report: each servable with what has become of it.
#pragma once

#include <string>
#include <vector>

namespace braid::check {

struct Checked {
  std::string name;
  // "Python model", "OpenVINO model", "ensemble", "pipeline", "graph".
  std::string kind;
  // Of its configuration, or of its folder.
  std::string path;
  bool loads = false;
  // It loads as far as its files say: there is code that was not run.
  bool open = false;
};

using Summary = std::vector<Checked>;

}  // namespace braid::check
