// pb_utils.InferenceResponseSender.
#pragma once

#include <memory>

#include "worker/extension/py.h"
#include "worker/extension/request_object.h"

namespace braid {

struct PySender {
  std::shared_ptr<OpenRequest> open;  // null for a model's own request
};

bool AddSenderType(PyObject* module);
PyObject* NewSender(std::shared_ptr<OpenRequest> open);

}  // namespace braid
