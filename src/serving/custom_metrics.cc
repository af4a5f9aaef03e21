#include "serving/custom_metrics.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/utf8.h"

namespace braid {
namespace {

// Prefixes of the server's own families. A user's family of the same name would make the metrics page
// invalid.
constexpr std::array<std::string_view, 8> kOwnPrefixes = {
    "nv_inference_",     "nv_cache_",      "nv_cpu_",    "nv_gpu_",
    "nv_pinned_memory_", "nv_model_load_", "nv_energy_", "braid_"};

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

bool IsName(std::string_view name, bool colons) {
  if (name.empty() || name.size() > 1024) return false;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (!IsLetter(c) && !(colons && c == ':') && !(i > 0 && c >= '0' && c <= '9')) return false;
  }
  return true;
}

Status CheckFamilyName(const std::string& name) {
  if (!IsName(name, true)) {
    return InvalidArgumentError("Invalid metric name '" + Shortened(name) +
                                "': expected letters, digits, '_' and ':', and no digit first");
  }
  for (std::string_view prefix : kOwnPrefixes) {
    if (name.starts_with(prefix)) {
      return InvalidArgumentError("Invalid metric name '" + Shortened(name) + "': names that begin with '" +
                                  std::string(prefix) + "' are reserved for the server");
    }
  }
  return OkStatus();
}

Status CheckLabels(const MetricLabels& labels, MetricKind kind) {
  size_t bytes = 0;
  for (const auto& [name, value] : labels) {
    bytes += name.size() + value.size();
    if (!IsName(name, false) || name.starts_with("__") || (kind == MetricKind::kHistogram && name == "le")) {
      return InvalidArgumentError("Invalid label name '" + Shortened(name) +
                                  "': expected letters, digits and '_', no digit first, and not 'le' for a "
                                  "histogram");
    }
    // Prometheus refuses the whole page if a label value is not UTF-8.
    if (!IsUtf8(value)) return InvalidArgumentError("Invalid value of label '" + name + "': expected UTF-8");
  }
  if (bytes <= CustomMetrics::kMostLabelBytes) return OkStatus();
  return InvalidArgumentError("Invalid labels: expected up to " +
                              std::to_string(CustomMetrics::kMostLabelBytes) +
                              " bytes of names and values, got " + std::to_string(bytes));
}

Status CheckBounds(const std::vector<double>& bounds) {
  for (size_t i = 0; i < bounds.size(); ++i) {
    if (!std::isfinite(bounds[i]) || (i > 0 && bounds[i] <= bounds[i - 1])) {
      return InvalidArgumentError("Histogram buckets must be finite and strictly ascending");
    }
  }
  return OkStatus();
}

Status Unsupported(MetricKind kind, std::string_view what) {
  return UnsupportedError(std::string(MetricKindName(kind)) + " does not support " + std::string(what));
}

}  // namespace

std::string_view MetricKindName(MetricKind kind) {
  switch (kind) {
    case MetricKind::kCounter:
      return "TRITONSERVER_METRIC_KIND_COUNTER";
    case MetricKind::kGauge:
      return "TRITONSERVER_METRIC_KIND_GAUGE";
    case MetricKind::kHistogram:
      return "TRITONSERVER_METRIC_KIND_HISTOGRAM";
  }
  return "";
}

struct CustomMetrics::Series {
  Family* family = nullptr;
  const MetricLabels* labels = nullptr;  // the key in the family's map
  size_t references = 0;                 // guarded by the registry's mutex
  MetricKind kind = MetricKind::kCounter;
  std::atomic<double> value = 0;
  // Of a histogram. `mutex` makes a scrape see sum and counts of one moment.
  std::vector<double> bounds;
  mutable Mutex mutex;
  std::vector<uint64_t> counts BRAID_GUARDED_BY(mutex);  // by bucket; the last counts values above all bounds
  double sum BRAID_GUARDED_BY(mutex) = 0;

  void Observe(double observed) {
    const auto bucket =
        static_cast<size_t>(std::lower_bound(bounds.begin(), bounds.end(), observed) - bounds.begin());
    MutexLock lock(mutex);
    ++counts[bucket];
    sum += observed;
  }

