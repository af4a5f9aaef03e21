// Rules about single fields of a configuration: fields without effect, differences from Triton and OpenVINO
// Model Server, and advice on faulty fields. Two tables (config_rules.cc): one for config.pbtxt, one for
// config.json.
#pragma once

#include <string>
#include <string_view>

#include "check/finding.h"
#include "check/json_fields.h"
#include "check/text_file.h"

namespace braid::check {

// Server options that decide which rules apply.
struct RuleContext {
  bool rate_limited = false;  // --rate-limit
  bool has_cache = false;     // --cache-config
};

// Applies the rules to a config.pbtxt that parses.
void ApplyModelRules(const TextFile& file, const std::string& servable, const RuleContext& context,
                     Findings& findings);
// Applies the rules to a config.json.
void ApplyOvmsRules(const std::string& path, const JsonFields& fields, Findings& findings);

// Advice on a faulty field. `level` is kRefused if Braid lacks the feature; `advice` and `page` may be empty.
struct FaultAdvice {
  Level level = Level::kError;
  std::string_view advice;
  std::string_view page;
};
FaultAdvice AdviceFor(std::string_view field);

// "instance_group[0].kind" -> "instance_group.kind"; map keys stay. "/nodes/0/name" -> "/nodes/*/name".
std::string WithoutIndexes(std::string_view path);

}  // namespace braid::check
