#include "tracing/otlp_exporter.h"

#include <algorithm>
#include <iterator>

#include "base/clock.h"

namespace braid {
namespace {

// How often an unreachable collector is logged.
constexpr int64_t kComplainIntervalNs = 30'000'000'000;

}  // namespace

void OtlpExporter::Write(std::vector<FinishedTrace> traces) {
  for (size_t at = 0; at < traces.size();) {
    const size_t count = std::min(options_.max_batch, traces.size() - at);
    const auto begin = std::make_move_iterator(traces.begin() + static_cast<ptrdiff_t>(at));
    const std::vector<FinishedTrace> batch(begin, begin + static_cast<ptrdiff_t>(count));
    at += count;
    const Status sent =
        PostJson(options_.url, OtlpJson(batch, options_.resource, options_.version), options_.timeout_ns);
    if (!sent.ok()) {
      // Further batches would wait as long again.
      Lose(count + traces.size() - at, sent.message());
      return;
    }
  }
}

void OtlpExporter::OnDropped(uint64_t count) { Lose(count, "they arrive faster than it accepts them"); }

void OtlpExporter::Lose(uint64_t count, const std::string& why) {
  lost_ += count;
  const int64_t now = SteadyNowNs();
  if (now < quiet_until_ns_) return;
  quiet_until_ns_ = now + kComplainIntervalNs;
  BRAID_LOG_WARNING(log_, "{} traces did not reach the collector at http://{}:{}{}: {}", lost_,
                    options_.url.host, options_.url.port, options_.url.target, why);
  lost_ = 0;
}

}  // namespace braid
