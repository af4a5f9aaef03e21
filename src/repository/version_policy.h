// Version policies: which of a model's version folders are served.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "model_config.pb.h"

namespace braid {

// Parses a folder's name as a version: only digits, at least 1, no leading zero. Returns nullopt for any
// other name.
std::optional<int64_t> ParseVersion(std::string_view folder_name);

// Returns the versions of `available` (ascending) that the policy chooses, ascending.
std::vector<int64_t> ChooseVersions(const inference::ModelVersionPolicy& policy,
                                    const std::vector<int64_t>& available);

}  // namespace braid
