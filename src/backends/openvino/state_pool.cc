#include "backends/openvino/state_pool.h"

#include <algorithm>
#include <utility>

#include "backends/openvino/tensor_memory.h"

namespace braid {
namespace {

// The most bytes of free pieces; one piece is always kept, of any size.
constexpr size_t kMostFreeBytes = size_t{16} << 20;

}  // namespace

void StatePool::Piece::Destroy() {
  // Breaks the reference cycle: the pool holds the piece, so the piece must not own the pool.
  const std::shared_ptr<StatePool> pool = std::move(pool_);
  if (!pool->Return(this)) delete this;
}

StatePool::~StatePool() {
  for (Piece* piece : free_) delete piece;
}

StatePool::Piece* StatePool::Take() {
  Piece* piece = nullptr;
  {
    MutexLock lock(mutex_);
    if (!free_.empty()) {
      piece = free_.back();
      free_.pop_back();
      free_bytes_ -= piece->bytes_;
    }
  }
  if (piece == nullptr) piece = new Piece(MakeTensorIn(memory_, element_, shape_));
  piece->ResetReferences();
  piece->pool_ = shared_from_this();
  return piece;
}

bool StatePool::Return(Piece* piece) {
  piece->bytes_ = std::max(piece->bytes_, piece->tensor_.get_byte_size());
  MutexLock lock(mutex_);
  const bool room =
      free_.size() < kKeptPieces && piece->bytes_ <= kMostFreeBytes - std::min(kMostFreeBytes, free_bytes_);
  if (!free_.empty() && !room) return false;
  free_.push_back(piece);
  free_bytes_ += piece->bytes_;
  return true;
}

size_t StatePool::free_pieces() const {
  MutexLock lock(mutex_);
  return free_.size();
}

}  // namespace braid
