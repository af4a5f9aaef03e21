#include "protocols/http/gate.h"

#include <arpa/inet.h>

#include <algorithm>

#include "base/utf8.h"

namespace braid {
namespace {

using boost::beast::http::field;
using boost::beast::http::verb;

bool Contains(const std::vector<std::string>& list, std::string_view text) {
  return std::any_of(list.begin(), list.end(),
                     [&](const std::string& one) { return one == "*" || SameText(one, text); });
}

// Returns the "host[:port]" of an origin, or "" without one.
std::string_view AuthorityOf(std::string_view origin) {
  const size_t scheme = origin.find("://");
  return scheme == std::string_view::npos ? std::string_view() : origin.substr(scheme + 3);
}

// Returns the host of a Host field, without its port and the brackets of an IPv6 address.
std::string_view HostOf(std::string_view authority) {
  if (authority.starts_with('[')) {
    const size_t end = authority.find(']');
    return end == std::string_view::npos ? authority : authority.substr(1, end - 1);
  }
  return authority.substr(0, authority.find(':'));
}

bool IsAddress(std::string_view host) {
  const std::string text(host);
  in6_addr address{};
  return ::inet_pton(AF_INET, text.c_str(), &address) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

bool IsLocalName(std::string_view host) {
  constexpr std::string_view kName = "localhost";
  if (host.ends_with('.')) host.remove_suffix(1);
  if (host.size() < kName.size() || !SameText(host.substr(host.size() - kName.size()), kName)) return false;
  return host.size() == kName.size() || host[host.size() - kName.size() - 1] == '.';
}

// Whether requests with the method may change something.
bool Changes(verb method) { return method != verb::get && method != verb::head && method != verb::options; }

}  // namespace

std::optional<HttpResponse> HttpGate::Refuse(const HttpHead& head, bool over_unix_socket) const {
  if (options_.loopback && !over_unix_socket) {
    const auto [begin, end] = head.equal_range(field::host);
    for (auto host = begin; host != end; ++host) {
      const std::string_view name = HostOf(ToStd(host->value()));
      if (IsAddress(name) || IsLocalName(name) || Contains(options_.allowed_hosts, name)) continue;
      return ErrorResponse(403, "Host '" + Shortened(name) +
                                    "' is not allowed on a loopback-only server; allow it with --allow-host");
    }
  }
  if (!Changes(head.method())) return std::nullopt;
  const std::string_view own = FindHeader(head, "Host").value_or("");
  const auto [begin, end] = head.equal_range(field::origin);
  for (auto origin = begin; origin != end; ++origin) {
    const std::string_view text = ToStd(origin->value());
    const bool is_own = !own.empty() && SameText(AuthorityOf(text), own);
    if (is_own || Contains(options_.allowed_origins, text)) continue;
    return ErrorResponse(
        403, "Requests from origin '" + Shortened(text) + "' are refused; allow it with --allow-origin");
  }
  return std::nullopt;
}

bool IsOrigin(std::string_view text) {
  if (text == "*" || text == "null") return true;
  const std::string_view authority = AuthorityOf(text);
  return !authority.empty() && !text.starts_with(':') &&
         authority.find_first_of("/?#@ ") == std::string_view::npos;
}

}  // namespace braid
