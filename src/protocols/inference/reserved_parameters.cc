#include "protocols/inference/reserved_parameters.h"

#include <algorithm>
#include <array>

#include "protocols/http/message.h"

namespace braid {
namespace {

constexpr std::string_view kPrefix = "triton_";
constexpr std::array<std::string_view, 7> kNames = {
    "sequence_id", "sequence_start", "sequence_end", "priority", "timeout", "binary_data_output", "headers"};

}  // namespace

bool HasReservedPrefix(std::string_view name) { return name.starts_with(kPrefix); }

bool IsReservedParameter(std::string_view name) {
  return SameText(name.substr(0, kPrefix.size()), kPrefix) ||
         std::any_of(kNames.begin(), kNames.end(),
                     [name](std::string_view own) { return SameText(name, own); });
}

}  // namespace braid
