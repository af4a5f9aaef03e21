// Functions that read the headers of a request: HTTP's header fields and gRPC's metadata.
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

// HeaderForwarding: selects the headers that become parameters of requests (--http-header-forward-pattern,
// --grpc-header-forward-pattern). Constant; any thread.
class HeaderForwarding {
 public:
  // Forwards nothing.
  HeaderForwarding() = default;
  // Forwards headers whose whole name matches the pattern, ignoring case; an empty pattern matches nothing.
  // Never forwards credentials: `authorization` and the headers in `secrets`. Errors: INVALID_ARGUMENT if the
  // pattern is not a regular expression (RE2).
  static Result<HeaderForwarding> Create(const std::string& pattern, std::vector<std::string> secrets = {});

  // Appends the selected headers. A value that is not UTF-8 is repaired over HTTP. Over gRPC it is skipped,
  // because binary metadata may have any bytes. Errors: INVALID_ARGUMENT for a selected header with the name
  // of a reserved parameter, and for binary metadata that is not base64.
  Status Append(const HttpHead& head, Parameters& parameters) const;
  Status Append(const Http2Head& head, Parameters& parameters) const;
  // Whether the header has credentials, so that user code never gets it.
  bool Withholds(std::string_view name) const;

 private:
  Result<bool> Takes(std::string_view name) const;

  std::shared_ptr<const re2::RE2> pattern_;  // shared by copies; null: forwards nothing
  std::vector<std::string> withheld_;
};

// Returns the header kSequenceIdHeader, which names the sequence of a request, as a view into the head.
// Returns "" without the header, and for servables without sequences, which ignore it. Errors:
// INVALID_ARGUMENT for a value that is not UTF-8, and for several different values.
Result<std::string_view> SequenceHeader(const ServableInfo& info, const HttpHead& head);
Result<std::string_view> SequenceHeader(const ServableInfo& info, const Http2Head& head);

// Returns the origin of a request's trace, as views into the head.
TraceOrigin TraceOriginOf(const HttpHead& head, int64_t received_ns);
TraceOrigin TraceOriginOf(const Http2Head& head, int64_t received_ns);

}  // namespace braid
