// Which pages in browsers are heard over HTTP. Every request of every HTTP port passes here and the access
// policy (AccessPolicy), before anything of its body is read.
//
// Two questions. A request that a page in a browser has sent must come from a page of this server or of an
// origin that is allowed: a browser lets any page send requests, such as forms, anywhere, so without this a
// page on the Internet could load a model on its reader's machine. And where only this machine is listened
// for, the name that was asked for must be one of this machine: with a name of its own that leads to
// 127.0.0.1, a page would count as one of this server's (DNS rebinding).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "protocols/http/message.h"

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

  explicit HttpGate(Options options) : options_(std::move(options)) {}

  // Why the sender is not heard, whatever was asked for: 403. Any thread.
  std::optional<HttpResponse> Refuse(const HttpHead& head) const;

 private:
  const Options options_;
};

// Whether `text` can stand in Options::allowed_origins.
bool IsOrigin(std::string_view text);

}  // namespace braid
