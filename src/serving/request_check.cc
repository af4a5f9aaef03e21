#include "serving/request_check.h"

namespace braid {

Status CheckRequest(const ServableInfo&, InferenceRequest&) { return OkStatus(); }

}  // namespace braid
