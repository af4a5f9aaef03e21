// Which of a model's version folders are served.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "model_config.pb.h"

namespace braid {

// The number that a folder's name stands for: digits alone, at least 1, no leading zero. Nothing for any
// other name.
std::optional<int64_t> ParseVersion(std::string_view folder_name);

// The versions of `available` (ascending) that the policy asks for, ascending.
std::vector<int64_t> ChooseVersions(const inference::ModelVersionPolicy& policy,
                                    const std::vector<int64_t>& available);

}  // namespace braid
