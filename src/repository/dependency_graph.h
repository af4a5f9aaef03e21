// DependencyGraph: which ensembles and pipelines are made of which other servables, and of which builds of
// them; so which are to be made anew.
//
// A build is a number that changes with what is served under a name. Nodes are known by their names.
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

// By name, the names that it uses.
using Dependencies = std::map<std::string, std::set<std::string>>;

// The names in groups, such that each uses names of earlier groups alone; those that use each other in a
// cycle, and those that use them, are the last group. Names that are not keys count as there already.
std::vector<std::vector<std::string>> LoadOrder(const Dependencies& uses);

// What `name` uses, directly or not, without itself.
std::set<std::string> UsedBy(const Dependencies& uses, const std::string& name);

// Without threads, locks and disk; the ServableTable owns it and guards it.
class DependencyGraph {
 public:
  using Uses = std::set<ServableUse>;
  // What is served for a use now; nothing while nothing is.
  using BuildOf = std::function<std::optional<uint64_t>(const ServableUse& use)>;

  // Which builds of `uses` there are, as one number.
  static uint64_t KeyOf(const Uses& uses, const BuildOf& build_of);
  static bool AllServe(const Uses& uses, const BuildOf& build_of);

  // `name` is to be made of `uses`. `tried` is the key of the builds with which it was tried; nothing: it was
  // not.
  void Want(const std::string& name, Uses uses, std::optional<uint64_t> tried);
  // `name` serves, made of those builds of `uses` that `key` stands for. What uses nothing is no node.
  void Made(const std::string& name, Uses uses, uint64_t key);
  void Forget(const std::string& name) { nodes_.erase(name); }

  // What `name` is, or is to be, made of; nothing when it is no node.
  const Uses* UsesOf(const std::string& name) const;
  // Whether `name` was made of these builds; what is no node was made of 0.
  bool IsMadeOf(const std::string& name, uint64_t key) const;
  // Of all nodes, or of those alone that were made.
  Dependencies All() const;
  Dependencies AllMade() const;

  // Whether `name` was never tried with the builds that there are now. One that `serves` is not due while it
  // is made of them.
  bool IsDue(const std::string& name, bool serves, const BuildOf& build_of) const;
  // The builds that there are now are tried: what fails with them is not due with them again. Their key.
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
