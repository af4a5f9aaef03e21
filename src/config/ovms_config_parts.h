// Readers for the parts of a config.json from well-formed JSON; ovms_config.cc combines them.
#pragma once

#include <string>
#include <vector>

#include "config/json_reader.h"
#include "config/ovms_config.h"

namespace braid {

// Faults and warnings that the readers collect.
struct OvmsFindings {
  // Faults of the whole file: keys, types, ranges. With one of them, no entry is applied.
  JsonFaults faults;
  // Features that this server does not have.
  JsonFaults unsupported;
  std::vector<std::string> warnings;
};

// Makes a path absolute, relative to `folder`, without "." and "..", and without a trailing slash.
std::string OvmsAbsolutePath(const std::string& path, const std::string& folder);

// Reads the "name" of a model, pipeline or graph.
std::string ReadServableName(JsonObject& object);

// Reads the value of {"config": {...}}. Invalid values of this entry alone are added to `own`.
OvmsModelConfig ReadOvmsModel(const Json& value, const std::string& path, const std::string& folder,
                              OvmsFindings& findings, JsonFaults& own);
OvmsPipelineConfig ReadOvmsPipeline(const Json& value, const std::string& path, OvmsFindings& findings);

}  // namespace braid
