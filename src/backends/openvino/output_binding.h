// OutputBinding: where an infer request writes its outputs, and how they become responses without a copy.
//
// Each inference writes to memory that nobody reads: as long as a client holds an output, the next inference
// gets another piece of memory. Pieces that have come back are used again. States, which sequences hold for
// long, have memory that all instances share; small ones are copied there.
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
  // `facts`, `request` and `pools`, which are those of the states, outlive the binding. One thread at a time.
  OutputBinding(const CompiledFacts& facts, const std::vector<std::shared_ptr<StatePool>>& pools,
                ov::InferRequest& request);

  // Before an inference. Throws what OpenVINO throws. Errors: no memory.
  Status Prepare();
  // After it: the outputs, one list for each request of `execution`. Strings and nothing else are copied.
  // Throws what OpenVINO throws. Errors: outputs that cannot be divided among the requests.
  Result<std::vector<std::vector<Tensor>>> Collect(const Execution& execution);

 private:
  // Memory and the tensor that writes to it. Of an output whose shape is not known beforehand, the tensor
  // owns the memory, and the buffer holds the tensor.
  struct Piece {
    Buffer memory;
    ov::Tensor tensor;
  };
  struct Port {
    std::vector<Piece> pieces;
    size_t bound = SIZE_MAX;  // the piece that the infer request has
    size_t most_pieces = 1;
    StatePool* pool = nullptr;  // of a state
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
