// OutputBinding: the memory of an infer request's outputs, which become responses without a copy.
//
// Each inference writes to memory that has no other user: while a client holds an output, the next inference
// gets another piece. Returned pieces are reused. Sequences hold states for long, so all instances share the
// memory of states; small states are copied there.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <openvino/openvino.hpp>

#include "backends/openvino/compiled_facts.h"
#include "backends/openvino/state_pool.h"
#include "base/status.h"
#include "scheduling/instance.h"
#include "tensor/buffer.h"

namespace braid {

class OutputBinding {
 public:
  // `facts`, `request` and the states' `pools` outlive the binding. One thread at a time.
  OutputBinding(const CompiledFacts& facts, const std::vector<std::shared_ptr<StatePool>>& pools,
                ov::InferRequest& request);

  // Binds memory before an inference. Throws OpenVINO's exceptions. Errors: an allocation failed.
  Status Prepare();
  // Returns the outputs after an inference, one list for each request of `execution`. Copies strings only.
  // Throws OpenVINO's exceptions. Errors: outputs that cannot be divided among the requests.
  Result<std::vector<std::vector<Tensor>>> Collect(const Execution& execution);

 private:
  // Memory and the tensor that writes to it. If the shape of the output is not known beforehand, the tensor
  // owns the memory, and the buffer holds the tensor.
  struct Piece {
    Buffer memory;
    ov::Tensor tensor;
  };
  struct Port {
    std::vector<Piece> pieces;
    size_t bound = SIZE_MAX;  // the piece bound to the infer request
    size_t most_pieces = 1;
    StatePool* pool = nullptr;  // the pool, if the output is a state
  };

  Result<Piece> MakePiece(size_t index) const;
  Result<Tensor> Take(size_t index);
  Tensor TakeState(size_t index);
  Tensor CopyState(size_t index);

  const CompiledFacts& facts_;
  ov::InferRequest& request_;
  std::vector<Port> ports_;
};

}  // namespace braid
