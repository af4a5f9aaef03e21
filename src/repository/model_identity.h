// Model identity: a hash of a model's contents. Saved states can be restored only by a model with the same
// identity.
//
// The identity covers the names and bytes of the version folder's files, and the states' names, types and
// shapes. It leaves out scheduling, instance counts and placement, so that changes of those keep the
// sequences.
#pragma once

#include <string>
#include <string_view>

#include "base/log.h"
#include "model_config.pb.h"
#include "serving/sequences.h"

namespace braid {

// Returns a hash of all files under `version_path` and of `states`, as text; equal on every machine. Links
// are followed; ignored files (IsIgnored()) are left out. Reads all files, and logs how long
// that took, with `who`, if it was long. Returns "" if a file cannot be read: the model's sequences are then
// not kept, which is logged.
std::string IdentityOfModel(const std::string& version_path, std::string_view states, const std::string& who,
                            Logger& log);

// Describe the part of a model's configuration that shapes its states, for IdentityOfModel(). For a model of
// a config.json: its states.
std::string DescribeStates(const StatefulSpec& spec);
// For a model with a config.pbtxt: backend, platform, file and batch size, its parameters, and its `state`
// entries. REQUIRES: `config` is normalised.
std::string DescribeStates(const inference::ModelConfig& config);

}  // namespace braid
