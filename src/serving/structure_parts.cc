#include "serving/structure_parts.h"

#include <map>
#include <set>
#include <utility>

namespace braid {
namespace {

constexpr char kRequestName[] = "request";
constexpr char kResponseName[] = "response";

}  // namespace

StructureNode RequestNode(std::string note) {
  StructureNode node;
  node.kind = StructureNodeKind::kRequest;
  node.name = kRequestName;
  node.note = std::move(note);
  return node;
}

StructureNode ResponseNode() {
  StructureNode node;
  node.kind = StructureNodeKind::kResponse;
  node.name = kResponseName;
  return node;
}

void MakeNodeNamesUnique(std::vector<std::string>& names) {
  std::map<std::string, int> uses{{kRequestName, 1}, {kResponseName, 1}};
  for (const std::string& name : names) ++uses[name];
  std::set<std::string> taken{kRequestName, kResponseName};
  for (const auto& [name, count] : uses) taken.insert(name);
  std::map<std::string, int> numbers;
  for (std::string& name : names) {
    if (uses[name] == 1) continue;
    int& number = numbers[name];
    std::string numbered;
    do {
      numbered = name + "_" + std::to_string(++number);
    } while (!taken.insert(numbered).second);
    name = std::move(numbered);
  }
}

void ReadCounts(const FlowCounters& counters, size_t number, StructureNode& node) {
  const FlowCounters::NodeCounts counts = counters.Read(number);
  node.started = counts.started;
  node.ended = counts.ended;
  node.failed = counts.failed;
  node.total_ns = counts.total_ns;
}

}  // namespace braid
