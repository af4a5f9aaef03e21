// WorkerServices: what the server does for the user code in workers, beside running their executions.
//
// One for the whole server, made before the backends. What is only there later is set later, before the
// first model is loaded.
#pragma once

#include "serving/catalog.h"
#include "serving/model_control.h"

namespace braid {

struct WorkerServices {
  // The servables that user code can call.
  const Catalog* catalog = nullptr;
  // Loads and unloads models for user code.
  ModelControl* model_control = nullptr;
};

}  // namespace braid
