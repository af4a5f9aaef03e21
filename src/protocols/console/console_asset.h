// ConsoleAsset: one file of the console's page, built into the program. The files come from console/
// (console_assets.h).
#pragma once

#include <string_view>

namespace braid {

// The views are valid for the life of the program.
struct ConsoleAsset {
  // Path below /console/, e.g. "index.html", "app.5f3a9c02.js". A name with a hash never gets other contents.
  std::string_view path;
  std::string_view content_type;
  std::string_view gzip;  // compressed contents
  std::string_view etag;  // quoted; changes with the contents
};

}  // namespace braid
