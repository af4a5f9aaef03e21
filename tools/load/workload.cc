#include "load/workload.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "load/elements.h"

namespace braid::load {
namespace {

constexpr size_t kAlignment = 64;

size_t Aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Returns the size of an output from its metadata, or `unknown` if that leaves it open.
size_t OutputBytes(const ModelInfo& model, const TensorInfo& info, int64_t batch, size_t unknown) {
  std::vector<int64_t> shape = info.shape;
  if (HasBatches(model) && !shape.empty()) shape.front() = batch;
  const Result<size_t> count = ElementCount(shape);
  const Result<size_t> width = ElementBytes(info.datatype);
  return count.ok() && width.ok() && *width > 0 ? *count * *width : unknown;
}

}  // namespace

// Cycles through all steps; each slot begins at a different one.
class CycleSource : public RequestSource {
 public:
  // `own`: this slot's requests; empty: use those of the workload.
  CycleSource(const Workload& workload, size_t first, std::vector<LoadRequest> own)
      : own_(std::move(own)),
        requests_(own_.empty() ? workload.ready_ : own_),
        next_(first % requests_.size()) {}

  const LoadRequest& Next() override {
    const LoadRequest& request = requests_[next_];
    if (++next_ == requests_.size()) next_ = 0;
    return request;
  }

 private:
  const std::vector<LoadRequest> own_;
  const std::vector<LoadRequest>& requests_;
  size_t next_;
};

// Sends one sequence after the other, and cycles through the streams. Requests differ by their sequence id,
// so each is encoded when it is sent.
class SequenceSource : public RequestSource {
 public:
  SequenceSource(const Workload& workload, uint64_t seed) : workload_(workload), random_(seed) {}
  ~SequenceSource() override {
    MutexLock lock(workload_.mutex_);
    if (number_) workload_.running_.erase(IdOf(*number_));
  }

  const LoadRequest& Next() override {
    if (left_ == 0) Begin();
    --left_;
    return Encode(left_ == 0);
  }

  const LoadRequest* Last() override {
    if (left_ == 0) return nullptr;
    left_ = 0;
    return &Encode(true);
  }

 private:
  void Begin() {
    const SequenceOptions& options = workload_.options_.sequences;
    number_ = TakeNumber();
    stream_ = &workload_.streams_[*number_ % workload_.streams_.size()];
    at_ = 0;
    if (!options.length_given && stream_->size() > 1) {
      left_ = stream_->size();
    } else {
      const double spread = options.length * options.variation / 100;
      std::uniform_real_distribution<double> length(options.length - spread, options.length + spread);
      left_ = static_cast<size_t>(std::max(1.0, length(random_) + 0.5));
    }
    start_ = true;
  }

  uint64_t IdOf(uint64_t number) const {
    const SequenceOptions& options = workload_.options_.sequences;
    return options.first_id + (options.ids > 0 ? number % options.ids : number);
  }

  // Returns the next sequence number whose id is free. One source may stay at a sequence while the others go
  // through all ids.
  uint64_t TakeNumber() {
    MutexLock lock(workload_.mutex_);
    if (number_) workload_.running_.erase(IdOf(*number_));
    uint64_t number = workload_.next_sequence_++;
    // With fewer ids than sources, two sources share one.
    for (uint64_t left = workload_.options_.sequences.ids; left > 1; --left) {
      if (!workload_.running_.contains(IdOf(number))) break;
      number = workload_.next_sequence_++;
    }
    workload_.running_.insert(IdOf(number));
    return number;
  }

  const LoadRequest& Encode(bool end) {
    const Workload::Step& step = (*stream_)[at_ % stream_->size()];
    ++at_;
    InferRequest request = step.request;
    request.parameters["sequence_id"] = static_cast<int64_t>(IdOf(*number_));
    request.parameters["sequence_start"] = std::exchange(start_, false);
    request.parameters["sequence_end"] = end;
    request_.message = EncodeInfer(workload_.options_.encoding, request);
    request_.step = step.index;
    return request_;
  }

