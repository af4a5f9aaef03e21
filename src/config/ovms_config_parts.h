// The parts of a config.json, read from JSON that is well formed; ovms_config.cc puts them together.
#pragma once

#include <string>
#include <vector>

#include "config/json_reader.h"
#include "config/ovms_config.h"

namespace braid {

// Where what is read is told of.
struct OvmsFindings {
  // Of the file as a whole: keys, types, ranges. Nothing is applied when there is one.
  JsonFaults faults;
  // Of features that this server does not have.
  JsonFaults unsupported;
  std::vector<std::string> warnings;
};

// A relative path is taken from `folder`; without "." and "..", and without a slash at its end.
std::string OvmsAbsolutePath(const std::string& path, const std::string& folder);

// The "name" of a model, pipeline or graph.
std::string ReadServableName(JsonObject& object);

// The inside of {"config": {...}}. What is wrong with the values of this entry alone goes to `own`.
OvmsModelConfig ReadOvmsModel(const Json& value, const std::string& path, const std::string& folder,
                              OvmsFindings& findings, JsonFaults& own);
OvmsPipelineConfig ReadOvmsPipeline(const Json& value, const std::string& path, OvmsFindings& findings);

}  // namespace braid
