// ProtobufLogRoute: sends protobuf's log messages to the server's log, as lines in the usual form. By default
// protobuf prints them to standard error, with unescaped texts of clients.
#pragma once

#include "base/log.h"

namespace braid {

// Protobuf logs to its logger while the object lives. If there are several, the youngest one's logger is
// used. If there is none any more, messages go to standard error, escaped. Any thread may log at any time.
class ProtobufLogRoute {
 public:
  // `log` outlives the object.
  explicit ProtobufLogRoute(Logger& log);
  ~ProtobufLogRoute();
  ProtobufLogRoute(const ProtobufLogRoute&) = delete;
  ProtobufLogRoute& operator=(const ProtobufLogRoute&) = delete;

 private:
  Logger& log_;
};

}  // namespace braid
