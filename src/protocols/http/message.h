// What an HTTP server hands to its services and takes from them.
#pragma once

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/message.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/guard.h"
#include "base/status.h"
#include "tensor/buffer.h"

namespace braid {

// Method, target and header fields of a request, as the client sent them.
using HttpHead = boost::beast::http::request_header<>;

inline std::string_view ToStd(boost::core::string_view text) { return {text.data(), text.size()}; }

// Whether two texts differ in the case of ASCII letters at most.
inline bool SameText(std::string_view a, std::string_view b) {
  return boost::beast::iequals({a.data(), a.size()}, {b.data(), b.size()});
}

// The value of a header field, without regard to the case of its name; nothing when it is not there.
std::optional<std::string_view> FindHeader(const HttpHead& head, std::string_view name);

// The fault of a head that the parser took, by RFC 9112: its Host, a field that is repeated, or how it says where the body ends.
// "" for a good one.
std::string HeadFault(const HttpHead& head);

// The method by which a request finds its route: GET for HEAD too, whose answer the server sends without its
// body.
inline std::string_view RouteMethod(const HttpHead& head) {
  return head.method() == boost::beast::http::verb::head ? "GET" : ToStd(head.method_string());
}

// The target in two: what stands before its '?', and behind.
inline std::string_view PathOf(const HttpHead& head) {
  const std::string_view target = ToStd(head.target());
  return target.substr(0, target.find('?'));
}
inline std::string_view QueryOf(const HttpHead& head) {
  const std::string_view target = ToStd(head.target());
  return target.substr(std::min(PathOf(head).size() + 1, target.size()));
}

struct HttpResponse {
  unsigned status = 200;
  // A text that lives for ever; empty: the field is not sent.
  std::string_view content_type;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  // Follows the body. Never copied: held until the socket has taken it.
  std::vector<Buffer> tail;

  size_t size() const;
};

inline constexpr std::string_view kJsonType = "application/json";

// {"error":"text"}
HttpResponse ErrorResponse(unsigned status, std::string_view text);
// The same with the code that the protocols map the status to. REQUIRES: !status.ok()
HttpResponse ErrorResponse(const Status& status);
HttpResponse JsonResponse(std::string body);

// 400, 401, 403, 404, 409, 412, 429, 500, 501 or 503.
unsigned HttpStatusOf(StatusCode code);
// The same, or the status's own.
unsigned HttpStatusOf(const Status& status);
// What `write` makes, a Result<HttpResponse>, or the answer that says why it could not be made; what it
// throws is such a reason.
template <class Write>
HttpResponse MakeResponse(Write&& write) noexcept {
  HttpResponse response;
  const Status fault = Guarded([&] {
    Result<HttpResponse> written = std::forward<Write>(write)();
    if (!written.ok()) return written.status();
    response = std::move(written).value();
    return OkStatus();
  });
  if (fault.ok()) return response;
  // Without a body, should there be no memory for one for as long as that is waited for.
  response.status = HttpStatusOf(fault);
  (void)Guarded([&] {
    const RetryingAllocation retrying;
    response = ErrorResponse(fault);
  });
  return response;
}

// "Not Found" for 404.
std::string_view HttpReason(unsigned status);

// Appends `text` as a JSON string in quotes. Bytes that are not UTF-8 are written as they are.
void AppendJsonString(std::string& out, std::string_view text);

// The text with %XX replaced; nothing when a '%' is not followed by two hexadecimal digits, for %00, or when
// the result is no UTF-8.
std::optional<std::string> PercentDecode(std::string_view text);

}  // namespace braid
