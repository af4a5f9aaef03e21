// StatePool: the memory of one state of a model's sequences.
//
// A sequence keeps a state until its next request has run, and while that runs there are two: what it reads
// and what it writes. So with every step a sequence takes a piece of memory and gives one back, which the
// next step takes, of whatever sequence and on whatever instance. What comes back and is not taken soon (the
// sequences have ended) goes back to the system, but for a few.
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
  // Memory and the tensor that writes to it, which grows if its shape is set to a larger one. It comes back
  // to the pool with the last buffer that has it as its owner, on any thread; it may outlive the model.
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
    std::shared_ptr<StatePool> pool_;  // null while it lies in the pool
  };

  // `shape`: of a state whose shape is not known beforehand, the smallest.
  // `memory`: where pieces lie, which outlives them; null: the heap.
  static std::shared_ptr<StatePool> Make(const ov::element::Type& element, const ov::Shape& shape,
                                         BufferAllocator* memory = nullptr) {
    return std::shared_ptr<StatePool>(new StatePool(element, shape, memory));
  }
  ~StatePool();

  // A piece that nobody reads or writes, of undefined contents and shape; the caller has one reference. Any
  // thread. Throws what OpenVINO throws.
  Piece* Take();

  // How many pieces lie in the pool.
  size_t free_pieces() const;

 private:
  static constexpr size_t kKeptPieces = 64;

  StatePool(const ov::element::Type& element, const ov::Shape& shape, BufferAllocator* memory)
      : element_(element), shape_(shape), memory_(memory) {
    free_.reserve(kKeptPieces);
  }
  // Whether the pool keeps it.
  bool Return(Piece* piece);

  const ov::element::Type element_;
  const ov::Shape shape_;
  BufferAllocator* const memory_;
  mutable Mutex mutex_;  // a leaf lock
  std::vector<Piece*> free_ BRAID_GUARDED_BY(mutex_);
  size_t free_bytes_ BRAID_GUARDED_BY(mutex_) = 0;
};

}  // namespace braid
