// The one table of `braid serve`'s options: names, meaning, how a text becomes a field and back, and how far
// Braid goes with it. To add an option: a field in ServerOptions,
// or in the options of a part that stand there, and a line in options_table.cc.
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

// How far Braid goes with an option.
enum class OptionSupport : unsigned char {
  kWorks,
  kIgnored,  // accepted, because what it tunes does not exist here; said in the log
  kRefused,  // Braid does not start, unless the value asks for nothing
};

struct OptionSpec {
  std::string_view name;   // without dashes
  std::string_view value;  // "PORT"; empty for a boolean
  OptionGroup group;
  OptionSupport support;
  bool repeatable;
  std::string_view help;  // one sentence, no full stop
  // Why it is ignored or refused, and what to use instead; a clause after a colon.
  std::string_view reason;
  // Refused options: the values, parted by '|', that ask for nothing and pass.
  std::string_view inert;
  // Shown as the default of an option without a field.
  std::string_view fixed_default;
  // Takes one value into its field, or checks the text of an option without one. The message starts after
  // "--name: ".
  Status (*set)(ServerOptions& options, std::string_view text);
  // The field as text, elements of a list parted by commas. Null for an option without a field.
  std::string (*show)(const ServerOptions& options);

  bool is_boolean() const { return value.empty(); }
  std::string DefaultText() const;
};

// All options, in the order of the help. The table lives as long as the program and never changes.
std::span<const OptionSpec> OptionTable();

// Null when there is none of that name (without dashes). Knows the second names (model-store for
// model-repository).
const OptionSpec* FindOption(std::string_view name);

std::string_view OptionGroupTitle(OptionGroup group);

}  // namespace braid
