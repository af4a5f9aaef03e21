// The requests and responses of HTTP services.
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

// Method, target and header fields of a request as the client sent them.
using HttpHead = boost::beast::http::request_header<>;

inline std::string_view ToStd(boost::core::string_view text) { return {text.data(), text.size()}; }

// Whether two texts are equal, ignoring the case of ASCII letters.
inline bool SameText(std::string_view a, std::string_view b) {
  return boost::beast::iequals({a.data(), a.size()}, {b.data(), b.size()});
}

// Returns the value of a header field, or nullopt without one. Ignores the case of `name`.
std::optional<std::string_view> FindHeader(const HttpHead& head, std::string_view name);

// Returns the fault of a head that the parser accepts but RFC 9112 does not, or "". Checks the Host, repeated
// fields, and the fields that announce the body's length.
std::string HeadFault(const HttpHead& head);

// Returns the method that selects the route: GET for HEAD too. The server sends the response to HEAD without
// its body.
inline std::string_view RouteMethod(const HttpHead& head) {
  return head.method() == boost::beast::http::verb::head ? "GET" : ToStd(head.method_string());
}

// The parts of the target before and after its '?'.
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
  // A text of static lifetime; empty: the field is not sent.
  std::string_view content_type;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  // Follows `body`. Never copied, but held until the socket has taken it.
  std::vector<Buffer> tail;

  size_t size() const;
};

inline constexpr std::string_view kJsonType = "application/json";

// The response {"error":"text"}.
HttpResponse ErrorResponse(unsigned status, std::string_view text);
// The same for a status, with the code of HttpStatusOf(). REQUIRES: !status.ok()
HttpResponse ErrorResponse(const Status& status);
HttpResponse JsonResponse(std::string body);

// Returns 400, 401, 403, 404, 409, 412, 429, 500, 501 or 503 for an error, and 200 for kOk.
unsigned HttpStatusOf(StatusCode code);
// Returns the status's own HTTP code, or the one above.
unsigned HttpStatusOf(const Status& status);
// Calls `write`, which returns a Result<HttpResponse>. Returns its response, or the response to its error or
// exception.
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
  // If waiting for memory fails, the response has no body.
  response.status = HttpStatusOf(fault);
  (void)Guarded([&] {
    const RetryingAllocation retrying;
    response = ErrorResponse(fault);
  });
  return response;
}

// Returns the reason phrase: "Not Found" for 404.
std::string_view HttpReason(unsigned status);

// Appends `text` as a quoted JSON string. Bytes that are not UTF-8 are not changed.
void AppendJsonString(std::string& out, std::string_view text);

// Decodes %XX. Returns nullopt for a '%' without two hexadecimal digits, for %00, and for a result that is
// not UTF-8.
std::optional<std::string> PercentDecode(std::string_view text);

}  // namespace braid
