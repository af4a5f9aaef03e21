// Checks of requests to servables of a config.json. Codes, texts and order are those that clients of OpenVINO
// Model Server know (see Fault).
#pragma once

#include <string_view>

#include "base/status.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

// Does all checks of CheckRequest() for Dialect::kOvms. Encoded images are decoded before.
Status CheckOvmsRequest(const ServableInfo& info, InferenceRequest& request);

// Does the first of these checks: the number of inputs, without those that name the sequence. The error text
// counts these too.
Status CheckOvmsInputCount(const ServableInfo& info, size_t count, size_t sequence_inputs = 0);

// Does the checks that need neither the tensors' bytes nor the requested outputs: number, names, types and
// shapes of inputs. A protocol that finds a fault in the bytes reports one of these first. Accepts BYTES for
// an input that can be an encoded image.
Status CheckOvmsTensors(const ServableInfo& info, const InferenceRequest& request);

// Returns whether BYTES for this input are encoded images.
bool TakesEncodedImages(const TensorSpec& spec, ServableKind kind);

// Returns the precision as the protocol spells it: "INT32" for KServe, "I32" for TensorFlow Serving.
std::string_view PrecisionName(DataType type, ApiProtocol protocol);

// Returns the error "Expected: 10 values; Actual: 9 values; input name: b".
Status OvmsValueCountError(int64_t expected, uint64_t actual, std::string_view input);
// Returns the error "Expected: FP32; Actual: {actual}; input name: b".
Status OvmsPrecisionError(const TensorSpec& spec, std::string_view actual, ApiProtocol protocol);

}  // namespace braid
