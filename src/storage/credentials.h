// How rclone reaches a place in an object store: the translation of the variables and files that Triton and
// OpenVINO Model Server document into rclone's variables.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "config/storage_url.h"

namespace braid {

using Variables = std::map<std::string, std::string, std::less<>>;

// The variables of this process.
Variables OwnVariables();

struct RcloneRemote {
  std::string place;         // "braid:BUCKET/PATH"
  Variables variables = {};  // all that rclone gets
  // Values that must not be shown.
  std::vector<std::string> secrets = {};
  // PEM file with the certificates to trust instead of the system's; empty: the system's.
  std::string ca_file = {};
  // The variables for a store that asks for no credentials. Used if rclone finds none.
  Variables anonymous = {};
};

// Reads the file in TRITON_CLOUD_CREDENTIAL_PATH, whose longest matching prefix decides, and then the
// variables of the store. Errors: the file or a variable is wrong; the text names it, never its value.
Result<RcloneRemote> RemoteOf(const StorageUrl& url, const Variables& variables);

}  // namespace braid
