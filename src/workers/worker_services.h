// WorkerServices: what the server does for the user code in workers, beside running their executions.
//
// One for the whole server, made before the backends. What is only there later is set later, before the
// first model is loaded.
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

namespace braid {

// What user code asks of the server (AskMessage) is answered by the handler of its topic.
//
// Called on the thread that receives from the worker, so it must not block; the message is gone when it
// returns. It calls `answer` once, on any thread, with the JSON text that the topic calls for or with an
// error; what comes after the worker has died is dropped.
using AskAnswer = std::function<void(Result<std::string> answer)>;
using AskHandler = std::function<void(const AskMessage& ask, AskAnswer answer)>;

struct WorkerServices {
  // The servables that user code can call.
  const Catalog* catalog = nullptr;
  // Topics without a handler are answered by UNSUPPORTED.
  std::map<AskTopic, AskHandler> asks;
  // The metrics that user code makes. Null: there are none, and what asks for them is refused.
  CustomMetrics* custom_metrics = nullptr;
  // Sees when a thread that receives from a worker stands still. Null: nobody does.
  ThreadWatch* thread_watch = nullptr;
  // Counts what is done to workers. Null: that is not counted.
  WorkerCounters* worker_counters = nullptr;
};

}  // namespace braid
