// What a model is, by its contents: states that were saved by one are of use to another of the same identity
// alone.
//
// What goes in is what computes and what gives the states their form: the names and bytes of the files of the
// version's folder, and the states. How a model is scheduled, how many instances it has and where they run is
// no part of it, so that a change of those keeps the sequences.
#pragma once

#include <string>
#include <string_view>

#include "base/log.h"
#include "model_config.pb.h"
#include "serving/sequences.h"

namespace braid {

// A hash of all files under `version_path` (links are followed; hidden files and what Python writes there are
// left out) and of `states`, as text; equal on every machine. Reads them all: blocks for as long as that
// takes, and says so in the log if it is long, with `who`. Empty when something cannot be read: the model's
// sequences are not kept then, which the log says.
std::string IdentityOfModel(const std::string& version_path, std::string_view states, const std::string& who,
                            Logger& log);

// What shapes the states of a model of a config.json, for IdentityOfModel().
std::string DescribeStates(const StatefulSpec& spec);
// Of a model with a config.pbtxt: what runs it (backend, platform, file, batch size), its parameters, and its
// `state` entries. `config` is normalised.
std::string DescribeStates(const inference::ModelConfig& config);

}  // namespace braid
