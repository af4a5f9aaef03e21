#include "protocols/console/history.h"

#include <algorithm>

namespace braid {
namespace {

HistoryCounters CountersOf(const Servable& servable) {
  const StatisticsTotals done = servable.statistics().Totals();
  return {.requests = done.success.count,
          .failures = done.fail.count,
          .request_us = done.success.ns / 1000,
          .queue_us = done.queue.ns / 1000,
          .compute_us = (done.compute_input.ns + done.compute_infer.ns + done.compute_output.ns) / 1000,
          .executions = done.execution_count,
          .pending = servable.pending_requests()};
}

// Only the counters: `pending` is not cumulative.
void Add(HistoryCounters& sum, const HistoryCounters& more) {
  sum.requests += more.requests;
  sum.failures += more.failures;
  sum.request_us += more.request_us;
  sum.queue_us += more.queue_us;
  sum.compute_us += more.compute_us;
  sum.executions += more.executions;
}

void Subtract(HistoryCounters& sum, const HistoryCounters& less) {
  sum.requests -= less.requests;
  sum.failures -= less.failures;
  sum.request_us -= less.request_us;
  sum.queue_us -= less.queue_us;
  sum.compute_us -= less.compute_us;
  sum.executions -= less.executions;
}

}  // namespace

void ConsoleHistory::Sample(const Catalog& catalog, int64_t now_ms) {
  struct Look {
    std::shared_ptr<Servable> servable;
    HistoryCounters counters;
  };
  std::vector<Look> looks;
  for (auto& servable : catalog.All()) {
    HistoryCounters counters = CountersOf(*servable);
    looks.push_back({std::move(servable), counters});
  }

  MutexLock lock(mutex_);
  const uint64_t number = next_sample_++;
  times_ms_.push_back(now_ms);
  if (times_ms_.size() > kSamples) times_ms_.pop_front();
  HistoryCounters server = server_.last;
  server.pending = 0;
  for (const Look& look : looks) {
    const ServableInfo& info = look.servable->info();
    const Key key(info.name, info.version);
    Source& source = sources_[key];
    source.last_seen = number;
    if (source.servable.lock() != look.servable) {
      Add(source.before, source.counted);
      source.counted = {};
      source.servable = look.servable;
    }
    HistoryCounters news = look.counters;
    Subtract(news, source.counted);
    Add(server, news);
    server.pending += look.counters.pending;
    source.counted = look.counters;
    auto found = series_.find(key);
    if (found == series_.end()) {
      if (series_.size() >= kMostSeries) continue;
      found = series_.try_emplace(key).first;
    }
    HistoryCounters now = source.before;
    Add(now, source.counted);
    now.pending = look.counters.pending;
    found->second.last_seen = number;
    Append(found->second, now);
  }
  Append(server_, server);
  const auto is_old = [number](const auto& entry) { return entry.second.last_seen + kSamples <= number; };
  std::erase_if(series_, is_old);
  std::erase_if(sources_, is_old);
}

void ConsoleHistory::Append(Series& series, const HistoryCounters& counters) {
  const uint64_t number = next_sample_ - 1;
  if (series.changes.empty() || counters != series.last) series.changes.emplace_back(number, counters);
  series.last = counters;
  // The first entry holds for all samples up to the next.
  const uint64_t oldest = next_sample_ - times_ms_.size();
  while (series.changes.size() > 1 && series.changes[1].first <= oldest) series.changes.pop_front();
}

std::vector<HistorySample> ConsoleHistory::Expand(const Series& series) const {
  std::vector<HistorySample> samples;
  const uint64_t oldest = next_sample_ - times_ms_.size();
  auto change = series.changes.begin();
  for (uint64_t number = oldest; number < next_sample_ && number <= series.last_seen; ++number) {
    while (std::next(change) != series.changes.end() && std::next(change)->first <= number) ++change;
    if (change->first <= number) samples.push_back({times_ms_[number - oldest], change->second});
  }
  return samples;
}

std::vector<HistorySample> ConsoleHistory::OfServer() const {
  MutexLock lock(mutex_);
  if (next_sample_ == 0) return {};
  Series whole = server_;
  whole.last_seen = next_sample_ - 1;
  return Expand(whole);
}

std::vector<HistorySample> ConsoleHistory::Of(const std::string& model, int64_t version) const {
  MutexLock lock(mutex_);
  const auto found = series_.find(Key(model, version));
  return found == series_.end() ? std::vector<HistorySample>() : Expand(found->second);
}

}  // namespace braid
