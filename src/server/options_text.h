// The command line's output about itself, written from the option table.
#pragma once

#include <string>
#include <string_view>

#include "server/options.h"

namespace braid {

std::string VersionText();  // "braid 0.1.0\n"
std::string ServeUsage();   // one line
// braid serve --help: the options that most users need first; with `all`, braid serve --help-all.
std::string ServeHelp(bool all);
// Returns name, value, default and origin of each supported option, and of each other option that was given.
std::string ConfigText(const ServerOptions& options);
// Returns the table of docs/configuration.md.
std::string OptionsAsMarkdown();

// Returns the known option nearest to `name`, for "did you mean"; empty if none is near.
std::string_view NearestOption(std::string_view name);

}  // namespace braid
