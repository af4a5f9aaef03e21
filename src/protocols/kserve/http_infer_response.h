// From an InferenceResponse to the HTTP answer to POST .../infer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "protocols/http/message.h"
#include "protocols/kserve/client_shared_memory.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

// How the client wants one output.
struct HttpOutputChoice {
  std::string name;
  bool binary = false;
  uint32_t classification = 0;  // how many classes; 0: the values themselves
  RegionPart part = {};         // where the bytes go, instead of into the response
  // Copied when there is a classification, for the labels: the servable may be gone when the response comes.
  TensorSpec spec;
};

struct HttpOutputFormat {
  bool binary_default = false;  // for outputs that are not named below
  bool batching = false;        // whether the first dimension counts rows
  Dialect dialect = Dialect::kTriton;
  std::vector<HttpOutputChoice> choices;

  const HttpOutputChoice* Find(std::string_view name) const;
};

// Puts the outputs that go to regions of the client there. On failure the response becomes an error.
void PutOutputs(const HttpOutputFormat& format, InferenceResponse& response);

// Bytes of outputs that would be written as JSON: a measure of how long WriteInferResponse takes.
size_t JsonOutputBytes(const InferenceResponse& response, const HttpOutputFormat& format);

// Binary outputs keep their memory and are not copied. REQUIRES: response.status is OK.
// Errors: those of Classify(), and those of AppendTensorValues() as the dialect words them.
Result<HttpResponse> WriteInferResponse(std::string_view id, InferenceResponse response,
                                        const HttpOutputFormat& format);

// Appends the JSON text of a tensor's values, with commas between them. Errors: INVALID_ARGUMENT
// for types that JSON cannot carry; INTERNAL for bytes that do not fit datatype and shape, and for BYTES that
// are cut off.
Status AppendTensorValues(std::string& out, const Tensor& tensor);

// Appends the JSON text of numbers: what reads back as the same value; with a point or an exponent, or NaN,
// Infinity.
void AppendJsonNumber(std::string& out, float value);
void AppendJsonNumber(std::string& out, double value);

}  // namespace braid
