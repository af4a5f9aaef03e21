#include "workers/worker_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <thread>

namespace braid {
namespace {

constexpr size_t kLarge = 200'000;  // has its own segment
constexpr size_t kSmall = 20'000;   // is in a slab with others

ino_t Inode(const Segment& segment) {
  struct stat info {};
  EXPECT_EQ(fstat(segment.fd(), &info), 0);
  return info.st_ino;
}

bool Holds(std::span<const std::byte> bytes, int value) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [&](std::byte b) { return b == static_cast<std::byte>(value); });
}

Buffer Filled(BufferAllocator& allocator, size_t size, int value) {
  Buffer buffer = allocator.Allocate(size).value();
  std::memset(buffer.mutable_data(), value, size);
  return buffer;
}

// The server's side of a model with one worker; the test plays the worker.
class Model {
 public:
  explicit Model(SegmentIds& server_ids) : arena_(server_ids, Arena::Options()) {
    Channel::WorkerEnd end;
    std::shared_ptr<Channel> channel = Channel::CreateServerEnd({}, end).value();
    worker_ = Channel::OpenWorkerEnd(std::move(end)).value();
    memory_ = std::make_shared<WorkerMemory>(std::move(channel), arena_);
  }

  // Abandons the memory, as the instance does when the worker is dead.
  ~Model() {
    if (memory_) memory_->Abandon();
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  Arena& arena() { return arena_; }
  std::shared_ptr<WorkerMemory>& memory() { return memory_; }
  Arena& worker_arena() { return worker_arena_; }

  // As the worker: sends the segment of a block, and names the block or a part of it.
  TensorMessage Name(const Buffer& block) {
    const Segment& segment = *static_cast<SegmentBlock*>(block.owner())->segment();
    EXPECT_TRUE(worker_->SendSegment(segment, segment.id()).ok());
    TensorMessage tensor;
    tensor.place = Place::kSenderMemory;
    tensor.handle = {segment.id(), static_cast<uint64_t>(block.data() - segment.base()), block.size()};
    return tensor;
  }
  // The same for GPU memory, with a file in its place.
  TensorMessage NameOnDevice(uint32_t id, size_t size) {
    const auto segment =
        Segment::OfDevice(id, UniqueFd(memfd_create("device", MFD_CLOEXEC)), size_t{2} << 20, {5}).value();
    EXPECT_TRUE(worker_->SendSegment(*segment, id).ok());
    TensorMessage tensor;
    tensor.type = DataType::kFp32;
    tensor.place = Place::kDeviceMemory;
    tensor.handle = {id, 0, size};
    return tensor;
  }
  Result<Buffer> Take(const TensorMessage& tensor) {
    WorkerMemory::Returned returned;
    return memory_->Take(tensor, returned, true);
  }
  Result<Buffer> TakeOnHost(const TensorMessage& tensor) {
    WorkerMemory::Returned returned;
    return memory_->Take(tensor, returned);
  }
  // Takes an output of the worker, as the server does.
  Buffer Output(const Buffer& block) {
    WorkerMemory::Returned returned;
    return memory_->Take(Name(block), returned).value();
  }
  Result<Buffer> HandBack(const TensorMessage& lent) {
    TensorMessage back = lent;
    back.place = Place::kReceiverMemory;
    return memory_->Take(back, returned_);
  }
  // As the worker: returns the segment of a lent tensor.
  std::shared_ptr<Segment> SegmentOf(const TensorMessage& tensor) {
    return segments_.FindOrReceive(tensor.handle.segment, *worker_).value();
  }
  std::span<const std::byte> Bytes(const TensorMessage& tensor) {
    return {SegmentOf(tensor)->base() + tensor.handle.offset, tensor.handle.size};
  }
  Status Release(const TensorMessage& tensor) { return memory_->OnRelease({{tensor.handle}}); }
  // As the worker: returns the type of the server's next message, if there is one.
  std::optional<MessageType> Hear() {
    if (worker_->Receive(heard_, 0) != Channel::Outcome::kMessage) return std::nullopt;
    return TypeOf(heard_);
  }
  // Whether the worker is notified of returned memory.
  bool HearsRelease() {
    const auto heard = Hear();
    return heard && *heard == MessageType::kRelease;
  }
  uint32_t HeardSegment() const {
    RetireSegmentMessage retired;
    EXPECT_TRUE(Decode(heard_, retired));
    return retired.segment;
  }

 private:
  Arena arena_;
  SegmentIds worker_ids_;
  Arena worker_arena_{worker_ids_, Arena::Options()};
  std::unique_ptr<Channel> worker_;
  std::shared_ptr<WorkerMemory> memory_;
  SegmentMap segments_;
  WorkerMemory::Returned returned_;
  std::vector<std::byte> heard_;
};

Status Lend(Model& model, const Buffer& buffer, bool sole, TensorMessage& tensor) {
  WorkerMemory::Loan loan(*model.memory());
  Status lent = loan.Lend(buffer, sole, tensor);
  loan.Keep();
  return lent;
}

class WorkerMemoryTest : public testing::Test {
 protected:
  TensorMessage LendToB(const Buffer& buffer, bool sole = true) {
    TensorMessage tensor;
    const Status lent = Lend(b_, buffer, sole, tensor);
    EXPECT_TRUE(lent.ok()) << lent.message();
    return tensor;
  }

