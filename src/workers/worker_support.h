// WorkerSupport: resources shared by all workers of a process, of all backends. There is one per process.
#pragma once

#include <memory>

#include "base/log.h"
#include "base/status.h"
#include "ipc/segment.h"
#include "workers/child_reaper.h"
#include "workers/output_pump.h"

namespace braid {

struct WorkerSupport {
  // Starts the threads of its parts. `log` outlives it.
  static Result<std::shared_ptr<WorkerSupport>> Create(Logger& log) {
    auto support = std::make_shared<WorkerSupport>(log);
    BRAID_ASSIGN_OR_RETURN(support->reaper, ChildReaper::Create());
    BRAID_ASSIGN_OR_RETURN(support->pump, OutputPump::Create(log));
    return support;
  }
  explicit WorkerSupport(Logger& to) : log(to) {}

  Logger& log;
  SegmentIds segment_ids;  // unique across backends, since tensors pass between them
  // Ordered by dependency.
  std::unique_ptr<ChildReaper> reaper;
  std::unique_ptr<OutputPump> pump;
};

}  // namespace braid
