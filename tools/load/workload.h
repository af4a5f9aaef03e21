// The requests of a load: those of a data set in turn, or sequences of its streams, each ready-made where it can be.
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
  uint64_t ids = 0;           // how many there are before the first one is used again; 0: no end
  int length = 20;            // of sequences, where the data set does not have streams of its own
  double variation = 20;      // percent by which lengths differ
  bool length_given = false;  // `length` holds for streams of the data set, too
};

struct WorkloadOptions {
  Encoding encoding;
  InferRequest request;  // model, version, parameters, outputs
  SequenceOptions sequences;
  bool shared_memory = false;
  size_t output_bytes = 102400;  // room for an output whose size the metadata does not tell
};

// Immutable but for the sequence ids; any thread.
class Workload {
 public:
  // Errors: shared memory cannot be had.
  static Result<std::unique_ptr<Workload>> Make(const WorkloadOptions& options, const ModelInfo& model,
                                                DataSet data, int64_t batch);

  // What one more slot sends. Outlived by the workload.
  std::unique_ptr<RequestSource> NewSource() const;

  // The outputs that each step has to be answered with; empty where they are not compared.
  const std::vector<std::vector<Tensor>>& expected() const { return expected_; }

  // Shared memory that the server has to be told of before the load and after it. With `slots` requests in flight.
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
  std::vector<LoadRequest> ready_;  // all steps, encoded, where slots send the same
  std::vector<std::vector<Tensor>> expected_;
  std::vector<std::pair<std::string, size_t>> output_sizes_;
  std::unique_ptr<SharedRegion> input_region_;
  std::vector<std::unique_ptr<SharedRegion>> output_regions_;  // one for each slot
  mutable std::atomic<uint64_t> next_slot_{0};
  mutable Mutex mutex_;
  mutable uint64_t next_sequence_ BRAID_GUARDED_BY(mutex_) = 0;
  mutable std::set<uint64_t> running_ BRAID_GUARDED_BY(mutex_);  // ids of sequences
};

}  // namespace braid::load
