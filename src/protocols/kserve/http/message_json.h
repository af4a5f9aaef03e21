// Messages of the gRPC service as JSON of the HTTP protocol: fields by their names in the order of their declaration, and
// 64-bit numbers as numbers, which protobuf's own JSON writes as texts.
#pragma once

#include <google/protobuf/message.h>

#include "base/json.h"

namespace braid {

// `all`: also fields that have the value which they have without being set. The keys of a map are numbers, in their order.
Json MessageJson(const google::protobuf::Message& message, bool all = true);

}  // namespace braid
