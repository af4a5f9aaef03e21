// The syntax of streams and side packets in a graph: "name", "TAG:name" or "TAG:INDEX:name".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "graph/calculator.h"

namespace braid::graph {

// Returns the ports of one kind of a node or a graph, in the order of the texts. Ports without a tag are
// numbered in their order; a tag without an index has index 0. Faults of names and indices (duplicates, gaps)
// are added to `faults`, each after `where`, and the port is left out.
std::vector<Port> ParsePorts(const google::protobuf::RepeatedPtrField<std::string>& texts,
                             std::string_view where, std::vector<std::string>& faults);
// Sorts ports in the order of their numbers in calculators.
Ports SortPorts(std::vector<Port> ports);

// "TAG:INDEX", "TAG" (index 0), and ":INDEX" or "INDEX" for ports without a tag; nothing for other texts.
struct TagIndex {
  std::string tag;
  int index = 0;
};
std::optional<TagIndex> ParseTagIndex(std::string_view text);

// Returns "TAG:INDEX", or ":INDEX".
std::string TagIndexText(const Port& port);

}  // namespace braid::graph
