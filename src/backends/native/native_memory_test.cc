#include "backends/native/native_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tensor/shared_bytes.h"
#include "workers/worker_memory.h"

namespace braid {
namespace {

constexpr size_t kLarge = size_t{1} << 20;

// A server and a native worker, in one process.
class NativeMemoryTest : public testing::Test {
 protected:
  NativeMemoryTest() {
    Channel::WorkerEnd end;
    server_ = Channel::CreateServerEnd({}, end).value();
    worker_ = Channel::OpenWorkerEnd(std::move(end)).value();
    server_memory_ = std::make_shared<WorkerMemory>(server_, arena_);
    memory_ = std::make_unique<NativeMemory>(*worker_);
    memory_->Configure(0);
  }
  ~NativeMemoryTest() override { server_memory_->Abandon(); }

  // Plays the worker's thread that takes segments.
  void TakeSegments() {
    for (auto segment = worker_->ReceiveSegment(false).value(); segment != nullptr;
         segment = worker_->ReceiveSegment(false).value())
      memory_->AddSegment(segment);
  }
  // Lends an input of the server; returns the message for the worker.
  TensorMessage Lend(const Buffer& buffer) {
    TensorMessage tensor;
    WorkerMemory::Loan loan(*server_memory_);
    EXPECT_TRUE(loan.Lend(buffer, false, tensor).ok());
    loan.Keep();
    TakeSegments();
    return tensor;
  }
  Buffer InputOf(size_t size, char value) {
    Buffer buffer = arena_.Allocate(size).value();
    std::memset(buffer.mutable_data(), value, size);
    return buffer;
  }
  Buffer OutputOf(size_t size, char value) {
    Buffer buffer = memory_->outputs().Allocate(size).value();
    std::memset(buffer.mutable_data(), value, size);
    return buffer;
  }
  TensorMessage Place(const Buffer& buffer, bool part = false) {
    TensorMessage tensor;
    const Status placed = memory_->Place(buffer, part, tensor);
    EXPECT_TRUE(placed.ok()) << placed;
    return tensor;
  }
  Buffer AsServer(const TensorMessage& tensor) {
    WorkerMemory::Returned returned;
    return server_memory_->Take(tensor, returned).value();
  }
  // Plays the worker's reading thread.
  void Hear() {
    std::vector<std::byte> message;
    while (worker_->Receive(message, 0) == Channel::Outcome::kMessage) {
      if (TypeOf(message) != MessageType::kRelease) continue;
      EXPECT_TRUE(memory_->OnRelease(message));
    }
  }

