#include "serving/structure_names.h"

#include <map>
#include <set>

namespace braid {

void MakeNodeNamesUnique(std::vector<std::string>& names) {
  std::map<std::string, int> uses{{kRequestNodeName, 1}, {kResponseNodeName, 1}};
  for (const std::string& name : names) ++uses[name];
  std::set<std::string> taken{kRequestNodeName, kResponseNodeName};
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

}  // namespace braid
