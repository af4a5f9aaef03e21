// TraceManager: the server's Tracer. The thread "brd-trace" writes traces to a file or an OpenTelemetry
// collector. Requests of watched models are traced regardless of the settings, and the slowest are kept
// (SlowTraces). Traces that the settings do not sample are not written.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "base/log.h"
#include "base/mutex.h"
#include "serving/slow_traces.h"
#include "serving/tracer.h"
#include "tracing/http_post.h"
#include "tracing/otlp.h"
#include "tracing/slow_trace_book.h"
#include "tracing/trace.h"
#include "tracing/trace_queue.h"
#include "tracing/trace_settings.h"

namespace braid {

struct TraceOptions {
  TraceSettings settings;
  // For mode "opentelemetry".
  std::string url = "localhost:4318/v1/traces";
  ResourceAttributes resource;  // service.name is "braid" unless set here
  int64_t max_queue_size = 2048;
  int64_t max_export_batch_size = 512;
  int64_t schedule_delay_ms = 5000;
};

class TraceManager final : public Tracer, public SlowTraces {
 public:
  // `log` outlives the manager; `version` is the program's. Errors: INVALID_ARGUMENT for an invalid URL, or
  // for enabled tracing without a file.
  static Result<std::unique_ptr<TraceManager>> Create(const TraceOptions& options, std::string version,
                                                      Logger& log);
  // Writes the traces that have ended; later ones are dropped.
  ~TraceManager() override;

  std::shared_ptr<RequestTrace> Start(std::string_view model, int64_t version, std::string_view request_id,
                                      const TraceOrigin& origin) override;
  TraceSettings Settings(const std::string& model) const override { return book_.Get(model); }
  Status Change(const std::string& model, const TraceChanges& changes) override;

  Status Watch(const std::string& model, int64_t seconds) override;
  int64_t WatchedFor(const std::string& model) const override { return slow_->WatchedFor(model); }
  std::vector<SlowTrace> Slowest(const std::string& model) const override { return slow_->Slowest(model); }

 private:
  TraceManager(const TraceOptions& options, std::unique_ptr<TraceOutput> output,
               const TraceQueue::Limits& limits);

  // Whether a request of the model that begins now is recorded for a watch.
  bool IsWatched(std::string_view model);
  void UpdateEnabled();

  const bool opentelemetry_;
  TraceSettingBook book_;
  const std::shared_ptr<SlowTraceBook> slow_;  // shared with the traces, which may outlive the manager
  std::atomic<bool> watching_{false};          // a watch has begun, and may have ended
  Mutex enabled_mutex_;                        // held while enabled_ and watching_ are updated
  const std::shared_ptr<TraceIds> ids_;        // shared, like slow_
  const std::shared_ptr<TraceQueue> queue_;    // shared, like slow_
  const std::unique_ptr<TraceOutput> output_;
  std::thread thread_;
};

}  // namespace braid