  SegmentIds ids_;
  Model a_{ids_};
  Model b_{ids_};
};

TEST_F(WorkerMemoryTest, SmallTensorsTravelInsideMessages) {
  const Buffer bytes = CopyToHeap(std::vector<std::byte>(kInlineTensorBytes));
  EXPECT_EQ(LendToB(bytes).place, Place::kInline);
}

TEST_F(WorkerMemoryTest, TheModelsOwnMemoryIsLentAsItIs) {
  for (size_t size : {kSmall, kLarge}) {
    const Buffer buffer = Filled(b_.arena(), size, 5);
    const TensorMessage alone = LendToB(buffer);
    EXPECT_EQ(alone.place, Place::kSenderMemory);
    EXPECT_TRUE(Holds(b_.Bytes(alone), 5));
    const TensorMessage shared = LendToB(buffer, false);
    EXPECT_EQ(shared.place, Place::kSharedMemory);
    EXPECT_EQ(shared.handle.offset, alone.handle.offset);
  }
}

TEST_F(WorkerMemoryTest, MemoryOfAGpuIsHandedOnWhateverItsSize) {
  for (const size_t size : {size_t{4}, kLarge}) {
    Buffer output = a_.Take(a_.NameOnDevice(static_cast<uint32_t>(100 + size), size)).value();
    EXPECT_TRUE(output.on_device());
    EXPECT_EQ(output.size(), size);
    const TensorMessage alone = LendToB(output);
    EXPECT_EQ(alone.place, Place::kDeviceMemory);
    EXPECT_EQ(alone.handle.size, size);
    EXPECT_EQ(b_.SegmentOf(alone)->gpu(), (GpuUuid{5}));
    const TensorMessage shared = LendToB(output, false);
    EXPECT_EQ(shared.place, Place::kSharedDeviceMemory);
    EXPECT_EQ(shared.handle.segment, alone.handle.segment);
    output = {};
    ASSERT_TRUE(b_.Release(alone).ok());
    EXPECT_FALSE(a_.HearsRelease()) << "it is lent once more";
    ASSERT_TRUE(b_.Release(shared).ok());
    EXPECT_TRUE(a_.HearsRelease());
  }
}

TEST_F(WorkerMemoryTest, MemoryOfAGpuComesBackWhenItsReaderIsGone) {
  Buffer output = a_.Take(a_.NameOnDevice(1000, 64)).value();
  LendToB(output);
  output = {};
  EXPECT_FALSE(a_.HearsRelease());
  b_.memory()->Abandon();
  EXPECT_TRUE(a_.HearsRelease());
}

TEST_F(WorkerMemoryTest, WhatIsWrongWithMemoryOfAGpuIsRefused) {
  const auto refused = [&](const TensorMessage& tensor) {
    return a_.Take(tensor).status().code() == StatusCode::kInvalidArgument;
  };
  const TensorMessage good = a_.NameOnDevice(1000, 64);
  TensorMessage wrong = good;
  wrong.handle.size = (size_t{2} << 20) + 1;
  EXPECT_TRUE(refused(wrong));
  wrong = good;
  wrong.handle.offset = 4;
  EXPECT_TRUE(refused(wrong));
  wrong = good;
  wrong.handle.size = 0;
  EXPECT_TRUE(refused(wrong));
  wrong = good;
  wrong.type = DataType::kBytes;
  EXPECT_TRUE(refused(wrong));
  wrong = good;
  wrong.place = Place::kSharedDeviceMemory;
  EXPECT_TRUE(refused(wrong));
  wrong = good;
  wrong.place = Place::kSenderMemory;  // no readable place
  EXPECT_TRUE(refused(wrong));
  wrong = a_.Name(Filled(a_.worker_arena(), kLarge, 1));
  wrong.place = Place::kDeviceMemory;
  EXPECT_TRUE(refused(wrong));
  EXPECT_EQ(a_.TakeOnHost(good).status().message(), "the worker left a tensor on a GPU");
  EXPECT_FALSE(refused(good));
}

TEST_F(WorkerMemoryTest, WhatWasLentIsTakenBackWhenItsMessageIsNotSent) {
  const Buffer kept = Filled(b_.arena(), kSmall, 1);
  const TensorMessage earlier = LendToB(kept);
  const Buffer given = Filled(b_.arena(), kLarge, 2);
  const Buffer copied = CopyToHeap(std::vector<std::byte>(kLarge));
  const auto in_use = [&] {
    const Arena::Usage usage = b_.arena().usage();
    return usage.segment_bytes - usage.idle_bytes;
  };
  const size_t before = in_use();
  {
    WorkerMemory::Loan loan(*b_.memory());
    TensorMessage tensor;
    for (const Buffer* buffer : {&kept, &given, &copied}) ASSERT_TRUE(loan.Lend(*buffer, true, tensor).ok());
    EXPECT_FALSE(given.owner()->unique());
    EXPECT_GT(in_use(), before);
  }
  EXPECT_TRUE(given.owner()->unique());
  EXPECT_EQ(in_use(), before) << "the copy is gone";
  // A loan of another message is not affected.
  EXPECT_FALSE(kept.owner()->unique());
  EXPECT_TRUE(b_.Release(earlier).ok());
  EXPECT_TRUE(kept.owner()->unique());
  EXPECT_FALSE(b_.Release(earlier).ok());
}

TEST_F(WorkerMemoryTest, WhatIsNotInSharedMemoryIsCopiedAndTheWorkersAlone) {
  const Buffer buffer = CopyToHeap(std::vector<std::byte>(kLarge, std::byte{7}));
  const TensorMessage lent = LendToB(buffer, false);
  EXPECT_EQ(lent.place, Place::kSenderMemory);
  EXPECT_TRUE(Holds(b_.Bytes(lent), 7));
}

TEST_F(WorkerMemoryTest, ALargeBlockOfAnotherWorkerGoesAsItIsUnderAnIdOfTheServers) {
  // The worker's first id equals the id of the server's first segment.
  const TensorMessage own = LendToB(Filled(b_.arena(), kLarge, 1));
  const Buffer made = Filled(a_.worker_arena(), kLarge, 2);
  const Segment& segment = *static_cast<SegmentBlock*>(made.owner())->segment();
  ASSERT_EQ(segment.id(), own.handle.segment);
  const TensorMessage lent = LendToB(a_.Output(made));
  EXPECT_EQ(lent.place, Place::kSharedMemory);
  EXPECT_NE(lent.handle.segment, own.handle.segment);
  EXPECT_EQ(Inode(*b_.SegmentOf(lent)), Inode(segment));
  EXPECT_TRUE(Holds(b_.Bytes(lent), 2));
  EXPECT_TRUE(Holds(b_.Bytes(own), 1));
}

TEST_F(WorkerMemoryTest, WhatHasNeighboursIsCopied) {
  const Buffer small = Filled(a_.worker_arena(), kSmall, 1);
  const Buffer large = Filled(a_.worker_arena(), kLarge, 1);
  const Buffer behind = large.Slice(64, kLarge - 64);
  const Buffer before = large.Slice(0, kLarge / 2);
  for (const Buffer& block : {small, behind, before}) {
    const Segment& segment = *static_cast<SegmentBlock*>(block.owner())->segment();
    const TensorMessage lent = LendToB(a_.Output(block));
    EXPECT_EQ(lent.place, Place::kSenderMemory);
    EXPECT_NE(Inode(*b_.SegmentOf(lent)), Inode(segment));
    EXPECT_TRUE(Holds(b_.Bytes(lent), 1));
    // Its maker gets it back at once.
    EXPECT_EQ(a_.Hear(), MessageType::kRelease);
  }
}

TEST_F(WorkerMemoryTest, MemoryOfAnotherModelsArenaIsTreatedAsAWorkers) {
  const TensorMessage small = LendToB(Filled(a_.arena(), kSmall, 3));
  EXPECT_EQ(small.place, Place::kSenderMemory);
  EXPECT_TRUE(Holds(b_.Bytes(small), 3));
  const Buffer buffer = Filled(a_.arena(), kLarge, 4);
  const TensorMessage large = LendToB(buffer);
  EXPECT_EQ(large.place, Place::kSharedMemory);
  EXPECT_EQ(Inode(*b_.SegmentOf(large)), Inode(*static_cast<SegmentBlock*>(buffer.owner())->segment()));
}

TEST_F(WorkerMemoryTest, AWorkersOwnBlockComesBackToItAsAnyOther) {
  const Buffer made = Filled(b_.worker_arena(), kLarge, 6);
  const TensorMessage lent = LendToB(b_.Output(made));
  EXPECT_EQ(lent.place, Place::kSharedMemory);
  EXPECT_TRUE(Holds(b_.Bytes(lent), 6));
}

TEST_F(WorkerMemoryTest, AForeignBlockIsHandedBackWithoutACopy) {
  const Buffer made = Filled(a_.worker_arena(), kLarge, 2);
  Buffer output = a_.Output(made);
  const std::byte* at = output.data();
  const TensorMessage lent = LendToB(output);
  Result<Buffer> back = b_.HandBack(lent);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(back.value().data(), at);
  // Two outputs may be the same input.
  EXPECT_TRUE(b_.HandBack(lent).ok());
  EXPECT_FALSE(b_.Release(lent).ok()) << "it is the server's again";
}

TEST_F(WorkerMemoryTest, ForeignMemoryThatWasNotLentIsNotHandedBack) {
  const Buffer made = Filled(a_.worker_arena(), kLarge, 2);
  const TensorMessage named = a_.Name(made);
  EXPECT_FALSE(b_.HandBack(named).ok());
  TensorMessage shared = named;
  shared.place = Place::kSharedMemory;
  WorkerMemory::Returned returned;
  EXPECT_FALSE(a_.memory()->Take(shared, returned).ok());
}

TEST_F(WorkerMemoryTest, AWorkerIsToldWhenASegmentOfAnotherIsGone) {
  const Buffer made = Filled(a_.worker_arena(), kLarge, 2);
  const uint32_t id = static_cast<SegmentBlock*>(made.owner())->segment()->id();
  const TensorMessage lent = LendToB(a_.Output(made));
  // A worker does not retire a segment in use. If it does, other workers are not affected.
  EXPECT_TRUE(a_.memory()->OnRetire(id).ok());
  EXPECT_EQ(b_.Hear(), std::nullopt);
  EXPECT_TRUE(Holds(b_.Bytes(lent), 2));
  ASSERT_TRUE(b_.Release(lent).ok());
  ASSERT_EQ(b_.Hear(), MessageType::kRetireSegment);
  EXPECT_EQ(b_.HeardSegment(), lent.handle.segment);
  EXPECT_EQ(b_.Hear(), std::nullopt);
}

TEST_F(WorkerMemoryTest, ASegmentIsHandedOverOnceAndAgainAfterItWasRetired) {
  const Buffer made = Filled(a_.worker_arena(), kLarge, 2);
  const uint32_t id = static_cast<SegmentBlock*>(made.owner())->segment()->id();
  const TensorMessage first = LendToB(a_.Output(made));
  const TensorMessage second = LendToB(a_.Output(made));
  EXPECT_EQ(first.handle.segment, second.handle.segment);
  ASSERT_TRUE(b_.Release(first).ok());
  ASSERT_TRUE(b_.Release(second).ok());
  EXPECT_EQ(b_.Hear(), std::nullopt);
  EXPECT_TRUE(a_.memory()->OnRetire(id).ok());
  EXPECT_EQ(b_.Hear(), MessageType::kRetireSegment);
  const TensorMessage third = LendToB(a_.Output(made));
  EXPECT_NE(third.handle.segment, first.handle.segment);
  EXPECT_TRUE(Holds(b_.Bytes(third), 2));
}

TEST_F(WorkerMemoryTest, AMakersDeathLeavesItsBlocksToTheirReaders) {
  TensorMessage lent;
  {
    Model dying(ids_);
    lent = LendToB(dying.Output(Filled(dying.worker_arena(), kLarge, 9)));
    dying.memory()->Abandon();
  }
  EXPECT_TRUE(Holds(b_.Bytes(lent), 9));
  EXPECT_EQ(b_.Hear(), std::nullopt);
  Result<Buffer> back = b_.HandBack(lent);
  ASSERT_TRUE(back.ok());
  EXPECT_TRUE(Holds({back.value().data(), back.value().size()}, 9));
}

TEST_F(WorkerMemoryTest, AReadersDeathGivesTheBlockBackToItsMaker) {
  const Buffer made = Filled(a_.worker_arena(), kLarge, 2);
  Model reader(ids_);
  TensorMessage lent;
  ASSERT_TRUE(Lend(reader, a_.Output(made), true, lent).ok());
  EXPECT_EQ(a_.Hear(), std::nullopt);
  reader.memory()->Abandon();
  EXPECT_EQ(a_.Hear(), MessageType::kRelease);
  EXPECT_TRUE(a_.memory()->OnRetire(static_cast<SegmentBlock*>(made.owner())->segment()->id()).ok());
  EXPECT_EQ(reader.Hear(), std::nullopt);
}

TEST_F(WorkerMemoryTest, ManyThreadsPassBlocksOn) {
  constexpr int kRounds = 50;
  std::vector<Buffer> made;
  std::vector<Buffer> outputs;
  for (int i = 0; i < kRounds; ++i) {
    made.push_back(Filled(a_.worker_arena(), kLarge, 2));
    outputs.push_back(a_.Output(made.back()));
  }
  std::vector<std::unique_ptr<Model>> readers;
  for (int i = 0; i < 3; ++i) readers.push_back(std::make_unique<Model>(ids_));
  std::vector<std::thread> threads;
  for (auto& reader : readers) {
    threads.emplace_back([&reader, mine = outputs]() mutable {
      for (Buffer& output : mine) {
        TensorMessage lent;
        EXPECT_TRUE(Lend(*reader, output, true, lent).ok());
        output = {};
        EXPECT_TRUE(Holds(reader->Bytes(lent), 2));
        EXPECT_TRUE(reader->Release(lent).ok());
      }
    });
  }
  outputs.clear();
  a_.memory()->Abandon();
  a_.memory().reset();
  for (std::thread& thread : threads) thread.join();
  // All segments are gone, and the readers were notified.
  for (auto& reader : readers) {
    int retired = 0;
    while (auto heard = reader->Hear()) retired += *heard == MessageType::kRetireSegment ? 1 : 0;
    EXPECT_EQ(retired, kRounds);
  }
}

TEST(SoleHolder, IsWhoHoldsAllReferencesToDifferentBytes) {
  HeapAllocator heap;
  std::vector<Tensor> inputs(3);
  inputs[0].data = heap.Allocate(4096).value();
  EXPECT_TRUE(IsSoleHolder(inputs, 0));
  {
    const Buffer somebody = inputs[0].data;
    EXPECT_FALSE(IsSoleHolder(inputs, 0));
  }
  const Buffer whole = std::exchange(inputs[0].data, {});
  inputs[0].data = whole.Slice(0, 2048);
  inputs[1].data = whole.Slice(2048, 2048);
  EXPECT_FALSE(IsSoleHolder(inputs, 0));
  inputs[2].data = whole;
  EXPECT_FALSE(IsSoleHolder(inputs, 0));
  EXPECT_FALSE(IsSoleHolder(inputs, 2)) << "their bytes are the others' too";
}

TEST(SoleHolder, MayHaveCutABlockIntoItsInputs) {
  HeapAllocator heap;
  std::vector<Tensor> inputs(2);
  {
    const Buffer whole = heap.Allocate(4096).value();
    inputs[0].data = whole.Slice(0, 2048);
    inputs[1].data = whole.Slice(2048, 2048);
  }
  EXPECT_TRUE(IsSoleHolder(inputs, 0));
  EXPECT_TRUE(IsSoleHolder(inputs, 1));
}

}  // namespace
}  // namespace braid