  CustomSeriesSnapshot Snapshot() const {
    CustomSeriesSnapshot snapshot;
    snapshot.labels = *labels;
    if (kind != MetricKind::kHistogram) {
      snapshot.value = value.load(std::memory_order_relaxed);
      return snapshot;
    }
    snapshot.bounds = bounds;
    MutexLock lock(mutex);
    snapshot.value = sum;
    for (size_t i = 0; i < counts.size(); ++i) {
      snapshot.count += counts[i];
      if (i < bounds.size()) snapshot.cumulative.push_back(snapshot.count);
    }
    return snapshot;
  }
};

struct CustomMetrics::Family {
  std::string name;
  std::string description;
  MetricKind kind = MetricKind::kCounter;
  size_t references = 0;
  std::map<MetricLabels, std::unique_ptr<Series>> series;
};

CustomMetrics::CustomMetrics() = default;

CustomMetrics::~CustomMetrics() { BRAID_CHECK(families_.empty()); }

std::unique_ptr<CustomMetrics::Session> CustomMetrics::Open(Progress progress) {
  return std::unique_ptr<Session>(new Session(*this, std::move(progress)));
}

void CustomMetrics::AwaitChanges() const {
  std::vector<std::pair<std::function<uint64_t()>, uint64_t>> behind;
  {
    MutexLock lock(mutex_);
    for (const Session* session : sessions_) {
      const Progress& progress = session->progress_;
      // Families are added and dropped under the mutex.
      if (!progress.sent || session->families_.empty()) continue;
      const uint64_t sent = progress.sent();
      if (progress.handled() < sent) behind.emplace_back(progress.handled, sent);
    }
  }
  const int64_t deadline_ns = SteadyNowNs() + kCatchUpNs;
  for (const auto& [handled, sent] : behind) {
    while (handled() < sent && SteadyNowNs() < deadline_ns) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

std::vector<CustomFamilySnapshot> CustomMetrics::Snapshot() const {
  AwaitChanges();
  std::vector<CustomFamilySnapshot> families;
  MutexLock lock(mutex_);
  for (const auto& [name, family] : families_) {
    if (family->series.empty()) continue;
    CustomFamilySnapshot& snapshot = families.emplace_back();
    snapshot.name = name;
    snapshot.description = family->description;
    snapshot.kind = family->kind;
    for (const auto& [labels, series] : family->series) snapshot.series.push_back(series->Snapshot());
  }
  return families;
}

void CustomMetrics::Drop(Series& series) {
  if (--series.references > 0) return;
  --series_count_;
  Family& family = *series.family;
  family.series.erase(family.series.find(*series.labels));
}

void CustomMetrics::Drop(Family& family) {
  if (--family.references > 0) return;
  // Its series were created through references to it, which have all been released.
  BRAID_CHECK(family.series.empty());
  families_.erase(families_.find(family.name));
}

CustomMetrics::Session::Session(CustomMetrics& metrics, Progress progress)
    : metrics_(metrics), progress_(std::move(progress)) {
  MutexLock lock(metrics_.mutex_);
  metrics_.sessions_.insert(this);
}

CustomMetrics::Session::~Session() {
  MutexLock lock(metrics_.mutex_);
  metrics_.sessions_.erase(this);
  for (auto& [id, reference] : series_) metrics_.Drop(*reference.series);
  for (auto& [id, family] : families_) metrics_.Drop(*family);
}

Result<uint64_t> CustomMetrics::Session::CreateFamily(const std::string& name, const std::string& description,
                                                      MetricKind kind) {
  BRAID_RETURN_IF_ERROR(CheckFamilyName(name));
  MutexLock lock(metrics_.mutex_);
  auto found = metrics_.families_.find(name);
  if (found == metrics_.families_.end()) {
    if (metrics_.families_.size() >= kMostFamilies) {
      return UnavailableError("the limit of " + std::to_string(kMostFamilies) +
                              " metric families is reached");
    }
    auto family = std::make_unique<Family>();
    family->name = name;
    family->description = Shortened(description, kMostDescription);
    family->kind = kind;
    found = metrics_.families_.emplace(name, std::move(family)).first;
  } else if (found->second->kind != kind) {
    return AlreadyExistsError("Family name already exists with different type");
  }
  ++found->second->references;
  families_.emplace(++last_id_, found->second.get());
  return last_id_;
}

Result<uint64_t> CustomMetrics::Session::CreateMetric(uint64_t family_id, const MetricLabels& labels,
                                                      const std::optional<std::vector<double>>& bounds) {
  auto entry = families_.find(family_id);
  if (entry == families_.end()) return InvalidArgumentError("unknown metric family");
  Family& family = *entry->second;
  BRAID_RETURN_IF_ERROR(CheckLabels(labels, family.kind));
  if (bounds.has_value() != (family.kind == MetricKind::kHistogram)) {
    return InvalidArgumentError(bounds ? "Unexpected buckets found." : "Missing required buckets.");
  }
  if (bounds) BRAID_RETURN_IF_ERROR(CheckBounds(*bounds));
  MutexLock lock(metrics_.mutex_);
  auto found = family.series.find(labels);
  if (found == family.series.end()) {
    if (metrics_.series_count_ >= kMostSeries) {
      return UnavailableError("the limit of " + std::to_string(kMostSeries) +
                              " series of custom metrics is reached");
    }
    ++metrics_.series_count_;
    found = family.series.emplace(labels, std::make_unique<Series>()).first;
    Series& series = *found->second;
    series.family = &family;
    series.labels = &found->first;
    series.kind = family.kind;
    if (bounds) {
      series.bounds = *bounds;
      MutexLock series_lock(series.mutex);
      series.counts.resize(bounds->size() + 1);
    }
  }
  ++found->second->references;
  series_.emplace(++last_id_, Reference{found->second.get(), family_id});
  return last_id_;
}

void CustomMetrics::Session::DropFamily(uint64_t family) {
  auto found = families_.find(family);
  if (found == families_.end()) return;
  MutexLock lock(metrics_.mutex_);
  for (auto it = series_.begin(); it != series_.end();) {
    if (it->second.family == family) {
      metrics_.Drop(*it->second.series);
      it = series_.erase(it);
    } else {
      ++it;
    }
  }
  metrics_.Drop(*found->second);
  families_.erase(found);
}

void CustomMetrics::Session::DropMetric(uint64_t metric) {
  auto found = series_.find(metric);
  if (found == series_.end()) return;
  MutexLock lock(metrics_.mutex_);
  metrics_.Drop(*found->second.series);
  series_.erase(found);
}

Result<CustomMetrics::Series*> CustomMetrics::Session::Find(uint64_t metric) const {
  auto found = series_.find(metric);
  if (found == series_.end()) return InvalidArgumentError("unknown metric");
  return found->second.series;
}

Status CustomMetrics::Session::Increment(uint64_t metric, double by) {
  BRAID_ASSIGN_OR_RETURN(Series * series, Find(metric));
  if (series->kind == MetricKind::kHistogram) return Unsupported(series->kind, "Increment");
  if (series->kind == MetricKind::kCounter && !(by >= 0)) {
    return InvalidArgumentError(std::string(MetricKindName(series->kind)) +
                                " can only be incremented monotonically by non-negative values.");
  }
  series->value.fetch_add(by, std::memory_order_relaxed);
  return OkStatus();
}

Status CustomMetrics::Session::Set(uint64_t metric, double value) {
  BRAID_ASSIGN_OR_RETURN(Series * series, Find(metric));
  if (series->kind != MetricKind::kGauge) return Unsupported(series->kind, "Set");
  series->value.store(value, std::memory_order_relaxed);
  return OkStatus();
}

Status CustomMetrics::Session::Observe(uint64_t metric, double value) {
  BRAID_ASSIGN_OR_RETURN(Series * series, Find(metric));
  if (series->kind != MetricKind::kHistogram) return Unsupported(series->kind, "Observe");
  series->Observe(value);
  return OkStatus();
}

Result<double> CustomMetrics::Session::Value(uint64_t metric) const {
  BRAID_ASSIGN_OR_RETURN(Series * series, Find(metric));
  if (series->kind == MetricKind::kHistogram) return Unsupported(series->kind, "Value");
  return series->value.load(std::memory_order_relaxed);
}

}  // namespace braid
