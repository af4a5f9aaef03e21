// What the command line prints about itself, written from the option table.
#pragma once

#include <string>
#include <string_view>

#include "server/options.h"

namespace braid {

std::string VersionText();  // "braid 0.1.0\n"
std::string ServeUsage();   // one line
std::string ServeHelp();    // braid serve --help
// Each option that works, and each other one that was given: name, value, default, origin.
std::string ConfigText(const ServerOptions& options);
// The table of docs/configuration.md.
std::string OptionsAsMarkdown();

// The known option nearest to `name`, for "did you mean"; empty when none is near.
std::string_view NearestOption(std::string_view name);

}  // namespace braid
