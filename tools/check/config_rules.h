// What can be said of a configuration by its fields alone: what has no effect, what differs from where it comes from, and
// what to write where a field is at fault. Two tables (config_rules.cc): of config.pbtxt, and of config.json.
#pragma once

#include <string>
#include <string_view>

#include "check/finding.h"
#include "check/json_fields.h"
#include "check/text_file.h"

namespace braid::check {

// What the server runs with that decides on the rules.
struct RuleContext {
  bool rate_limited = false;  // --rate-limit
  bool has_cache = false;     // --cache-config
};

// Of a config.pbtxt that parses.
void ApplyModelRules(const TextFile& file, const std::string& servable, const RuleContext& context,
                     Findings& findings);
// Of a config.json.
void ApplyOvmsRules(const std::string& path, const JsonFields& fields, Findings& findings);

// What is known of a field that is at fault: `level` is kRefused where the feature is not there, `advice` and `page` may be
// empty. Of paths as FieldFault has them, or as JSON pointers.
struct FaultAdvice {
  Level level = Level::kError;
  std::string_view advice;
  std::string_view page;
};
FaultAdvice AdviceFor(std::string_view field);

// "instance_group[0].kind" -> "instance_group.kind"; keys of maps stay. "/nodes/0/name" -> "/nodes/*/name".
std::string WithoutIndexes(std::string_view path);

}  // namespace braid::check
