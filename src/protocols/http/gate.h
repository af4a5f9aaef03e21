// Who may ask what over HTTP. Every request of every HTTP port passes here, before anything of its body is
// read.
//
// Three questions. Restricted groups of APIs want their secret (AccessPolicy). A request that a page in a
// browser has sent must come from a page of this server or of an origin that is allowed: a browser lets any
// page send requests, such as forms, anywhere, so without this a page on the Internet could load a model on
// its reader's machine. And where only this machine is listened for, the name that was asked for must be one
// of this machine: with a name of its own that leads to 127.0.0.1, a page would count as one of this server's
// (DNS rebinding).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "protocols/http/message.h"
#include "protocols/net/access_policy.h"

namespace braid {

class HttpGate {
 public:
  struct Options {
    // "scheme://host[:port]" as browsers write it, or "null"; "*" for all.
    std::vector<std::string> allowed_origins;
    // Names, without ports; "*" for all.
    std::vector<std::string> allowed_hosts;
    // Whether the port can be reached from this machine alone.
    bool loopback = false;
  };

  // `access` outlives the gate. Const methods may be called from any thread.
  HttpGate(const AccessPolicy& access, Options options) : access_(access), options_(std::move(options)) {}

  // Why the sender is not heard, whatever was asked for: 403.
  std::optional<HttpResponse> RefuseSender(const HttpHead& head) const;
  // Why this API is not for the sender: 403.
  std::optional<HttpResponse> RefuseApi(const HttpHead& head, Api api) const;

 private:
  const AccessPolicy& access_;
  const Options options_;
};

// Whether `text` can stand in Options::allowed_origins.
bool IsOrigin(std::string_view text);

}  // namespace braid
