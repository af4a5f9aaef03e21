// The files of the console's page, as console/build.mjs makes them: the server serves them at /console/.
//
// They are constants of the program; any thread may read them. A server that is built without the console (BRAID_CONSOLE=OFF)
// has none.
#pragma once

#include <span>
#include <string_view>

namespace braid {

struct ConsoleAsset {
  std::string_view path;          // below /console/: "index.html", or a name with the hash of what it holds, "app.0123456789abcdef.js"
  std::string_view content_type;  // "text/html; charset=utf-8"
  std::string_view gzip;          // the file, compressed
  std::string_view etag;          // with its quotes
};

// Sorted by path.
std::span<const ConsoleAsset> ConsoleAssets();

}  // namespace braid
