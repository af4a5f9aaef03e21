// Workload: the requests of a load. They cycle through a data set, or form sequences of its streams. Requests
// that do not change are encoded in advance.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "load/data.h"
#include "load/generator.h"
#include "load/shared_region.h"

namespace braid::load {

struct SequenceOptions {
  bool enabled = false;
  uint64_t first_id = 1;
  uint64_t ids = 0;           // number of ids before the first is reused; 0: never
  int length = 20;            // unless the data set has streams
  double variation = 20;      // of the lengths, in percent
  bool length_given = false;  // `length` also applies to streams of the data set
};

struct WorkloadOptions {
  Encoding encoding;
  InferRequest request;  // model, version, parameters, outputs
  SequenceOptions sequences;
  bool shared_memory = false;
  size_t output_bytes = 102400;  // bytes for an output of unknown size
};

// Thread-safe, except that MakeRegions() must return before NewSource() is called.
class Workload {
 public:
  // Errors: shared memory is not available.
  static Result<std::unique_ptr<Workload>> Make(const WorkloadOptions& options, const ModelInfo& model,
                                                DataSet data, int64_t batch);

  // Returns the requests of one more slot. The workload outlives the source.
  std::unique_ptr<RequestSource> NewSource() const;

  // The expected outputs of each step; empty for steps that are not compared.
  const std::vector<std::vector<Tensor>>& expected() const { return expected_; }

  // Creates output regions for `slots` requests in flight, if shared memory is used. Register all regions()
  // with the server before the load, and unregister them after it.
  Status MakeRegions(int slots);
  std::vector<const SharedRegion*> regions() const;

 private:
  friend class CycleSource;
  friend class SequenceSource;

  struct Step {
    InferRequest request;
    size_t index;  // among all steps
  };
  explicit Workload(const WorkloadOptions& options) : options_(options) {}

  const WorkloadOptions options_;
  std::vector<std::vector<Step>> streams_;
  std::vector<LoadRequest> ready_;  // all steps, encoded, if all slots send the same bytes
  std::vector<std::vector<Tensor>> expected_;
  std::vector<std::pair<std::string, size_t>> output_sizes_;
  std::unique_ptr<SharedRegion> input_region_;
  std::vector<std::unique_ptr<SharedRegion>> output_regions_;  // one for each slot
  mutable std::atomic<uint64_t> next_slot_{0};
  mutable Mutex mutex_;
  mutable uint64_t next_sequence_ BRAID_GUARDED_BY(mutex_) = 0;
  mutable std::set<uint64_t> running_ BRAID_GUARDED_BY(mutex_);  // ids of sequences in flight
};

}  // namespace braid::load
