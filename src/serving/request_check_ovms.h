// The checks of requests to servables that came from a config.json, with the codes, texts and order that
// clients of OpenVINO Model Server know (see Fault).
#pragma once

#include <string_view>

#include "base/status.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

// All of CheckRequest() for Dialect::kOvms. Encoded images are decoded before.
Status CheckOvmsRequest(const ServableInfo& info, InferenceRequest& request);

// The first of these: how many inputs there are, without those that name the sequence; these are counted in
// the text alone.
Status CheckOvmsInputCount(const ServableInfo& info, size_t count, size_t sequence_inputs = 0);

// What of it does not look at the tensors' bytes nor at requested outputs: number, names, types and shapes of
// inputs. For protocols that find a fault in the bytes themselves, and report one of these first. BYTES for
// an input that can be an encoded image pass.
Status CheckOvmsTensors(const ServableInfo& info, const InferenceRequest& request);

// Whether BYTES are encoded images to this input of such a servable.
bool TakesEncodedImages(const TensorSpec& spec, ServableKind kind);

// The precision as the protocol spells it: "INT32" to clients of KServe, "I32" to those of TensorFlow
// Serving.
std::string_view PrecisionName(DataType type, ApiProtocol protocol);

// "Expected: 10 values; Actual: 9 values; input name: b".
Status OvmsValueCountError(int64_t expected, uint64_t actual, std::string_view input);
// "Expected: FP32; Actual: {actual}; input name: b".
Status OvmsPrecisionError(const TensorSpec& spec, std::string_view actual, ApiProtocol protocol);

}  // namespace braid
