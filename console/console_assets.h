// The files of the console's page, which console/build.mjs makes: the server serves them at /console/.
//
// They are constants of the program; any thread may read them. A server that is built without the console (BRAID_CONSOLE=OFF)
// does not have this.
#pragma once

#include <span>

#include "protocols/console/console_asset.h"

namespace braid {

// Sorted by path.
std::span<const ConsoleAsset> ConsoleAssets();

}  // namespace braid
