#include "protocols/http/message.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "serving/faults.h"

namespace braid {
namespace {

// The bytes of a JSON string that must be escaped.
constexpr std::array<bool, 256> kEscaped = [] {
  std::array<bool, 256> escaped{};
  for (int c = 0; c < 0x20; ++c) escaped[static_cast<size_t>(c)] = true;
  escaped['"'] = true;
  escaped['\\'] = true;
  return escaped;
}();

void AppendEscape(std::string& out, unsigned char c) {
  constexpr char kHex[] = "0123456789abcdef";
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    case '\b':
      out += "\\b";
      return;
    case '\f':
      out += "\\f";
      return;
    default:
      out += "\\u00";
      out += kHex[c >> 4];
      out += kHex[c & 15];
  }
}

// Whether `text` is a valid Host field: a name, an address or nothing, and a port.
bool IsHost(std::string_view text) {
  constexpr std::string_view kCharacters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=%:";
  const size_t bracket = text.starts_with('[') ? 1 : 0;  // of an IPv6 address
  const size_t end = bracket > 0 ? text.find(']') : std::min(text.find(':'), text.size());
  if (end == text.npos || text.substr(bracket, end - bracket).find_first_not_of(kCharacters) != text.npos) {
    return false;
  }
  const std::string_view port = text.substr(end + bracket);
  return port.empty() || (port.front() == ':' && port.find_first_not_of("0123456789", 1) == port.npos);
}

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string HeadFault(const HttpHead& head) {
  using boost::beast::http::field;
  const auto often = [&](std::string_view name, size_t count) {
    return "expected one header '" + std::string(name) + "', got " + std::to_string(count);
  };
  const size_t hosts = head.count(field::host);
  if (hosts > 1 || (hosts == 0 && head.version() >= 11)) return often("Host", hosts);
  const std::string_view host = ToStd(head[field::host]);
  if (!IsHost(host)) return "expected NAME or NAME:PORT in the header 'Host', got '" + Shortened(host) + "'";
  if (const size_t senders = head.count(field::authorization); senders > 1) {
    return often("Authorization", senders);
  }
  if (head.version() < 11 && head.count(field::transfer_encoding) > 0) {
    return "the header 'Transfer-Encoding' is not allowed in HTTP/1.0";
  }
  return "";
}

std::optional<std::string_view> FindHeader(const HttpHead& head, std::string_view name) {
  auto field = head.find(boost::core::string_view(name.data(), name.size()));
  if (field == head.end()) return std::nullopt;
  return ToStd(field->value());
}

size_t HttpResponse::size() const {
  size_t bytes = body.size();
  for (const Buffer& buffer : tail) bytes += buffer.size();
  return bytes;
}

HttpResponse ErrorResponse(unsigned status, std::string_view text) {
  HttpResponse response;
  response.status = status;
  // A 204 response has no body for the text.
  if (status == 204) return response;
  response.content_type = kJsonType;
  response.body = "{\"error\":";
  AppendJsonString(response.body, ToUtf8(text));
  response.body += '}';
  return response;
}

HttpResponse ErrorResponse(const Status& status) {
  HttpResponse response = ErrorResponse(HttpStatusOf(status), status.message());
  if (response.status == 429) response.headers.emplace_back("Retry-After", "1");
  if (response.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

HttpResponse JsonResponse(std::string body) {
  HttpResponse response;
  response.content_type = kJsonType;
  response.body = std::move(body);
  return response;
}

unsigned HttpStatusOf(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return 200;
    case StatusCode::kInternal:
      return 500;
    case StatusCode::kNotFound:
      return 404;
    case StatusCode::kUnavailable:
      return 503;
    case StatusCode::kUnsupported:
      return 501;
    case StatusCode::kUnknown:
    case StatusCode::kInvalidArgument:
    case StatusCode::kAlreadyExists:
    case StatusCode::kCancelled:
      return 400;
    case StatusCode::kFailedPrecondition:
      return 412;
    case StatusCode::kAborted:
      return 409;
    case StatusCode::kResourceExhausted:
      return 429;
    case StatusCode::kUnauthenticated:
      return 401;
    case StatusCode::kPermissionDenied:
      return 403;
  }
  return 500;
}

unsigned HttpStatusOf(const Status& status) {
  switch (status.fault()) {
    case Fault::kPipelineDemultiplexerNoResults:
      return 204;
    case Fault::kModelVersionNotLoadedYet:
    case Fault::kPipelineNotLoadedYet:
      return 404;
    case Fault::kRestUnsupportedMethod:
      return 406;
    case Fault::kSequenceAlreadyExists:
    case Fault::kPipelineNameOccupied:
    case Fault::kGraphNameOccupied:
      return 409;
    case Fault::kGraphNotLoadedYet:
    case Fault::kGraphStartError:
    case Fault::kGraphInitializationError:
    case Fault::kGraphUninitializedStreamClosure:
      return 500;
    default:
      return HttpStatusOf(status.code());
  }
}

std::string_view HttpReason(unsigned status) {
  boost::core::string_view reason =
      boost::beast::http::obsolete_reason(boost::beast::http::int_to_status(status));
  return ToStd(reason);
}

void AppendJsonString(std::string& out, std::string_view text) {
  out += '"';
  size_t run = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (!kEscaped[c]) continue;
    out.append(text, run, i - run);
    AppendEscape(out, c);
    run = i + 1;
  }
  out.append(text, run, text.size() - run);
  out += '"';
}

std::optional<std::string> PercentDecode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (text.size() - i < 3) return std::nullopt;
    const int high = HexValue(text[i + 1]);
    const int low = HexValue(text[i + 2]);
    if (high < 0 || low < 0 || high + low == 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  if (!IsUtf8(out)) return std::nullopt;
  return out;
}

}  // namespace braid
