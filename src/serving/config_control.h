// What protocols may ask of the server's config.json. Implemented by repository/, wired in server/.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace braid {

class ConfigControl {
 public:
  virtual ~ConfigControl() = default;

  // Reads the file again and applies what has changed: servables, and new or removed version folders. Blocks
  // until done, so it must not be called on a network thread. What has a fault is left as it runs; everything
  // else is applied. True when something was reloaded. Errors: the first fault, with the texts of the REST
  // API ("Reloading config file failed. Check server logs for more info.").
  virtual Result<bool> Reload() = 0;
};

}  // namespace braid
