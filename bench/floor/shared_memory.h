// The memory that the floor's server and its Python worker share: two channels, and a slot for each call.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace braid::floor {

constexpr uint32_t kSlots = 512;
constexpr uint32_t kNoSlot = ~uint32_t{0};
constexpr size_t kTensors = 2;
constexpr size_t kTensorBytes = size_t{16} << 20;                  // of one tensor, at most
constexpr size_t kSlotBytes = 2 * kTensors * kTensorBytes + 4096;  // only touched pages take memory
constexpr uint32_t kReaderAwake = 0;
constexpr uint32_t kReaderSleeps = 1;

// Slot numbers from one writer to one reader. A reader that sleeps says so in `reader`.
struct Channel {
  alignas(64) std::atomic<uint32_t> written;
  alignas(64) std::atomic<uint32_t> reader;
  alignas(64) uint32_t slots[kSlots];

  // Adds a slot. Returns whether the caller has to wake the reader.
  bool Push(uint32_t slot) {
    const uint32_t at = written.load(std::memory_order_relaxed);
    slots[at % kSlots] = slot;
    written.store(at + 1, std::memory_order_seq_cst);
    return reader.load(std::memory_order_seq_cst) == kReaderSleeps &&
           reader.exchange(kReaderAwake) == kReaderSleeps;
  }

  // Says that the reader is about to sleep. Returns false if a slot came meanwhile.
  bool PrepareSleep(uint32_t read) {
    reader.store(kReaderSleeps, std::memory_order_seq_cst);
    if (written.load(std::memory_order_seq_cst) == read) return true;
    reader.store(kReaderAwake, std::memory_order_relaxed);
    return false;
  }

  void SleepOnFutex() { syscall(SYS_futex, &reader, FUTEX_WAIT, kReaderSleeps, nullptr, nullptr, 0); }
  void WakeFutex() { syscall(SYS_futex, &reader, FUTEX_WAKE, 1, nullptr, nullptr, 0); }
};

struct Tensor {
  uint64_t at;  // in the slot's memory
  uint64_t bytes;
};

struct Call {
  uint64_t input_count;
  uint64_t output_count;
  Tensor inputs[kTensors];
  Tensor outputs[kTensors];
};

struct Shared {
  Channel requests;
  Channel answers;
  Call calls[kSlots];

  char* Memory(uint32_t slot) {
    constexpr size_t kHead = (sizeof(Channel) * 2 + sizeof(Call) * kSlots + 4095) & ~size_t{4095};
    return reinterpret_cast<char*>(this) + kHead + slot * kSlotBytes;
  }
};

constexpr size_t kSharedBytes = ((sizeof(Shared) + 4095) & ~size_t{4095}) + kSlots * kSlotBytes;

constexpr uint64_t Aligned(uint64_t at) { return (at + 63) & ~uint64_t{63}; }

}  // namespace braid::floor
