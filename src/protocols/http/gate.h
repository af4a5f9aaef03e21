// HttpGate: refuses requests from web pages without permission. Every request of every HTTP port passes the
// gate and the access policy (AccessPolicy) before its body is read.
//
// The gate checks two headers:
//   - Origin. A browser lets any page send requests, such as forms, to any server. Without this check a page
//     on the Internet could load a model on its reader's machine. So a request of a page must come from a
//     page of this server, or from an allowed origin. GET, HEAD and OPTIONS pass: they change nothing, and
//     the browser does not let a foreign page read the response.
//   - Host, if only this machine can reach the port. A foreign domain can resolve to 127.0.0.1, and its pages
//     would then count as pages of this server (DNS rebinding). So the requested name must be a name of this
//     machine, or an allowed one. No page reaches a Unix socket, where any name passes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "protocols/http/message.h"

namespace braid {

class HttpGate {
 public:
  struct Options {
    // "scheme://host[:port]" as browsers write it, or "null"; "*" allows all.
    std::vector<std::string> allowed_origins;
    // Names without ports; "*" allows all.
    std::vector<std::string> allowed_hosts;
    // Whether only this machine can reach the port.
    bool loopback = false;
  };

  explicit HttpGate(Options options) : options_(std::move(options)) {}

  // Returns the refusal (403) of a request, or nullopt if it may pass. Any thread.
  std::optional<HttpResponse> Refuse(const HttpHead& head, bool over_unix_socket = false) const;

 private:
  const Options options_;
};

// Whether `text` is valid in Options::allowed_origins.
bool IsOrigin(std::string_view text);

}  // namespace braid
