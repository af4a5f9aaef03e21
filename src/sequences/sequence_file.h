// SequenceFile: the file in which the sequences of one version of a model outlast the server.
//
// Numbers are little-endian; a text is its length (u32) and that many bytes.
//
//   8 bytes    "BRAIDSEQ"
//   u32        format, kSequenceFileFormat; other formats may differ in everything after it
//   text       identity of the model, see SequenceKeeper::identity()
//   i64        when it was written, in milliseconds since 1970-01-01 UTC
//   u64        number of sequences, and for each of them
//     u8         0: its id is a number, 1: it is a text
//     u64, text  the id
//     states       see sequence_record.h, from the number of states on
//   16 bytes   XXH3-128 of all bytes before it, in its canonical form
//
// A reader trusts no field of a file. It checks each length against the remaining bytes before use, and
// returns no data before the checksum matches.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "serving/sequences.h"

namespace braid {

inline constexpr uint32_t kSequenceFileFormat = 1;

struct SequenceFile {
  std::string identity;
  int64_t written_ms = 0;
  std::vector<SavedSequence> sequences;
};

// Replaces the file `name` of `folder` by `content`, atomically. When this returns, the new file is complete
// on the disk, or the old one is unchanged. Only the server's user can read it. `give_up` is called for every
// mebibyte. Errors: INTERNAL with the system's reason; UNAVAILABLE if `give_up` returned true.
Status WriteSequenceFile(const UniqueFd& folder, const std::string& name, const SequenceFile& content,
                         const std::function<bool()>& give_up);

// Errors: NOT_FOUND if the file does not exist; UNSUPPORTED if it has another format; INVALID_ARGUMENT, with
// the reason, if it is damaged; INTERNAL if it cannot be read.
Result<SequenceFile> ReadSequenceFile(const UniqueFd& folder, const std::string& name);

}  // namespace braid
