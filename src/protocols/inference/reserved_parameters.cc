#include "protocols/inference/reserved_parameters.h"

#include <algorithm>
#include <array>

namespace braid {
namespace {

constexpr std::string_view kPrefix = "triton_";
constexpr std::array<std::string_view, 7> kNames = {
    "sequence_id", "sequence_start", "sequence_end", "priority", "timeout", "binary_data_output", "headers"};

constexpr char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool SameText(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return Lower(x) == Lower(y); });
}

}  // namespace

bool HasReservedPrefix(std::string_view name) { return name.starts_with(kPrefix); }

bool IsReservedParameter(std::string_view name) {
  return SameText(name.substr(0, kPrefix.size()), kPrefix) ||
         std::any_of(kNames.begin(), kNames.end(),
                     [name](std::string_view own) { return SameText(name, own); });
}

}  // namespace braid
