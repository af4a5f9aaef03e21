// The file in which the sequences of one version of a model outlast the server.
//
// Numbers are little-endian; a text is its length (u32) and that many bytes.
//
//   8 bytes    "BRAIDSEQ"
//   u32        format, kSequenceFileFormat; what comes behind it is another format's own business
//   text       identity of the model, see SequenceKeeper::identity()
//   i64        when it was written, in milliseconds since 1970-01-01 UTC
//   u64        number of sequences, and for each of them
//     u8         0: its id is a number, 1: it is a text
//     u64, text  the id
//     u32        number of states, and for each of them
//       text       name
//       u8         type, a DataType
//       u32        number of dimensions
//       i64 ...    dimensions
//       u64        number of bytes
//       bytes      as Tensor::data
//   16 bytes   XXH3-128 of all that comes before, in its canonical form
//
// A reader believes nothing of a file: no length is used before it is compared with what the file still has,
// and nothing is given out before the checksum was right.
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

// Puts `content` in the place of the file `name` of `folder`: either it is there as a whole, on the disk,
// when this returns, or the file is as it was. Only the server's user can read it. `give_up` is asked every
// mebibyte. Errors: INTERNAL with the system's reason; UNAVAILABLE when it was given up.
Status WriteSequenceFile(const UniqueFd& folder, const std::string& name, const SequenceFile& content,
                         const std::function<bool()>& give_up);

// Errors: NOT_FOUND when there is no such file; UNSUPPORTED when it has another format; INVALID_ARGUMENT when
// it is damaged, with what is wrong with it; INTERNAL when it cannot be read.
Result<SequenceFile> ReadSequenceFile(const UniqueFd& folder, const std::string& name);

}  // namespace braid
