// DependencyGraph: records the servables that each ensemble and pipeline uses and their builds, and decides
// which ensembles and pipelines have to be remade.
//
// A build is a number that changes whenever the servable under a name changes. Nodes are known by their
// names.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "serving/servable.h"

namespace braid {

// Maps a name to the names that it uses.
using Dependencies = std::map<std::string, std::set<std::string>>;

// Returns the names in groups, such that each name uses only names of earlier groups. Names in a cycle, and
// the names that use them, form the last group. Names that are not keys count as already loaded.
std::vector<std::vector<std::string>> LoadOrder(const Dependencies& uses);

// Returns the direct and indirect dependencies of `name`, without `name` itself.
std::set<std::string> UsedBy(const Dependencies& uses, const std::string& name);

// Not thread-safe; the ServableTable owns it and guards it. Reads no files.
class DependencyGraph {
 public:
  using Uses = std::set<ServableUse>;
  // Returns the build that currently serves a use; nullopt if none does.
  using BuildOf = std::function<std::optional<uint64_t>(const ServableUse& use)>;

  // Combines the current builds of `uses` into one number.
  static uint64_t KeyOf(const Uses& uses, const BuildOf& build_of);
  static bool AllServe(const Uses& uses, const BuildOf& build_of);

  // Records that `name` shall be made from `uses`. `tried` is the key of the builds of the last try; nullopt
  // if there was none.
  void Want(const std::string& name, Uses uses, std::optional<uint64_t> tried);
  // Records that `name` serves, made from those builds of `uses` that `key` stands for. Without `uses` it is
  // not a node.
  void Made(const std::string& name, Uses uses, uint64_t key);
  void Forget(const std::string& name) { nodes_.erase(name); }

  // Returns the dependencies of `name`; null if it is not a node.
  const Uses* UsesOf(const std::string& name) const;
  // Whether `name` was made from these builds. Key 0 matches a name that is not a node.
  bool IsMadeOf(const std::string& name, uint64_t key) const;
  // Return the dependencies of all nodes, or of only those that were made.
  Dependencies All() const;
  Dependencies AllMade() const;

  // Whether `name` was never tried with the current builds. If it `serves` and was made from them, it is not
  // due.
  bool IsDue(const std::string& name, bool serves, const BuildOf& build_of) const;
  // Records a try with the current builds and returns their key. If the try fails, the name is not due again
  // with these builds.
  uint64_t NoteTried(const std::string& name, const BuildOf& build_of);

 private:
  struct Node {
    Uses uses;
    std::optional<uint64_t> made_of;  // the key of its last success
    std::optional<uint64_t> tried;
  };
  std::map<std::string, Node> nodes_;
};

}  // namespace braid
