#include "http_client/http_head.h"

#include <strings.h>

#include <charconv>

namespace braid::client {
namespace {

constexpr size_t kMaxHeadBytes = size_t{64} * 1024;
constexpr size_t kMaxBodyBytes = size_t{1} << 32;

bool EqualsIgnoringCase(std::string_view left, std::string_view right) {
  return left.size() == right.size() && strncasecmp(left.data(), right.data(), left.size()) == 0;
}

bool ParseSize(std::string_view text, int base, size_t* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value, base);
  return error == std::errc() && end == text.data() + text.size() && *value <= kMaxBodyBytes;
}

}  // namespace

Result<std::optional<HttpHead>> DecodeHttpHead(std::string_view bytes) {
  const size_t end = bytes.find("\r\n\r\n");
  if (end == std::string_view::npos) {
    if (bytes.size() > kMaxHeadBytes) return InternalError("the HTTP response header is too long");
    return std::optional<HttpHead>();
  }
  const std::string_view lines = bytes.substr(0, end + 2);
  HttpHead head;
  head.head_bytes = end + 4;
  if (!lines.starts_with("HTTP/1.") || lines.size() < 14)
    return InternalError("the server does not speak HTTP/1.1");
  std::from_chars(lines.data() + 9, lines.data() + 12, head.status);
  bool has_length = false;
  for (size_t at = lines.find("\r\n") + 2; at < lines.size();) {
    const size_t line_end = lines.find("\r\n", at);
    const std::string_view line = lines.substr(at, line_end - at);
    at = line_end + 2;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return InternalError("malformed HTTP header");
    const std::string_view name = line.substr(0, colon);
    std::string_view value = line.substr(colon + 1);
    while (value.starts_with(' ')) value.remove_prefix(1);
    if (EqualsIgnoringCase(name, "Content-Length")) {
      has_length = ParseSize(value, 10, &head.body_bytes);
      if (!has_length) return InternalError("malformed Content-Length");
    } else if (EqualsIgnoringCase(name, "Transfer-Encoding")) {
      head.chunked = EqualsIgnoringCase(value, "chunked");
    } else if (EqualsIgnoringCase(name, "Content-Type")) {
      head.events = EqualsIgnoringCase(value.substr(0, value.find(';')), "text/event-stream");
    } else if (EqualsIgnoringCase(name, "Inference-Header-Content-Length")) {
      if (!ParseSize(value, 10, &head.json_bytes))
        return InternalError("malformed Inference-Header-Content-Length");
    } else if (EqualsIgnoringCase(name, "Connection")) {
      head.close = EqualsIgnoringCase(value, "close");
    }
  }
  head.to_the_end = !has_length && !head.chunked && head.status != 204 && head.status != 304;
  if (has_length && head.json_bytes > head.body_bytes) {
    return InternalError("Inference-Header-Content-Length exceeds the body");
  }
  return std::optional<HttpHead>(head);
}

Result<bool> TakeChunks(std::string_view& bytes, std::string& body) {
  while (true) {
    const size_t line_end = bytes.find("\r\n");
    if (line_end == std::string_view::npos) return false;
    const std::string_view line = bytes.substr(0, line_end);
    size_t size = 0;
    if (!ParseSize(line.substr(0, line.find(';')), 16, &size)) {
      return InternalError("malformed chunk in the HTTP response");
    }
    const std::string_view rest = bytes.substr(line_end + 2);
    // Trailers, up to an empty line.
    if (size == 0) return rest.starts_with("\r\n") || rest.find("\r\n\r\n") != std::string_view::npos;
    if (rest.size() < size + 2) return false;
    body += rest.substr(0, size);
    bytes = rest.substr(size + 2);
  }
}

}  // namespace braid::client
