// Servable: the one interface that a protocol sees. A scheduled model, an ensemble, a pipeline and a graph
// are servables.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/gate.h"
#include "base/status.h"
#include "serving/api_counters.h"
#include "serving/input_limit.h"
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

// Whose texts, codes and metadata a servable answers with; its origin decides (see docs/architecture.md).
enum class Dialect : unsigned char { kTriton, kOvms };

// How large a dimension may be; a `max` of -1 is any size from `min` on.
struct DimensionRange {
  int64_t min = 0;
  int64_t max = -1;
  bool operator==(const DimensionRange&) const = default;
};

struct TensorSpec {
  std::string name;
  DataType type = DataType::kInvalid;
  // As a client sees it, batch dimension included when there is one; -1 is any size.
  Shape shape;
  bool optional = false;
  bool allow_ragged_batch = false;
  // For classification, one label a line in the model's label file.
  std::vector<std::string> labels;
  // How the model sees it, where that is another shape of the same elements (`reshape`).
  std::optional<Shape> model_shape = {};
  // What the dimensions that are -1 in `shape` may be, one for each dimension; empty when any size is right.
  std::vector<DimensionRange> ranges = {};
  // The order of dimensions in the client's tensors ("NHWC", "N...", "..."); empty where nothing is known of
  // it.
  std::string layout = {};
};

// What is known of a servable once it is loaded; constant after construction.
struct ServableInfo {
  std::string name;
  int64_t version = 1;
  ServableKind kind = ServableKind::kModel;
  Dialect dialect = Dialect::kTriton;
  // The "platform" of metadata: platform of the configuration, else its backend.
  std::string platform;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  // What the states of a new sequence are, one for each `state` of the configuration, as the model sees it.
  std::vector<Tensor> initial_states;
  int64_t max_batch_size = 0;  // 0: no batch dimension
  bool decoupled = false;
  // Its user code, or that of a servable behind it, may ask other servables and wait for them.
  bool makes_calls = false;
  int instance_count = 1;
  // Takes inputs that lie on a GPU (Buffer::on_device()); leaves outputs there for requests that allow it.
  bool device_inputs = false;
  bool device_outputs = false;
  // How many of its executions the device runs beside each other; 0: not known.
  int stream_count = 0;
  // The normalised configuration; null where the origin has none. Shared with the backend that runs it.
  std::shared_ptr<const inference::ModelConfig> config;
  // What each instance runs before the version is ready.
  std::vector<WarmupSample> warmup;
  // Its batch size or shapes follow the requests ("auto" in a config.json).
  bool automatic_shape = false;
  // Set for stateful models of a config.json.
  std::optional<StatefulSpec> stateful = {};
  // See SequenceKeeper::identity(). Set by the repository, where sequences may be saved.
  std::string sequence_identity = {};
  // Extra labels on the metrics of this model.
  std::vector<std::pair<std::string, std::string>> metric_tags;

  const TensorSpec* FindInput(std::string_view name) const;
  const TensorSpec* FindOutput(std::string_view name) const;
};

// A servable as another one asks for it: by its name; a version of -1 is the highest that is ready.
struct ServableUse {
  std::string name;
  int64_t version = -1;
  auto operator<=>(const ServableUse&) const = default;
};

