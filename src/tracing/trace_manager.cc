#include "tracing/trace_manager.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "base/thread.h"
#include "base/utf8.h"
#include "tracing/otlp_exporter.h"
#include "tracing/trace_file.h"

namespace braid {
namespace {

// Short, so that a client finds the trace in the file soon after the response.
constexpr int64_t kFileDelayNs = 50'000'000;

int64_t WallOffsetNs() {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(wall).count() - SteadyNowNs();
}

Result<std::unique_ptr<TraceOutput>> MakeOutput(const TraceOptions& options, std::string version,
                                                Logger& log) {
  if (options.settings.mode == "triton") {
    return std::unique_ptr<TraceOutput>(std::make_unique<TraceFile>(options.settings.file, log));
  }
  OtlpExporter::Options otlp;
  BRAID_ASSIGN_OR_RETURN(otlp.url, ParseCollectorUrl(options.url));
  otlp.resource = options.resource;
  const auto is_name = [](const auto& attribute) { return attribute.first == "service.name"; };
  if (std::none_of(otlp.resource.begin(), otlp.resource.end(), is_name)) {
    otlp.resource.emplace_back("service.name", "braid");
  }
  otlp.version = std::move(version);
  otlp.max_batch = static_cast<size_t>(options.max_export_batch_size);
  return std::unique_ptr<TraceOutput>(std::make_unique<OtlpExporter>(std::move(otlp), log));
}

}  // namespace

Result<std::unique_ptr<TraceManager>> TraceManager::Create(const TraceOptions& options, std::string version,
                                                           Logger& log) {
  const TraceSettings& settings = options.settings;
  if (settings.mode == "triton" && !settings.off() && settings.file.empty()) {
    return InvalidArgumentError(
        "tracing is on but has no file; set one with --trace-config triton,file=FILE");
  }
  BRAID_ASSIGN_OR_RETURN(auto output, MakeOutput(options, std::move(version), log));
  TraceQueue::Limits limits;
  limits.max_traces = static_cast<size_t>(options.max_queue_size);
  limits.max_batch = static_cast<size_t>(options.max_export_batch_size);
  limits.delay_ns = settings.mode == "triton" ? kFileDelayNs : options.schedule_delay_ms * 1'000'000;
  return std::unique_ptr<TraceManager>(new TraceManager(options, std::move(output), limits));
}

TraceManager::TraceManager(const TraceOptions& options, std::unique_ptr<TraceOutput> output,
                           const TraceQueue::Limits& limits)
    : opentelemetry_(options.settings.mode != "triton"),
      book_(options.settings),
      slow_(std::make_shared<SlowTraceBook>()),
      ids_(std::make_shared<TraceIds>()),
      queue_(std::make_shared<TraceQueue>(limits)),
      output_(std::move(output)) {
  UpdateEnabled();
  thread_ = StartThread("brd-trace", [this] { queue_->Run(*output_); });
}

TraceManager::~TraceManager() {
  queue_->Close();
  thread_.join();
}

std::shared_ptr<RequestTrace> TraceManager::Start(std::string_view model, int64_t version,
                                                  std::string_view request_id, const TraceOrigin& origin) {
  std::optional<TraceContext> remote;
  if (opentelemetry_ && !origin.traceparent.empty()) remote = ParseTraceparent(origin.traceparent);
  const bool watched = IsWatched(model);
  const auto sample =
      book_.Sample(model, remote ? std::optional<bool>(remote->sampled) : std::optional<bool>());
  if (!sample && !watched) return nullptr;
  FinishedTrace facts;
  facts.protocol = origin.protocol;
  facts.wall_offset_ns = WallOffsetNs();
  if (sample) {
    facts.scope = sample->scope;
    facts.log_frequency = sample->log_frequency;
    facts.last = sample->last;
    facts.timestamps = sample->timestamps;
  }
  // User code gets the trace context only if the request is exported to the collector.
  const bool exported = opentelemetry_ && sample.has_value();
  if (exported) {
    facts.trace_id[0] = remote ? remote->trace_id[0] : ids_->Random();
    facts.trace_id[1] = remote ? remote->trace_id[1] : ids_->Random();
    facts.remote_span = remote ? remote->span : 0;
    facts.root_span = ids_->Random();
    // The standard allows truncating longer ones, but only at whole entries; drop them instead.
    if (remote && origin.tracestate.size() <= 512) facts.tracestate = origin.tracestate;
  }
  TraceTree::Goals goals;
  if (sample) goals.queue = queue_;
  if (watched) goals.slow = slow_;
  auto tree = std::make_shared<TraceTree>(std::move(goals), ids_, std::move(facts), sample && sample->tensors,
                                          exported);
  tree->Reserve();
  TraceRecord record;
  record.id = ids_->NextId();
  record.model = model;
  record.version = version;
  record.request_id = Shortened(request_id);
  record.times[static_cast<size_t>(TraceActivity::kReceiveStart)] = origin.received_ns;
  return std::make_shared<Trace>(std::move(tree), std::move(record));
}

Status TraceManager::Change(const std::string& model, const TraceChanges& changes) {
  uint64_t gone = 0;
  BRAID_RETURN_IF_ERROR(book_.Change(model, changes, &gone));
  UpdateEnabled();
  if (gone != 0) queue_->RequestFlush(gone);
  return OkStatus();
}

Status TraceManager::Watch(const std::string& model, int64_t seconds) {
  BRAID_RETURN_IF_ERROR(slow_->Watch(model, seconds));
  UpdateEnabled();
  return OkStatus();
}

bool TraceManager::IsWatched(std::string_view model) {
  if (!watching_.load(std::memory_order_relaxed)) return false;
  if (slow_->Watches(model)) return true;
  // The first request after the last watch.
  if (!slow_->active()) UpdateEnabled();
  return false;
}

void TraceManager::UpdateEnabled() {
  MutexLock lock(enabled_mutex_);
  watching_ = slow_->active();
  enabled_ = watching_ || book_.any_on();
}

}  // namespace braid
