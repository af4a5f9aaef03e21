// Servable: the interface through which protocols run inference. Scheduled models, ensembles, pipelines and
// graphs implement it.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/gate.h"
#include "base/status.h"
#include "serving/api_counters.h"
#include "serving/input_limit.h"
#include "serving/openai_convention.h"
#include "serving/request.h"
#include "serving/sequences.h"
#include "serving/servable_stream.h"
#include "serving/statistics.h"
#include "serving/structure.h"
#include "serving/warmup.h"
#include "tensor/buffer.h"
#include "tensor/data_type.h"
#include "tensor/shape.h"

namespace inference {
class ModelConfig;
}

namespace braid {

enum class ServableKind : unsigned char { kModel, kEnsemble, kPipeline, kGraph };

// Selects the texts, codes and metadata of answers, by the servable's origin (see docs/architecture.md).
enum class Dialect : unsigned char { kTriton, kOvms };

// The sizes allowed for a dimension; a `max` of -1 means no upper limit.
struct DimensionRange {
  int64_t min = 0;
  int64_t max = -1;
  bool operator==(const DimensionRange&) const = default;
};

struct TensorSpec {
  std::string name;
  DataType type = DataType::kInvalid;
  // The shape that clients see, with the batch dimension if there is one; -1 is any size.
  Shape shape;
  bool optional = false;
  bool allow_ragged_batch = false;
  // For classification: the model's label file, one label per line.
  std::vector<std::string> labels;
  // The shape that the model sees, if it differs (`reshape`).
  std::optional<Shape> model_shape = {};
  // The sizes allowed for each -1 in `shape`, one entry per dimension; empty when any size is allowed.
  std::vector<DimensionRange> ranges = {};
  // The order of dimensions in the client's tensors ("NHWC", "N...", "..."); empty if unknown.
  std::string layout = {};
};

// The description of a loaded servable. Constant after construction.
struct ServableInfo {
  std::string name;
  int64_t version = 1;
  ServableKind kind = ServableKind::kModel;
  Dialect dialect = Dialect::kTriton;
  // The "platform" of metadata: the configuration's platform, otherwise its backend.
  std::string platform;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  // The states of a new sequence as the model sees them, one for each `state` of the configuration.
  std::vector<Tensor> initial_states;
  int64_t max_batch_size = 0;  // 0: no batch dimension
  bool decoupled = false;
  // Whether it takes inputs and outputs of any name, type and shape; `inputs` and `outputs` are then empty.
  bool any_tensors = false;
  // Whether its user code, or that of a dependency, may call other servables and wait for them.
  bool makes_calls = false;
  int instance_count = 1;
  // Whether it accepts inputs on a GPU (Buffer::on_device()), and leaves outputs there for requests that
  // allow it.
  bool device_inputs = false;
  bool device_outputs = false;
  OpenAiConvention openai = {};
  // Number of executions that the device runs concurrently; 0: unknown.
  int stream_count = 0;
  // The normalised configuration, shared with the backend; null where the origin has none.
  std::shared_ptr<const inference::ModelConfig> config;
  // Requests that each instance runs before the version is ready.
  std::vector<WarmupSample> warmup;
  // Whether its batch size or shapes follow the requests ("auto" in a config.json).
  bool automatic_shape = false;
  // Set for stateful models of a config.json.
  std::optional<StatefulSpec> stateful = {};
  // See SequenceKeeper::identity(). Set by the repository if sequences may be saved.
  std::string sequence_identity = {};
  // Extra labels for the metrics of this model.
  std::vector<std::pair<std::string, std::string>> metric_tags;

  const TensorSpec* FindInput(std::string_view name) const;
  const TensorSpec* FindOutput(std::string_view name) const;
};

// A servable's reference to a dependency; version -1 is the highest ready one.
struct ServableUse {
  std::string name;
  int64_t version = -1;
  auto operator<=>(const ServableUse&) const = default;
};

// Whether a servable can answer now; if not, `reason` says why, e.g. that an instance is restarting.
struct Readiness {
  bool ready = true;
  std::string reason;
};

class Servable {
 public:
  Servable(ServableInfo info) : info_(std::move(info)) {}  // NOLINT: implicit is of no harm here
  virtual ~Servable() = default;
  Servable(const Servable&) = delete;
  Servable& operator=(const Servable&) = delete;

  const ServableInfo& info() const { return info_; }
  // When it was made: WallNowMs().
  int64_t made_ms() const { return made_ms_; }
  // Returns its dependencies: the servables of an ensemble's steps, a pipeline's nodes or a graph's sessions.
  // The list never changes, even if they do not serve.
  virtual std::vector<ServableUse> uses() const { return {}; }
  ModelStatistics& statistics() { return statistics_; }
  const ModelStatistics& statistics() const { return statistics_; }
  ApiCounters& api_counters() { return api_counters_; }
  const ApiCounters& api_counters() const { return api_counters_; }
  // ServableHandle enters the gate for each request; closing the gate starts the drain.
  Gate& gate() { return gate_; }

  // Keeps files that its processes may read at any time, such as the copy of files in an object store.
  // Called before it is served.
  void KeepFiles(std::shared_ptr<const void> files) { files_ = std::move(files); }
  // Called after Stop(). Others may still refer to it, for example in an older catalog.
  void ReleaseFiles() { files_.reset(); }

