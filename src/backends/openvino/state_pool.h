// StatePool: the memory for one state of a model's sequences.
//
// A sequence keeps a state until its next request has run. During that request there are two: one is read,
// one is written. So each step takes a piece of memory and returns another, which the next step of any
// sequence on any instance reuses. When sequences have ended, all but a few returned pieces go back to the
// system.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <openvino/openvino.hpp>

#include "base/mutex.h"
#include "tensor/buffer.h"

namespace braid {

class StatePool : public std::enable_shared_from_this<StatePool> {
 public:
  // Memory and the tensor that writes to it; the tensor grows if its shape is set to a larger one. The piece
  // returns to the pool with the last buffer that it owns, on any thread. It may outlive the model.
  class Piece final : public BufferOwner {
   public:
    ov::Tensor& tensor() { return tensor_; }

   private:
    friend class StatePool;
    explicit Piece(ov::Tensor tensor) : tensor_(std::move(tensor)) {}
    ~Piece() override = default;
    void Destroy() override;

    ov::Tensor tensor_;
    size_t bytes_ = 0;                 // the most that the tensor had
    std::shared_ptr<StatePool> pool_;  // null while the piece is in the pool
  };

  // `shape`: the smallest one if the shape of the state is not known beforehand. `memory`: the memory of
  // pieces, which outlives them; null: the heap.
  static std::shared_ptr<StatePool> Make(const ov::element::Type& element, const ov::Shape& shape,
                                         BufferAllocator* memory = nullptr) {
    return std::shared_ptr<StatePool>(new StatePool(element, shape, memory));
  }
  ~StatePool();

  // Returns a piece without other users, of undefined contents and shape; the caller owns one reference. Any
  // thread. Throws OpenVINO's exceptions.
  Piece* Take();

  // The number of pieces in the pool.
  size_t free_pieces() const;

 private:
  static constexpr size_t kKeptPieces = 64;

  StatePool(const ov::element::Type& element, const ov::Shape& shape, BufferAllocator* memory)
      : element_(element), shape_(shape), memory_(memory) {
    free_.reserve(kKeptPieces);
  }
  // Takes back a piece; returns false if the pool does not keep it.
  bool Return(Piece* piece);

  const ov::element::Type element_;
  const ov::Shape shape_;
  BufferAllocator* const memory_;
  mutable Mutex mutex_;  // a leaf lock
  std::vector<Piece*> free_ BRAID_GUARDED_BY(mutex_);
  size_t free_bytes_ BRAID_GUARDED_BY(mutex_) = 0;
};

}  // namespace braid
