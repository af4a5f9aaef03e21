#include "process_tree.h"

#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace braid::bench {
namespace {

struct ProcessStat {
  int parent = 0;
  double cpu_s = 0;
};

std::optional<ProcessStat> ReadStat(int process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  // The command may contain any characters, even blanks and brackets; the fields after its last bracket do
  // not.
  const size_t bracket = line.rfind(')');
  if (bracket == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(bracket + 1));
  ProcessStat stat;
  std::string skipped;
  fields >> skipped >> stat.parent;
  for (int i = 0; i < 9; ++i) fields >> skipped;
  double user = 0;
  double system = 0;
  fields >> user >> system;
  if (!fields) return std::nullopt;
  stat.cpu_s = (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return stat;
}

}  // namespace

std::set<int> ProcessTree(int root) {
  std::map<int, std::vector<int>> children;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    int process = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), process);
    if (parsed.ec != std::errc() || parsed.ptr != name.data() + name.size()) continue;
    if (const auto stat = ReadStat(process)) children[stat->parent].push_back(process);
  }
  std::set<int> tree{root};
  std::vector<int> unvisited{root};
  while (!unvisited.empty()) {
    const int process = unvisited.back();
    unvisited.pop_back();
    for (const int child : children[process]) {
      if (tree.insert(child).second) unvisited.push_back(child);
    }
  }
  return tree;
}

double CpuSeconds(const std::set<int>& processes) {
  double sum = 0;
  for (const int process : processes) {
    if (const auto stat = ReadStat(process)) sum += stat->cpu_s;
  }
  return sum;
}

double ResidentKb(const std::set<int>& processes) {
  const double page_kb = static_cast<double>(sysconf(_SC_PAGESIZE)) / 1024;
  double sum = 0;
  for (const int process : processes) {
    std::ifstream file("/proc/" + std::to_string(process) + "/statm");
    double size = 0;
    double resident = 0;
    if (file >> size >> resident) sum += resident * page_kb;
  }
  return sum;
}

double ProportionalKb(const std::set<int>& processes) {
  double sum = 0;
  for (const int process : processes) {
    std::ifstream file("/proc/" + std::to_string(process) + "/smaps_rollup");
    std::string line;
    while (std::getline(file, line)) {
      if (!line.starts_with("Pss:")) continue;
      std::istringstream fields(line.substr(4));
      double kb = 0;
      if (fields >> kb) sum += kb;
    }
  }
  return sum;
}

}  // namespace braid::bench