  // The allocator for the bytes of inputs, so that they need no further copy.
  virtual BufferAllocator& input_allocator() = 0;

  // Checks and runs a request; never blocks. All results, including errors, go to the request's sink, perhaps
  // before this returns. REQUIRES: request->sink is set, and request->servable holds this servable. Called
  // only by Begin().
  virtual void Infer(std::unique_ptr<InferenceRequest> request) = 0;

  // Begins a request: runs its preparation if it has one, otherwise calls Infer(). An exception ends the
  // request with an error.
  void Begin(std::unique_ptr<InferenceRequest> request) noexcept;

  // Sets the limit on all of its clients' requests together; null: none. The limit outlives the servable.
  // REQUIRES: no request has arrived yet.
  void set_input_limit(const InputLimit* limit) { input_limit_ = limit; }
  // Admits a client's request; called before Begin(). Errors: RESOURCE_EXHAUSTED if its input bytes exceed
  // the limit together with those of other requests. REQUIRES: as for Infer().
  Status Admit(InferenceRequest& request);

  // Whether a client's stream is one conversation (OpenStream()). Otherwise each of its messages is a
  // separate request.
  virtual bool takes_streams() const { return false; }
  // Begins a conversation. `first` has the first message's model name and parameters, and a handle that the
  // stream takes over. The caller pushes the inputs of the first message like those of later ones. `sink`
  // outlives the stream's End(). Errors: the reason why no conversation begins; `sink` is not called then.
  // Does not block.
  virtual Result<std::shared_ptr<ServableStream>> OpenStream(InferenceRequest& first, StreamSink& sink);

  // Cheap; does not block.
  virtual Readiness readiness() const = 0;

  // As readiness(), and also asks user code with a readiness check (a model's is_ready()). Does not block.
  // Calls `done` once, perhaps before this returns, perhaps seconds later on any thread.
  virtual void CheckReadiness(std::function<void(Readiness)> done) { done(readiness()); }

  // Its sequences; null for servables without state between requests. Lives as long as the servable.
  virtual SequenceKeeper* sequences() { return nullptr; }
  // Whether clients name sequences to it: it is a stateful model or depends on one.
  virtual bool has_sequences() const { return info_.stateful.has_value(); }
  // Ends a sequence in it and in its dependencies, if it exists. Used to undo a start after the request
  // failed. Any thread, no lock is held; does not block.
  virtual void DropSequence(const CorrelationId& id);
  // Appends an undo for the next request of a sequence, in it and in its dependencies, where supported
  // (SequenceKeeper::Mark()). Any thread, no lock is held; does not block.
  virtual void MarkSequence(const CorrelationId& id, std::vector<TakeBackSteps>& marks);

  // Returns its parts with their counters; nullopt if it has no parts. Any thread; does not block.
  virtual std::optional<ServableStructure> structure() const { return std::nullopt; }
  // Returns its instances; empty if they cannot be told apart. Any thread; does not block.
  virtual std::vector<InstanceReport> instances() const { return {}; }
  // Returns the process from which its instances are forked; nullopt without one. Any thread; does not block.
  virtual std::optional<InstanceReport> instance_template() const { return std::nullopt; }

  // Returns the requests that are accepted and not yet running, for the pending gauge.
  virtual int64_t pending_requests() const { return 0; }

  // Stops the servable. Instances are finalized and destroyed when this returns; at the deadline
  // (SteadyNowNs()) they are killed, and requests still in flight fail with UNAVAILABLE. Blocks. REQUIRES:
  // called once, by the repository, after the gate is closed.
  virtual void Stop(int64_t deadline_ns) = 0;

 protected:
  ServableInfo info_;
  ModelStatistics statistics_;

 private:
  const int64_t made_ms_ = WallNowMs();
  ApiCounters api_counters_;
  std::shared_ptr<const void> files_;
  const InputLimit* input_limit_ = nullptr;
  std::atomic<int64_t> input_bytes_{0};
  Gate gate_;
};

// An entry into a servable's gate, with shared ownership of the servable. The servable is not stopped while a
// handle exists.
class ServableHandle {
 public:
  // Returns null if the servable's gate is closed.
  static std::unique_ptr<ServableHandle> Enter(std::shared_ptr<Servable> servable);
  // Returns one more handle, even if the gate has been closed since.
  std::unique_ptr<ServableHandle> Another() const {
    servable_->gate().EnterAgain();
    return std::unique_ptr<ServableHandle>(new ServableHandle(servable_));
  }
  ~ServableHandle() { servable_->gate().Leave(); }
  ServableHandle(const ServableHandle&) = delete;
  ServableHandle& operator=(const ServableHandle&) = delete;

  Servable& get() const { return *servable_; }
  Servable* operator->() const { return servable_.get(); }
  // Shares ownership without holding the gate: the servable may be stopped meanwhile.
  const std::shared_ptr<Servable>& share() const { return servable_; }

 private:
  explicit ServableHandle(std::shared_ptr<Servable> servable) : servable_(std::move(servable)) {}
  std::shared_ptr<Servable> servable_;
};

}  // namespace braid
