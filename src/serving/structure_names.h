// The names of a structure's nodes.
#pragma once

#include <string>
#include <vector>

namespace braid {

inline constexpr char kRequestNodeName[] = "request";
inline constexpr char kResponseNodeName[] = "response";

// Makes names of nodes different from each other and from those of the request and the response: those that
// are there more than once get a number, the first of them too.
void MakeNodeNamesUnique(std::vector<std::string>& names);

}  // namespace braid
