// Free parameters of requests and responses: name and value, in the client's order.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace braid {

using ParameterValue = std::variant<bool, int64_t, uint64_t, double, std::string>;
using Parameters = std::vector<std::pair<std::string, ParameterValue>>;

// Returns the JSON text of an object; "{}" when there are none. Omits bytes of strings that are not UTF-8.
std::string ParametersToJson(const Parameters& parameters);

}  // namespace braid
