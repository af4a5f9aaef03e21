// Unpacks a packed Python environment: a tar file (plain, or compressed by gzip, bzip2, xz or zstd) or a zip
// file.
//
// Nothing that an archive says can reach outside the folder it is unpacked into: names that are absolute or
// have ".." in them, and names that lead through symbolic links, are errors. Links may point anywhere (an
// environment's interpreter often does), they are just not followed. Files get the permissions of the archive
// without set-user-id and the like, and their times, on which Python's compiled files depend.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"

namespace braid {

struct UnpackLimits {
  uint64_t max_bytes = UINT64_MAX;    // of all files together
  std::string max_bytes_option = {};  // named when there are more
  uint64_t max_entries = 2'000'000;
};

struct UnpackProgress {
  uint64_t archive_bytes = 0;  // read so far, as packed
  uint64_t bytes = 0;          // written so far
  uint64_t entries = 0;        // files, folders and links made so far
};

// Called every few files and MiB; an error gives up.
using UnpackReport = std::function<Status(const UnpackProgress&)>;

// Unpacks the archive open at `archive_fd` into `folder`, which exists and is private and empty; when it
// fails, what it has written stays there. Blocks on the disk. Errors: INTERNAL, naming the entry that is at
// fault; not the archive's path, which the caller knows.
Result<UnpackProgress> UnpackArchive(int archive_fd, const std::string& folder, const UnpackLimits& limits,
                                     const UnpackReport& report);

}  // namespace braid
