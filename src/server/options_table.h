// The table of `braid serve`'s options: names, meaning, conversion between texts and fields, and level of
// support. To add an option, add a field to ServerOptions or to a part's options there, and a line to
// options_table.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "server/options.h"

namespace braid {

enum class OptionGroup : unsigned char {
  kModels,
  kPython,
  kHttp,
  kGrpc,
  kAccess,
  kMetrics,
  kLog,
  kTrace,
  kCache,
  kDevices,
  kHosting,
  kOvms
};

// The level of support for an option.
enum class OptionSupport : unsigned char {
  kWorks,
  kIgnored,  // accepted without effect, because its subject does not exist here; logged
  kRefused,  // Braid does not start, unless the value asks for nothing
};

struct OptionSpec {
  std::string_view name;   // without dashes
  std::string_view value;  // "PORT"; empty for a boolean
  OptionGroup group;
  OptionSupport support;
  bool repeatable;
  std::string_view help;  // one sentence, no full stop
  // Why it is ignored or refused, and the alternative; a clause after a colon.
  std::string_view reason;
  // Of refused options: the accepted values, separated by '|', which ask for nothing.
  std::string_view inert;
  // The default shown for an option without a field.
  std::string_view fixed_default;
  // Parses one value into its field, or checks the text of an option without one. The error's text starts
  // after "--name: ".
  Status (*set)(ServerOptions& options, std::string_view text);
  // Returns the field as text, with elements of a list separated by commas. Null for an option without a
  // field.
  std::string (*show)(const ServerOptions& options);

  bool is_boolean() const { return value.empty(); }
  std::string DefaultText() const;
};

// Returns all options in the order of the help. The table lives as long as the program and never changes.
std::span<const OptionSpec> OptionTable();

// Returns the option of that name (without dashes), or null. Knows aliases (model-store for
// model-repository).
const OptionSpec* FindOption(std::string_view name);

std::string_view OptionGroupTitle(OptionGroup group);

}  // namespace braid
