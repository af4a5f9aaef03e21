#include "tracing/http_post.h"

#include <algorithm>

#include "http_client/ask.h"

namespace braid {

Result<HttpUrl> ParseCollectorUrl(std::string_view text) {
  const std::string whole(text);
  const size_t scheme = whole.find("://");
  const size_t begin = scheme == std::string::npos ? 0 : scheme + 3;
  if (whole.substr(begin, whole.find('/', begin) - begin).find('@') != std::string::npos)
    return InvalidArgumentError("the collector's URL must not have a user or a password");
  if (text.starts_with("https://")) {
    return InvalidArgumentError("'" + whole + "' needs TLS, which is not supported; use a local collector");
  }
  if (text.starts_with("http://")) text.remove_prefix(7);
  HttpUrl url;
  const size_t slash = std::min(text.find('/'), text.size());
  std::string_view authority = text.substr(0, slash);
  url.target = slash == text.size() ? "/v1/traces" : std::string(text.substr(slash));
  size_t colon = authority.rfind(':');
  // The colons of an IPv6 address are in brackets.
  if (colon != std::string_view::npos && authority.find(']', colon) != std::string_view::npos) {
    colon = std::string_view::npos;
  }
  url.host = authority.substr(0, colon);
  url.port = colon == std::string_view::npos ? "4318" : std::string(authority.substr(colon + 1));
  if (url.host.starts_with('[') && url.host.ends_with(']'))
    url.host = url.host.substr(1, url.host.size() - 2);
  const bool digits = !url.port.empty() && std::all_of(url.port.begin(), url.port.end(),
                                                       [](char c) { return c >= '0' && c <= '9'; });
  const bool clean = std::none_of(whole.begin(), whole.end(),
                                  [](char c) { return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f; });
  if (url.host.empty() || !digits || url.port.size() > 5 || !clean) {
    return InvalidArgumentError("'" + whole + "' must have the form http://HOST:PORT/PATH");
  }
  return url;
}

Status PostJson(const HttpUrl& url, const std::string& body, int64_t timeout_ns) {
  BRAID_ASSIGN_OR_RETURN(const auto dialer, client::Dialer::Make({url.host, url.port}, {}));
  BRAID_ASSIGN_OR_RETURN(
      const int code,
      client::AskHttp(
          *dialer, {.method = "POST", .target = url.target, .content_type = "application/json", .body = body},
          timeout_ns));
  if (code >= 200 && code < 300) return OkStatus();
  return UnavailableError("it answered with status " + std::to_string(code));
}

}  // namespace braid
