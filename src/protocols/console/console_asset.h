// ConsoleAsset: one file of the console's page, as it is built into the program. The files themselves are of console/
// (console_assets.h).
#pragma once

#include <string_view>

namespace braid {

// The texts live for ever.
struct ConsoleAsset {
  // Below /console/, e.g. "index.html", "app.5f3a9c02.js". A name with a hash in it is never given to other contents.
  std::string_view path;
  std::string_view content_type;
  std::string_view gzip;  // the contents, compressed
  std::string_view etag;  // a quoted text that is another one for other contents
};

}  // namespace braid
