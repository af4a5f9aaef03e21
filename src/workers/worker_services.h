// WorkerServices: services of the server for user code in workers, besides executions.
//
// There is one for the whole server, made before the backends. Members that are not available then are set
// later, before the first model is loaded.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/status.h"
#include "base/thread_watch.h"
#include "ipc/messages.h"
#include "serving/catalog.h"
#include "serving/custom_metrics.h"
#include "serving/model_control.h"
#include "serving/worker_counters.h"
#include "workers/shared_arrays.h"

namespace braid {

// Handles the questions of user code (AskMessage) of one topic.
//
// Called on the thread that receives from the worker, so it must not block; the message is valid during the
// call. The handler calls `answer` once, on any thread, with the JSON text of the topic or an error. Answers
// after the worker's death are dropped.
using AskAnswer = std::function<void(Result<std::string> answer)>;
using AskHandler = std::function<void(const AskMessage& ask, AskAnswer answer)>;

struct WorkerServices {
  // The servables that user code can call.
  const Catalog* catalog = nullptr;
  // Topics without a handler are answered with UNSUPPORTED.
  std::map<AskTopic, AskHandler> asks;
  // The arrays that user code shares. Null: such calls find no model.
  SharedArrays* shared_arrays = nullptr;
  // The metrics of user code. Null: operations on metrics are refused.
  CustomMetrics* custom_metrics = nullptr;
  // Detects a receiving thread that is blocked. Null: not watched.
  ThreadWatch* thread_watch = nullptr;
  // Counts restarts and other actions on workers. Null: not counted.
  WorkerCounters* worker_counters = nullptr;
};

}  // namespace braid
