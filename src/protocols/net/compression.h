// Content codings of HTTP bodies: gzip and deflate.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

struct z_stream_s;

namespace braid {

enum class ContentCoding : unsigned char { kIdentity, kGzip, kDeflate };

std::string_view ContentCodingName(ContentCoding coding);

// Parses a Content-Encoding field. Returns nullopt for an unknown coding, and for more than one.
std::optional<ContentCoding> ParseContentCoding(std::string_view value);

// Returns the coding of the response to a request with this Accept-Encoding field. Prefers gzip to deflate,
// and skips codings with q=0.
ContentCoding ChooseContentCoding(std::string_view accept_encoding);

// A decoder of gzip and zlib streams that arrive in pieces. For use by one thread.
class Decompressor {
 public:
  Decompressor();
  ~Decompressor();

  // Decodes `in` and appends the result to `out`. Errors: INVALID_ARGUMENT for broken data, for data after
  // the end of the stream, and for a result that would make `out` larger than `limit`. In the last case
  // too_large() is true, and `out` stays within `limit`.
  Status Append(std::string_view in, std::string& out, size_t limit);
  bool finished() const { return finished_; }
  bool too_large() const { return too_large_; }

 private:
  std::unique_ptr<z_stream_s> stream_;
  bool finished_ = false;
  bool too_large_ = false;
};

// Compresses all parts into one stream. `level` is zlib's, from 1 (fastest) to 9. Errors: INTERNAL if zlib
// has no memory.
Result<std::string> Compress(ContentCoding coding, std::span<const std::string_view> parts, int level = 1);

}  // namespace braid
