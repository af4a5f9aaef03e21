// SerialDelivery: one thread at a time makes the calls that several threads leave.
//
// A thread that takes the turn makes the calls, without the mutex, until none is pending. A thread that finds it
// taken leaves its call and returns. So calls neither overlap nor nest, and keep their order.
//
//   void Responses::Deliver() {
//     MutexLock lock(mutex_);
//     const SerialDelivery::Turn turn(delivery_);
//     if (!turn) return;
//     while (!pending_.empty()) {
//       Response next = std::move(pending_.front());
//       pending_.pop_front();
//       const MutexUnlock unlock(mutex_);
//       sink_.Respond(std::move(next));
//     }
//   }
#pragma once

namespace braid {

// Guarded by its owner's mutex.
class SerialDelivery {
 public:
  // The turn, for the rest of a block, unless a thread has it. Created and destroyed with the mutex held. An
  // exception ends it too.
  class Turn {
   public:
    explicit Turn(SerialDelivery& delivery) : delivery_(delivery.taken_ ? nullptr : &delivery) {
      delivery.taken_ = true;
    }
    ~Turn() {
      if (delivery_ != nullptr) delivery_->taken_ = false;
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    explicit operator bool() const { return delivery_ != nullptr; }

   private:
    SerialDelivery* const delivery_;  // null: another thread has the turn, or this one further up its stack
  };

  // Whether a thread delivers.
  bool taken() const { return taken_; }

 private:
  bool taken_ = false;
};

}  // namespace braid
