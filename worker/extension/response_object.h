// pb_utils.InferenceResponse and TritonError.
#pragma once

#include <string>

#include "base/status.h"
#include "worker/extension/py.h"

namespace braid {

struct PyError {
  Ref message;  // str
  Ref code;     // member of TritonError's enum
};

struct PyResponse {
  Ref tensors;          // not shared with user code
  Ref error;            // TritonError or null
  Ref parameters_json;  // str or null
};

bool AddResponseTypes(PyObject* module);

StatusCode StatusCodeOf(const PyError& error);
// Returns the member of TritonError's enum. REQUIRES: not kOk.
PyObject* ErrorCodeOf(StatusCode code);

// Encodes a dict of parameters, or None, as JSON. False with an exception set.
bool EncodeParameters(PyObject* parameters, Ref& json);

}  // namespace braid
