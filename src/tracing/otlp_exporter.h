// OtlpExporter: sends traces to an OpenTelemetry collector over HTTP, one batch per request. Undelivered
// traces are lost, counted, and logged from time to time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/log.h"
#include "tracing/http_post.h"
#include "tracing/otlp.h"
#include "tracing/trace_queue.h"

namespace braid {

class OtlpExporter final : public TraceOutput {
 public:
  struct Options {
    HttpUrl url;
    ResourceAttributes resource;
    std::string version;
    size_t max_batch = 512;
    int64_t timeout_ns = 5'000'000'000;
  };
  // `log` outlives the exporter.
  OtlpExporter(Options options, Logger& log) : options_(std::move(options)), log_(log) {}

  void Write(std::vector<FinishedTrace> traces) override;
  void Flush(uint64_t) override {}
  void OnDropped(uint64_t count) override;

 private:
  void Lose(uint64_t count, const std::string& why);

  const Options options_;
  Logger& log_;
  uint64_t lost_ = 0;  // not yet logged
  int64_t quiet_until_ns_ = 0;
};

}  // namespace braid
