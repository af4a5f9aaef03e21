// Messages of the gRPC service as JSON of the HTTP protocol. Fields keep their names and declaration order.
// 64-bit numbers are numbers; protobuf's own JSON writes them as strings.
#pragma once

#include <google/protobuf/message.h>

#include "base/json.h"

namespace braid {

// Returns the message as JSON. `all`: also fields with their default value. Map keys are numbers, in
// ascending order.
Json MessageJson(const google::protobuf::Message& message, bool all = true);

}  // namespace braid
