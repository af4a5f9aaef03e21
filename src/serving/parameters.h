// Free parameters of requests and responses: name and value, in the order in which the client gave them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace braid {

using ParameterValue = std::variant<bool, int64_t, uint64_t, double, std::string>;
using Parameters = std::vector<std::pair<std::string, ParameterValue>>;

// JSON text of an object; "{}" when there are none. Bytes that are not UTF-8 are left out of strings.
std::string ParametersToJson(const Parameters& parameters);

}  // namespace braid
