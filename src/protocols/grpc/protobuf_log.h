// What protobuf has to say goes to the server's log, as lines like all others: by itself it prints to
// standard error, with texts of clients as they came.
#pragma once

#include "base/log.h"

namespace braid {

// While one lives, lines go to its logger; with none, they are written to standard error, escaped. Of two,
// the younger one's logger is used. Any thread may log at any time.
class ProtobufLogRoute {
 public:
  // `log` outlives it.
  explicit ProtobufLogRoute(Logger& log);
  ~ProtobufLogRoute();
  ProtobufLogRoute(const ProtobufLogRoute&) = delete;
  ProtobufLogRoute& operator=(const ProtobufLogRoute&) = delete;

 private:
  Logger& log_;
};

}  // namespace braid
