#include "serving/latency.h"

#include <prometheus/summary.h>

#include <algorithm>

namespace braid {
namespace {

prometheus::Summary::Quantiles QuantilesOf(const std::vector<std::pair<double, double>>& quantiles) {
  prometheus::Summary::Quantiles list;
  for (const auto& [quantile, error] : quantiles) list.emplace_back(quantile, error);
  return list;
}

double Microseconds(int64_t ns) {
  const int64_t whole = std::max<int64_t>(ns, 0) / 1000;
  return static_cast<double>(whole);
}

SummarySnapshot SnapshotOf(const prometheus::Summary& summary) {
  const prometheus::ClientMetric::Summary collected = summary.Collect().summary;
  SummarySnapshot snapshot;
  snapshot.count = collected.sample_count;
  snapshot.sum = collected.sample_sum;
  for (const auto& quantile : collected.quantile) {
    snapshot.quantiles.emplace_back(quantile.quantile, quantile.value);
  }
  return snapshot;
}

}  // namespace

void LatencyHistogram::Start(std::vector<double> of) {
  bounds = std::move(of);
  counts.assign(bounds.size() + 1, 0);
}

void LatencyHistogram::Observe(double value) {
  const auto bucket = std::lower_bound(bounds.begin(), bounds.end(), value) - bounds.begin();
  ++counts[static_cast<size_t>(bucket)];
  sum += value;
}

struct LatencySummaries::Parts {
  explicit Parts(const prometheus::Summary::Quantiles& quantiles)
      : request(quantiles),
        queue(quantiles),
        compute_input(quantiles),
        compute_infer(quantiles),
        compute_output(quantiles) {}

  prometheus::Summary request;
  prometheus::Summary queue;
  prometheus::Summary compute_input;
  prometheus::Summary compute_infer;
  prometheus::Summary compute_output;
};

LatencySummaries::LatencySummaries(const std::vector<std::pair<double, double>>& quantiles)
    : parts_(std::make_unique<Parts>(QuantilesOf(quantiles))) {}

LatencySummaries::~LatencySummaries() = default;

void LatencySummaries::Observe(int64_t request_ns, int64_t queue_ns, int64_t input_ns, int64_t infer_ns,
                               int64_t output_ns) {
  parts_->request.Observe(Microseconds(request_ns));
  parts_->queue.Observe(Microseconds(queue_ns));
  parts_->compute_input.Observe(Microseconds(input_ns));
  parts_->compute_infer.Observe(Microseconds(infer_ns));
  parts_->compute_output.Observe(Microseconds(output_ns));
}

void LatencySummaries::ObserveCached(int64_t request_ns) {
  parts_->request.Observe(Microseconds(request_ns));
}

LatencySummariesSnapshot LatencySummaries::Snapshot() const {
  return {SnapshotOf(parts_->request), SnapshotOf(parts_->queue), SnapshotOf(parts_->compute_input),
          SnapshotOf(parts_->compute_infer), SnapshotOf(parts_->compute_output)};
}

}  // namespace braid
