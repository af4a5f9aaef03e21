// Unpacks a packed Python environment: a tar file (plain, or compressed by gzip, bzip2, xz or zstd) or a zip
// file.
//
// An archive cannot write outside its target folder: absolute names, names with "..", and names that lead
// through symbolic links are errors. Links themselves may point anywhere, since an environment's interpreter
// often is such a link; they are never followed. Files get the archive's permissions, without set-user-id and
// the like. They get its times too, on which Python's compiled files depend.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"

namespace braid {

struct UnpackLimits {
  uint64_t max_bytes = UINT64_MAX;    // of all files together
  std::string max_bytes_option = {};  // named in the error beyond the limit
  uint64_t max_entries = 2'000'000;
};

struct UnpackProgress {
  uint64_t archive_bytes = 0;  // packed bytes read so far
  uint64_t bytes = 0;          // bytes written so far
  uint64_t entries = 0;        // files, folders and links created so far
};

// Called every few files and MiB; an error ends the unpacking.
using UnpackReport = std::function<Status(const UnpackProgress&)>;

// Unpacks the archive open at `archive_fd` into `folder`, which must be private and empty. On failure, the
// files written so far remain. Blocks on the disk. Errors: INTERNAL, with the name of the bad entry; the
// caller adds the archive's path.
Result<UnpackProgress> UnpackArchive(int archive_fd, const std::string& folder, const UnpackLimits& limits,
                                     const UnpackReport& report);

}  // namespace braid
