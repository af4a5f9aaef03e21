#include "protocols/net/compression.h"

#include <zlib.h>

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <limits>

namespace braid {
namespace {

constexpr int kWindowBits = 15;
constexpr int kGzipBits = kWindowBits + 16;
// zlib detects by the header whether the stream is gzip or zlib.
constexpr int kDetectBits = kWindowBits + 32;
constexpr size_t kStep = 64 * 1024;

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool SameToken(std::string_view a, std::string_view b) {
  return boost::beast::iequals({a.data(), a.size()}, {b.data(), b.size()});
}

// Whether the parameters of an Accept-Encoding element say q=0, q=0.0, ...
bool RefusedByQuality(std::string_view parameters) {
  parameters = Trim(parameters);
  if (parameters.size() < 3 || (parameters[0] != 'q' && parameters[0] != 'Q') || parameters[1] != '=')
    return false;
  return parameters.substr(2).find_first_not_of("0.") == std::string_view::npos;
}

}  // namespace

std::string_view ContentCodingName(ContentCoding coding) {
  switch (coding) {
    case ContentCoding::kIdentity:
      return "identity";
    case ContentCoding::kGzip:
      return "gzip";
    case ContentCoding::kDeflate:
      return "deflate";
  }
  return "identity";
}

std::optional<ContentCoding> ParseContentCoding(std::string_view value) {
  value = Trim(value);
  if (value.empty() || SameToken(value, "identity")) return ContentCoding::kIdentity;
  if (SameToken(value, "gzip") || SameToken(value, "x-gzip")) return ContentCoding::kGzip;
  if (SameToken(value, "deflate")) return ContentCoding::kDeflate;
  return std::nullopt;
}

ContentCoding ChooseContentCoding(std::string_view accept_encoding) {
  bool deflate = false;
  while (!accept_encoding.empty()) {
    const size_t comma = std::min(accept_encoding.find(','), accept_encoding.size());
    const std::string_view element = accept_encoding.substr(0, comma);
    accept_encoding.remove_prefix(std::min(comma + 1, accept_encoding.size()));
    const size_t semicolon = std::min(element.find(';'), element.size());
    if (semicolon < element.size() && RefusedByQuality(element.substr(semicolon + 1))) continue;
    const std::string_view name = Trim(element.substr(0, semicolon));
    if (SameToken(name, "gzip")) return ContentCoding::kGzip;
    if (SameToken(name, "deflate")) deflate = true;
  }
  return deflate ? ContentCoding::kDeflate : ContentCoding::kIdentity;
}

Decompressor::Decompressor() : stream_(std::make_unique<z_stream_s>()) {
  if (inflateInit2(stream_.get(), kDetectBits) != Z_OK) stream_.reset();
}

Decompressor::~Decompressor() {
  if (stream_) inflateEnd(stream_.get());
}

Status Decompressor::Append(std::string_view in, std::string& out, size_t limit) {
  if (!stream_) return UnavailableError("out of memory to decompress the request body");
  do {
    if (finished_) {
      if (in.empty()) return OkStatus();
      return InvalidArgumentError("unexpected data after the end of the compressed request body");
    }
    const size_t piece = std::min<size_t>(in.size(), std::numeric_limits<uInt>::max());
    stream_->next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));  // zlib does not write to it
    stream_->avail_in = static_cast<uInt>(piece);
    // Asks for one byte beyond the limit, to detect a stream that is too large.
    const size_t before = out.size();
    const size_t room = std::min(kStep, limit - before) + 1;
    out.resize(before + room);
    stream_->next_out = reinterpret_cast<Bytef*>(out.data() + before);
    stream_->avail_out = static_cast<uInt>(room);
    const int result = inflate(stream_.get(), Z_NO_FLUSH);
    const size_t end = before + room - stream_->avail_out;
    out.resize(std::min(end, limit));
    if (end > limit) {
      too_large_ = true;
      return InvalidArgumentError("the decompressed request body is larger than " + std::to_string(limit) +
                                  " bytes");
    }
    in.remove_prefix(piece - stream_->avail_in);
    if (result == Z_STREAM_END) {
      finished_ = true;
    } else if (result == Z_BUF_ERROR) {
      break;  // wants more input
    } else if (result != Z_OK) {
      return InvalidArgumentError(std::string("failed to decompress the request body: ") +
                                  (stream_->msg ? stream_->msg : zError(result)));
    }
    // A full output buffer means that zlib may hold more output.
  } while (!in.empty() || finished_ || stream_->avail_out == 0);
  return OkStatus();
}

Result<std::string> Compress(ContentCoding coding, std::span<const std::string_view> parts, int level) {
  z_stream stream{};
  const int bits = coding == ContentCoding::kGzip ? kGzipBits : kWindowBits;
  if (deflateInit2(&stream, level, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    return InternalError("out of memory to compress the response");
  }
  std::string out;
  for (size_t i = 0; i <= parts.size(); ++i) {
    std::string_view in = i < parts.size() ? parts[i] : std::string_view();
    const int flush = i < parts.size() ? Z_NO_FLUSH : Z_FINISH;
    int result = Z_OK;
    do {
      const size_t piece = std::min<size_t>(in.size(), std::numeric_limits<uInt>::max());
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));  // zlib does not write to it
      stream.avail_in = static_cast<uInt>(piece);
      const size_t before = out.size();
      out.resize(before + kStep);
      stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
      stream.avail_out = static_cast<uInt>(kStep);
      result = deflate(&stream, flush);
      out.resize(before + kStep - stream.avail_out);
      in.remove_prefix(piece - stream.avail_in);
    } while (!in.empty() || stream.avail_out == 0 || (flush == Z_FINISH && result != Z_STREAM_END));
  }
  deflateEnd(&stream);
  return out;
}

}  // namespace braid