  SegmentIds ids_;
  Arena arena_{ids_, Arena::Options()};
  std::shared_ptr<Channel> server_;
  std::unique_ptr<Channel> worker_;
  std::shared_ptr<WorkerMemory> server_memory_;
  std::unique_ptr<NativeMemory> memory_;
};

TEST_F(NativeMemoryTest, AnInputIsReadWhereItLies) {
  Buffer input = InputOf(kLarge, 'x');
  const Buffer seen = memory_->Take(Lend(input)).value();
  ASSERT_EQ(seen.size(), kLarge);
  EXPECT_EQ(seen.text(), std::string(kLarge, 'x'));
  input.mutable_data()[5] = std::byte{'y'};
  EXPECT_EQ(seen.text()[5], 'y') << "it is the same memory";
  EXPECT_NE(OutOfReach(seen).value().data(), seen.data())
      << "others can change it, so what is parsed is copied";
}

TEST_F(NativeMemoryTest, AnInputGoesBackWithTheLastShareInIt) {
  const Buffer input = InputOf(kLarge, 'x');
  Buffer seen = memory_->Take(Lend(input)).value();
  Buffer part = seen.Slice(10, 20);
  seen = {};
  EXPECT_TRUE(memory_->TakeReleases().empty());
  part = {};
  const std::vector<MemoryHandle> released = memory_->TakeReleases();
  ASSERT_EQ(released.size(), 1u);
  EXPECT_TRUE(server_memory_->OnRelease({released}).ok());
  EXPECT_FALSE(server_memory_->OnRelease({released}).ok()) << "once";
  EXPECT_TRUE(memory_->TakeReleases().empty());
}

TEST_F(NativeMemoryTest, WhatTheServerHasNotLentIsNoInput) {
  const TensorMessage lent = Lend(InputOf(kLarge, 'x'));
  TensorMessage wrong = lent;
  wrong.handle.size = kLarge * 2;
  EXPECT_EQ(memory_->Take(wrong).status().code(), StatusCode::kInvalidArgument);
  wrong = lent;
  wrong.place = Place::kReceiverMemory;
  EXPECT_EQ(memory_->Take(wrong).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(NativeMemoryTest, AnOutputGoesToTheServerAsItIs) {
  Buffer output = OutputOf(kLarge, 'x');
  const std::byte* const data = output.data();
  TensorMessage tensor = Place(output);
  EXPECT_EQ(tensor.place, Place::kSenderMemory);
  Buffer seen = AsServer(tensor);
  EXPECT_EQ(seen.text(), std::string(kLarge, 'x'));
  output.mutable_data()[3] = std::byte{'y'};
  EXPECT_EQ(seen.text()[3], 'y') << "it is the same memory";

  output = {};
  EXPECT_NE(OutputOf(kLarge, 'z').data(), data) << "the server holds it";
  seen = {};
  Hear();
  EXPECT_EQ(OutputOf(kLarge, 'z').data(), data) << "it has been given back";
}

TEST_F(NativeMemoryTest, AnOutputThatSomebodyElseOwnsIsFoundByItsPlace) {
  class Owner final : public BufferOwner {
   public:
    explicit Owner(Buffer inner) : inner_(std::move(inner)) {}
    const Buffer inner_;
  };
  Buffer inner = OutputOf(kLarge, 'x');
  const std::byte* const data = inner.data();
  std::memset(inner.mutable_data(), 'x', kLarge);
  std::byte* const start = inner.mutable_data();
  Buffer output(start, kLarge - 4096, new Owner(std::move(inner)));
  const TensorMessage tensor = Place(output);
  output = {};
  const Buffer seen = AsServer(tensor);
  EXPECT_EQ(seen.text(), std::string(kLarge - 4096, 'x'));
  EXPECT_EQ(seen.data()[kLarge - 4096], std::byte{0}) << "what an earlier tensor left behind it is not shown";
  EXPECT_NE(OutputOf(kLarge, 'z').data(), data) << "the server holds it";
}

TEST_F(NativeMemoryTest, SmallOutputsAndThoseFromElsewhereAreCopied) {
  HeapAllocator heap;
  Buffer small = heap.Allocate(100).value();
  std::memset(small.mutable_data(), 's', 100);
  EXPECT_EQ(Place(small).place, Place::kInline);
  Buffer large = heap.Allocate(kLarge).value();
  std::memset(large.mutable_data(), 'l', kLarge);
  EXPECT_EQ(AsServer(Place(large)).text(), std::string(kLarge, 'l'));
}

TEST_F(NativeMemoryTest, PartsOfOneBlockAreLentEachByItself) {
  Buffer whole = OutputOf(kLarge, 'x');
  Buffer first = AsServer(Place(whole.Slice(0, kLarge / 2), true));
  Buffer second = AsServer(Place(whole.Slice(kLarge / 2, kLarge / 2), true));
  // A second owner of the same bytes.
  Buffer again = AsServer(Place(whole.Slice(kLarge / 2, kLarge / 2), true));
  const std::byte* const data = whole.data();
  whole = {};
  first = {};
  second = {};
  Hear();
  EXPECT_NE(OutputOf(kLarge, 'z').data(), data) << "the server holds a part of it";
  again = {};
  Hear();
  EXPECT_EQ(OutputOf(kLarge, 'z').data(), data);
}

TEST_F(NativeMemoryTest, APartThatLooksAloneIsNotShownWithWhatIsBehindIt) {
  Buffer whole = OutputOf(kLarge, 'x');
  const Buffer most = AsServer(Place(whole.Slice(0, kLarge - 4096), true));
  EXPECT_EQ(most.text(), std::string(kLarge - 4096, 'x'));
  EXPECT_EQ(most.data()[kLarge - 4096], std::byte{0}) << "the next request's rows";
}

TEST_F(NativeMemoryTest, IdleMemoryGoesBackAndTheServerHearsOfIt) {
  { const Buffer seen = AsServer(Place(OutputOf(kLarge, 'x'))); }
  EXPECT_TRUE(memory_->has_to_trim());
  Hear();
  EXPECT_TRUE(memory_->has_to_trim()) << "it keeps nothing";
}

}  // namespace
}  // namespace braid
