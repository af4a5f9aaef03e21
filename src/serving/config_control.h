// ConfigControl: the operations on the server's config.json that protocols may call. Implemented by
// repository/, wired in server/.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace braid {

class ConfigControl {
 public:
  virtual ~ConfigControl() = default;

  // Reads the file again and applies its changes: servables, and new or removed version folders. Returns true
  // when anything was reloaded. An entry with a fault stays as it runs; all others are applied. Blocks until
  // done, so it must not be called on a network thread. Errors: the first fault, with the texts of the REST
  // API ("Reloading config file failed. Check server logs for more info.").
  virtual Result<bool> Reload() = 0;
};

}  // namespace braid