// Whether a servable can answer now. `reason` says why not, e.g. that an instance is being restarted.
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
  // The servables that stand behind it: those of an ensemble's steps, of a pipeline's nodes, of the sessions
  // of a graph. Always the same ones; whether they serve is another question.
  virtual std::vector<ServableUse> uses() const { return {}; }
  ModelStatistics& statistics() { return statistics_; }
  const ModelStatistics& statistics() const { return statistics_; }
  ApiCounters& api_counters() { return api_counters_; }
  const ApiCounters& api_counters() const { return api_counters_; }
  // Requests pass the gate by ServableHandle; closing it starts the drain.
  Gate& gate() { return gate_; }

  // Where a protocol puts the bytes of inputs, so that nobody has to copy them again.
  virtual BufferAllocator& input_allocator() = 0;

  // Checks and runs a request; never blocks. All results, errors too, arrive at the request's sink, perhaps
  // before this returns. REQUIRES: request->sink is set, request->servable holds this servable. To be called
  // by Begin() alone.
  virtual void Infer(std::unique_ptr<InferenceRequest> request) = 0;

  // Infer() within a guard, which is how a request is begun: what it throws ends the request with an error. A request that
  // has a preparation takes that first.
  void Begin(std::unique_ptr<InferenceRequest> request) noexcept;

  // For all of its clients' requests together; outlives it. Null: none. Before the first request.
  void set_input_limit(const InputLimit* limit) { input_limit_ = limit; }
  // To be asked for a client's request before it is begun. Errors: RESOURCE_EXHAUSTED, where the requests of
  // others have so many bytes of inputs that this one does not fit. REQUIRES: as for Infer().
  Status Admit(InferenceRequest& request);

  // Whether a client's stream to it is one conversation (OpenStream()); else each of its messages is a
  // request of its own.
  virtual bool takes_streams() const { return false; }
  // Begins a conversation; `first` has what its first message says (model name, parameters), and a handle
  // that the stream takes over. Its inputs are to be pushed as those of every later message. `sink` outlives
  // the stream's End(). Errors: why there is no such conversation; the sink is not called then. Does not
  // block.
  virtual Result<std::shared_ptr<ServableStream>> OpenStream(InferenceRequest& first, StreamSink& sink);

  // May be asked often; does not block.
  virtual Readiness readiness() const = 0;

  // As readiness(), and asks user code that has a say in it (a model's is_ready()). Does not block: `done` is
  // called once, perhaps before this returns, perhaps seconds later on any thread.
  virtual void CheckReadiness(std::function<void(Readiness)> done) { done(readiness()); }

  // Its sequences; null for servables that keep nothing between requests. Lives as long as the servable.
  virtual SequenceKeeper* sequences() { return nullptr; }
  // Whether clients name sequences to it: it is a stateful model, or asks one on their behalf.
  virtual bool has_sequences() const { return info_.stateful.has_value(); }
  // Ends a sequence in it and in what it asks, if there is one. For who has begun it for a request that then
  // failed. Any thread, without locks; does not block.
  virtual void DropSequence(const CorrelationId& id);
  // Appends what takes back the next request of a sequence, in it and in what it asks, as far as that can be
  // done (SequenceKeeper::Mark()). Any thread, without locks; does not block.
  virtual void MarkSequence(const CorrelationId& id, std::vector<TakeBackSteps>& marks);

  // What it is made of, with what each part has done; nothing for one that is a whole. Any thread; does not block.
  virtual std::optional<ServableStructure> structure() const { return std::nullopt; }
  // What runs it; empty where there is nothing to tell apart. Any thread; does not block.
  virtual std::vector<InstanceReport> instances() const { return {}; }

  // Requests accepted and not yet running, for the pending gauge.
  virtual int64_t pending_requests() const { return 0; }

  // Ends what runs the servable: instances are finalized and gone when this returns, or at the deadline
  // (SteadyNowNs() time) are ended by force. Blocks; called once, by the repository, after the gate is
  // closed. Requests that are still inside at the deadline fail with UNAVAILABLE.
  virtual void Stop(int64_t deadline_ns) = 0;

 protected:
  ServableInfo info_;
  ModelStatistics statistics_;

 private:
  ApiCounters api_counters_;
  const InputLimit* input_limit_ = nullptr;
  std::atomic<int64_t> input_bytes_{0};
  Gate gate_;
};

// A place inside a servable's gate, with a share in the servable. While one exists, the servable is not
// stopped.
class ServableHandle {
 public:
  // Null when the servable has closed its gate.
  static std::unique_ptr<ServableHandle> Enter(std::shared_ptr<Servable> servable);
  // One more place, also when the gate has been closed since this one was given.
  std::unique_ptr<ServableHandle> Another() const {
    servable_->gate().EnterAgain();
    return std::unique_ptr<ServableHandle>(new ServableHandle(servable_));
  }
  ~ServableHandle() { servable_->gate().Leave(); }
  ServableHandle(const ServableHandle&) = delete;
  ServableHandle& operator=(const ServableHandle&) = delete;

  Servable& get() const { return *servable_; }
  Servable* operator->() const { return servable_.get(); }
  // For who needs the object, but no place: it may be stopped meanwhile.
  const std::shared_ptr<Servable>& share() const { return servable_; }

 private:
  explicit ServableHandle(std::shared_ptr<Servable> servable) : servable_(std::move(servable)) {}
  std::shared_ptr<Servable> servable_;
};

}  // namespace braid
