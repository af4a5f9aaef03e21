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

// "identity", "gzip", "deflate".
std::string_view ContentCodingName(ContentCoding coding);

// Of a Content-Encoding field. Nothing for a coding that we do not know, and for more than one.
std::optional<ContentCoding> ParseContentCoding(std::string_view value);

// The coding for an answer to a request with this Accept-Encoding field: gzip before deflate, those with q=0
// left out.
ContentCoding ChooseContentCoding(std::string_view accept_encoding);

// Decodes a gzip or zlib stream that arrives in pieces. One thread.
class Decompressor {
 public:
  Decompressor();
  ~Decompressor();

  // Appends what `in` decodes to. Errors: INVALID_ARGUMENT for broken data, for data after the end of the
  // stream, and when `out` would grow beyond `limit` (then too_large() is true); `out` never does.
  Status Append(std::string_view in, std::string& out, size_t limit);
  // Whether the stream is complete.
  bool finished() const { return finished_; }
  bool too_large() const { return too_large_; }

 private:
  std::unique_ptr<z_stream_s> stream_;
  bool finished_ = false;
  bool too_large_ = false;
};

// One stream of all parts; `level` is zlib's, 1 for the fastest to 9. Errors: INTERNAL when zlib has no
// memory.
Result<std::string> Compress(ContentCoding coding, std::span<const std::string_view> parts, int level = 1);

}  // namespace braid