  const Workload& workload_;
  std::mt19937_64 random_;
  const std::vector<Workload::Step>* stream_ = nullptr;
  size_t at_ = 0;
  size_t left_ = 0;                 // requests left in the sequence
  std::optional<uint64_t> number_;  // number of the sequence; nullopt: none
  bool start_ = false;
  LoadRequest request_;
};

Result<std::unique_ptr<Workload>> Workload::Make(const WorkloadOptions& options, const ModelInfo& model,
                                                 DataSet data, int64_t batch) {
  std::unique_ptr<Workload> workload(new Workload(options));
  if (options.shared_memory) {
    size_t bytes = 0;
    for (const auto& stream : data.streams) {
      for (const DataStep& step : stream) {
        for (const Tensor& input : step.inputs) bytes += Aligned(input.data.size());
      }
    }
    BRAID_ASSIGN_OR_RETURN(workload->input_region_, SharedRegion::Make(std::max<size_t>(1, bytes)));
    for (const TensorInfo& output : model.outputs) {
      const auto asked = [&](const RequestedOutput& one) { return one.name == output.name; };
      if (!options.request.outputs.empty() && std::ranges::none_of(options.request.outputs, asked)) continue;
      workload->output_sizes_.emplace_back(output.name,
                                           OutputBytes(model, output, batch, options.output_bytes));
    }
  }
  size_t offset = 0;
  for (auto& stream : data.streams) {
    std::vector<Step>& steps = workload->streams_.emplace_back();
    for (DataStep& step : stream) {
      InferRequest request = options.request;
      request.inputs = std::move(step.inputs);
      if (options.shared_memory) {
        const SharedRegion& region = *workload->input_region_;
        for (Tensor& input : request.inputs) {
          std::memcpy(region.base() + offset, input.data.data(), input.data.size());
          request.input_places.push_back({region.name(), input.data.size(), offset});
          offset += Aligned(input.data.size());
          input.data.clear();
        }
      }
      steps.push_back({std::move(request), workload->expected_.size()});
      workload->expected_.push_back(std::move(step.expected));
    }
  }
  if (!options.sequences.enabled && !options.shared_memory) {
    for (const std::vector<Step>& stream : workload->streams_) {
      for (const Step& step : stream) {
        workload->ready_.push_back({EncodeInfer(options.encoding, step.request), step.index});
      }
    }
  }
  return workload;
}

Status Workload::MakeRegions(int slots) {
  if (!options_.shared_memory) return OkStatus();
  size_t bytes = 0;
  for (const auto& [name, size] : output_sizes_) bytes += Aligned(size);
  while (output_regions_.size() < static_cast<size_t>(slots)) {
    BRAID_ASSIGN_OR_RETURN(std::unique_ptr<SharedRegion> region,
                           SharedRegion::Make(std::max<size_t>(1, bytes)));
    output_regions_.push_back(std::move(region));
  }
  next_slot_ = 0;
  return OkStatus();
}

std::vector<const SharedRegion*> Workload::regions() const {
  std::vector<const SharedRegion*> regions;
  if (input_region_ != nullptr) regions.push_back(input_region_.get());
  for (const auto& region : output_regions_) regions.push_back(region.get());
  return regions;
}

std::unique_ptr<RequestSource> Workload::NewSource() const {
  const uint64_t slot = next_slot_.fetch_add(1, std::memory_order_relaxed);
  if (options_.sequences.enabled) return std::make_unique<SequenceSource>(*this, slot);
  std::vector<LoadRequest> own;
  if (options_.shared_memory) {
    const SharedRegion& region = *output_regions_[slot % output_regions_.size()];
    for (const std::vector<Step>& stream : streams_) {
      for (const Step& step : stream) {
        InferRequest request = step.request;
        LoadRequest& ready = own.emplace_back();
        request.outputs.clear();
        size_t offset = 0;
        for (const auto& [name, size] : output_sizes_) {
          request.outputs.push_back({name, {region.name(), size, offset}});
          ready.placed.emplace_back(name, std::string_view(region.base() + offset, size));
          offset += Aligned(size);
        }
        ready.message = EncodeInfer(options_.encoding, request);
        ready.step = step.index;
      }
    }
  }
  return std::make_unique<CycleSource>(*this, slot, std::move(own));
}

}  // namespace braid::load
