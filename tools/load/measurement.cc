#include "load/measurement.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "load/elements.h"

namespace braid::load {
namespace {

constexpr double kNsPerUs = 1000;
constexpr size_t kMostErrorTexts = 20;
constexpr size_t kBars = 40;
constexpr size_t kPoints = 60;

std::string_view DataOf(const OutputView& output,
                        const std::vector<std::pair<std::string, std::string_view>>& placed,
                        std::string& joined) {
  if (!output.data.empty()) {
    if (output.data.size() == 1) return output.data.front();
    joined = JoinPieces(output.data);
    return joined;
  }
  const auto found = std::ranges::find(placed, output.name, &std::pair<std::string, std::string_view>::first);
  return found == placed.end() ? std::string_view() : found->second;
}

// Returns "element 3 is 7, expected 8".
std::string FirstDifference(const Tensor& expected, std::string_view data) {
  std::vector<std::string> wanted;
  std::string text;
  VisitElements(expected.datatype, expected.data, 1 << 20,
                [&](size_t, const std::string& element) { wanted.push_back(element); });
  VisitElements(expected.datatype, data, wanted.size(), [&](size_t i, const std::string& element) {
    if (text.empty() && i < wanted.size() && element != wanted[i]) {
      text = "element " + std::to_string(i) + " is " + element + ", expected " + wanted[i];
    }
  });
  return text.empty() ? "its bytes differ" : text;
}

// Bars whose limits have a constant ratio, between the fastest and the slowest.
std::vector<Bar> Histogram(const std::vector<int64_t>& sorted_ns) {
  if (sorted_ns.empty()) return {};
  const double low = std::max(1.0, static_cast<double>(sorted_ns.front()));
  const double high = std::max(low * 1.01, static_cast<double>(sorted_ns.back()) + 1);
  const double step = std::pow(high / low, 1.0 / kBars);
  std::vector<Bar> bars;
  auto at = sorted_ns.begin();
  for (size_t i = 0; i < kBars; ++i) {
    const double from = low * std::pow(step, static_cast<double>(i));
    const double to = i + 1 == kBars ? high : from * step;
    const auto end = i + 1 == kBars
                         ? sorted_ns.end()
                         : std::lower_bound(at, sorted_ns.end(), static_cast<int64_t>(std::ceil(to)));
    bars.push_back({from / kNsPerUs, to / kNsPerUs, static_cast<uint64_t>(end - at)});
    at = end;
  }
  return bars;
}

std::vector<std::pair<double, double>> OverTime(const std::vector<Sample>& samples, int64_t begin_ns,
                                                int64_t end_ns) {
  std::vector<std::vector<int64_t>> parts(kPoints);
  const double width = std::max(1.0, static_cast<double>(end_ns - begin_ns) / kPoints);
  for (const Sample& sample : samples) {
    const auto part = static_cast<size_t>(static_cast<double>(sample.end_ns - begin_ns) / width);
    parts[std::min(part, kPoints - 1)].push_back(sample.end_ns - sample.begin_ns);
  }
  std::vector<std::pair<double, double>> points;
  for (size_t i = 0; i < kPoints; ++i) {
    if (parts[i].empty()) continue;
    std::sort(parts[i].begin(), parts[i].end());
    points.emplace_back((static_cast<double>(i) + 0.5) * width / 1e9,
                        static_cast<double>(PercentileOf(parts[i], 50)) / kNsPerUs);
  }
  return points;
}

}  // namespace

void Samples::Append(Samples&& other) {
  answered.insert(answered.end(), other.answered.begin(), other.answered.end());
  between_ns.insert(between_ns.end(), other.between_ns.begin(), other.between_ns.end());
  for (const auto& [text, count] : other.errors) errors[text] += count;
  failed += other.failed;
  timed_out += other.timed_out;
  bytes_sent += other.bytes_sent;
  bytes_received += other.bytes_received;
}

Status CompareOutputs(const std::vector<Tensor>& expected, const InferResponse& response,
                      const std::vector<std::pair<std::string, std::string_view>>& placed) {
  for (const Tensor& wanted : expected) {
    const auto output = std::ranges::find(response.outputs, wanted.name, &OutputView::name);
    if (output == response.outputs.end())
      return InternalError("validation: the response lacks output " + wanted.name);
    const std::string name = "validation: output " + wanted.name;
    if (output->datatype != wanted.datatype) {
      return InternalError(name + " has datatype " + output->datatype + ", expected " + wanted.datatype);
    }
    if (output->shape != wanted.shape) {
      return InternalError(name + " has shape " + ShapeText(output->shape) + ", expected " +
                           ShapeText(wanted.shape));
    }
    std::string joined;
    std::string_view data = DataOf(*output, placed, joined);
    // The region may be larger than the output.
    if (output->data.empty()) data = data.substr(0, wanted.data.size());
    if (data != wanted.data) return InternalError(name + ": " + FirstDifference(wanted, data));
  }
  return OkStatus();
}

Status SampleObserver::OnResponse(const LoadRequest& request, const InferResponse& response, uint64_t) {
  if (request.step >= expected_.size() || expected_[request.step].empty()) return OkStatus();
  return CompareOutputs(expected_[request.step], response, request.placed);
}

void SampleObserver::OnAnswered(const Answer& answer) {
  MutexLock lock(mutex_);
  const int64_t first_ns = answer.response_ns.empty() ? answer.end_ns : answer.response_ns.front();
  const size_t responses = answer.tokens > 0 ? static_cast<size_t>(answer.tokens) : answer.response_ns.size();
  samples_.answered.push_back({answer.begin_ns, answer.end_ns, first_ns, static_cast<uint32_t>(responses)});
  for (size_t i = 1; i < answer.response_ns.size(); ++i) {
    samples_.between_ns.push_back(answer.response_ns[i] - answer.response_ns[i - 1]);
  }
  samples_.bytes_sent += answer.request.message.bytes.size();
  samples_.bytes_received += answer.bytes_received;
}

void SampleObserver::OnFailed(int64_t, int64_t, const Status& why, bool timed_out) {
  MutexLock lock(mutex_);
  ++samples_.failed;
  if (timed_out) ++samples_.timed_out;
  const bool known = samples_.errors.contains(why.message());
  ++samples_.errors[known || samples_.errors.size() < kMostErrorTexts ? why.message() : "others"];
}

Samples SampleObserver::Take() {
  Samples taken;
  MutexLock lock(mutex_);
  std::swap(taken, samples_);
  return taken;
}

double Latency::at(int percentile) const {
  const auto found = percentiles_us.find(percentile);
  return found == percentiles_us.end() ? 0 : found->second;
}

int64_t PercentileOf(const std::vector<int64_t>& sorted_ns, double percentile) {
  if (sorted_ns.empty()) return 0;
  // Nearest-rank method: the smallest value with at least this many values at or below it.
  const auto rank = static_cast<size_t>(std::ceil(percentile / 100 * static_cast<double>(sorted_ns.size())));
  return sorted_ns[std::clamp<size_t>(rank, 1, sorted_ns.size()) - 1];
}

Latency Describe(std::vector<int64_t>& times_ns, int percentile) {
  Latency latency;
  std::sort(times_ns.begin(), times_ns.end());
  for (const int each : {50, 90, 95, 99, percentile}) {
    if (each > 0) latency.percentiles_us[each] = static_cast<double>(PercentileOf(times_ns, each)) / kNsPerUs;
  }
  if (times_ns.empty()) return latency;
  const auto count = static_cast<double>(times_ns.size());
  const double mean = std::accumulate(times_ns.begin(), times_ns.end(), 0.0) / count;
  double squares = 0;
  for (const int64_t time : times_ns)
    squares += (static_cast<double>(time) - mean) * (static_cast<double>(time) - mean);
  latency.mean_us = mean / kNsPerUs;
  latency.deviation_us = std::sqrt(squares / count) / kNsPerUs;
  latency.min_us = static_cast<double>(times_ns.front()) / kNsPerUs;
  latency.max_us = static_cast<double>(times_ns.back()) / kNsPerUs;
  return latency;
}

Figures MakeFigures(Samples samples, int64_t begin_ns, int64_t end_ns, const FigureOptions& options) {
  std::erase_if(samples.answered,
                [&](const Sample& sample) { return sample.end_ns < begin_ns || sample.end_ns > end_ns; });
  Figures figures;
  figures.seconds = static_cast<double>(end_ns - begin_ns) / 1e9;
  figures.requests = samples.answered.size();
  figures.failed = samples.failed;
  figures.timed_out = samples.timed_out;
  figures.errors = std::move(samples.errors);
  const double seconds = std::max(1e-9, figures.seconds);
  figures.requests_per_s = static_cast<double>(figures.requests) / seconds;
  figures.inferences_per_s = figures.requests_per_s * static_cast<double>(options.batch);
  figures.megabytes_sent_per_s = static_cast<double>(samples.bytes_sent) / 1e6 / seconds;
  figures.megabytes_received_per_s = static_cast<double>(samples.bytes_received) / 1e6 / seconds;
  std::vector<int64_t> times;
  std::vector<int64_t> firsts;
  uint64_t responses = 0;
  for (const Sample& sample : samples.answered) {
    times.push_back(sample.end_ns - sample.begin_ns);
    firsts.push_back(sample.first_ns - sample.begin_ns);
    responses += sample.responses;
  }
  figures.responses_per_s = static_cast<double>(responses) / seconds;
  figures.over_time = OverTime(samples.answered, begin_ns, end_ns);
  figures.latency = Describe(times, options.percentile);
  figures.histogram = Histogram(times);
  if (options.stream) {
    figures.first_response = Describe(firsts, options.percentile);
    if (!samples.between_ns.empty())
      figures.between_responses = Describe(samples.between_ns, options.percentile);
  }
  return figures;
}

bool IsStable(const std::vector<std::pair<double, double>>& rates_and_latencies, double percent) {
  constexpr size_t kCompared = 3;
  if (rates_and_latencies.size() < kCompared) return false;
  const auto last = rates_and_latencies.end() - kCompared;
  const auto agree = [&](auto value) {
    double mean = 0;
    for (auto it = last; it != rates_and_latencies.end(); ++it) mean += value(*it) / kCompared;
    return mean > 0 && std::all_of(last, rates_and_latencies.end(), [&](const auto& one) {
             return std::fabs(value(one) - mean) <= mean * percent / 100;
           });
  };
  return agree([](const auto& one) { return one.first; }) &&
         agree([](const auto& one) { return one.second; });
}

}  // namespace braid::load
