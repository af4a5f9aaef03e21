// ControlInputs: the control tensors that the server adds to requests of a sequence, as `control_input` of
// the configuration asks.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "serving/request.h"
#include "tensor/tensor.h"

namespace inference {
class ModelConfig;
}

namespace braid {

class ControlInputs {
 public:
  struct Flags {
    bool start = false;
    bool end = false;
    bool ready = false;
  };

  // REQUIRES: a valid configuration with sequence_batching.
  explicit ControlInputs(const inference::ModelConfig& config);

  // Returns the bytes of the CORRID tensor of a sequence; empty if the model has none. Errors:
  // INVALID_ARGUMENT for an id that the tensor's type cannot hold.
  Result<Buffer> EncodeId(const CorrelationId& id) const;
  // The CORRID bytes of a slot without a sequence: 0 or "".
  const Buffer& no_id() const { return no_id_; }

  size_t count() const { return controls_.size(); }
  // Appends one tensor per control, of shape [1], or [1,1] for a model with a batch dimension.
  void Append(const Flags& flags, const Buffer& id, std::vector<Tensor>& inputs) const;

 private:
  enum class Kind : unsigned char { kStart, kReady, kEnd, kId };
  struct Control {
    Kind kind;
    // The tensor while the flag is not set; without data for kId.
    Tensor tensor;
    Buffer when_set;
  };

  const std::string model_name_;
  std::vector<Control> controls_;
  DataType id_type_ = DataType::kInvalid;  // kInvalid: no CORRID
  std::string id_name_;
  Buffer no_id_;
};

}  // namespace braid
