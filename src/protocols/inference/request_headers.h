// What the headers of a request say of it, over either transport: HTTP's header fields, gRPC's metadata.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "protocols/http/message.h"
#include "protocols/http2/session.h"
#include "serving/parameters.h"
#include "serving/servable.h"
#include "serving/tracer.h"

namespace re2 {
class RE2;
}

namespace braid {

// Which headers become parameters of requests (--http-header-forward-pattern, --grpc-header-forward-pattern).
// Constant; any thread.
class HeaderForwarding {
 public:
  // Forwards nothing.
  HeaderForwarding() = default;
  // Headers whose whole name matches the pattern, in any case; an empty pattern matches nothing. Credentials of clients are
  // never forwarded: `authorization`, and the headers in `secrets`. Errors: INVALID_ARGUMENT when the pattern is no regular
  // expression (RE2).
  static Result<HeaderForwarding> Create(const std::string& pattern, std::vector<std::string> secrets = {});

  // Appends those headers. A value that is no UTF-8 is left out of gRPC's, whose binary headers may have any,
  // and mended in HTTP's. Errors: INVALID_ARGUMENT for a header with the name of a reserved parameter.
  Status Append(const HttpHead& head, Parameters& parameters) const;
  Status Append(const Http2Head& head, Parameters& parameters) const;

 private:
  Result<bool> Takes(std::string_view name) const;

  std::shared_ptr<const re2::RE2> pattern_;  // shared by copies; null: forwards nothing
  std::vector<std::string> withheld_;
};

// The header kSequenceIdHeader, which names the sequence of a request to such a servable; "" when it is not
// there, and, without a look, where there are no sequences. A view into the head or the context. Errors:
// INVALID_ARGUMENT when it is no UTF-8, or there more than once with different values.
Result<std::string_view> SequenceHeader(const ServableInfo& info, const HttpHead& head);
Result<std::string_view> SequenceHeader(const ServableInfo& info, const Http2Head& head);

// Where the trace of a request begins. Views into the head or the context.
TraceOrigin TraceOriginOf(const HttpHead& head, int64_t received_ns);
TraceOrigin TraceOriginOf(const Http2Head& head, int64_t received_ns);

}  // namespace braid
