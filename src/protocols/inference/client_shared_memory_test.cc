#include "protocols/inference/client_shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <thread>

namespace braid {
namespace {

constexpr size_t kSize = 10'000;

using Kind = ClientSharedMemory::Kind;

class ClientSharedMemoryTest : public testing::Test {
 protected:
  ClientSharedMemoryTest() {
    file_.Reset(shm_open(key_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    EXPECT_EQ(ftruncate(file_.get(), kSize), 0);
    const std::vector<char> content(kSize, 5);
    EXPECT_EQ(pwrite(file_.get(), content.data(), kSize, 0), static_cast<ssize_t>(kSize));
  }
  ~ClientSharedMemoryTest() override { shm_unlink(key_.c_str()); }

  RegionPart Find(uint64_t offset, uint64_t size) {
    auto part = memory_.Find({"r", offset, size}, "t");
    EXPECT_TRUE(part.ok()) << part.status().message();
    return std::move(part).value();
  }
  Tensor Output(size_t size) {
    Tensor tensor;
    tensor.name = "OUT";
    tensor.data = CopyToHeap(std::vector<std::byte>(size, std::byte{9}));
    return tensor;
  }

  const std::string key_ = "/braid_unit_" + std::to_string(getpid());
  UniqueFd file_;
  ClientSharedMemory memory_;
};

TEST_F(ClientSharedMemoryTest, CopiesBothWays) {
  ASSERT_TRUE(memory_.Register({"r", key_, 100, 5000}).ok());
  const RegionPart part = Find(200, 300);
  Buffer bytes = HeapAllocator().Allocate(300).value();
  ASSERT_TRUE(part.region->Read(part.offset, bytes).ok());
  EXPECT_EQ(bytes.text(), std::string(300, 5));
  Tensor output = Output(300);
  ASSERT_TRUE(PutOutput(part, output).ok());
  EXPECT_TRUE(output.data.empty());
  std::vector<char> file(kSize);
  ASSERT_EQ(pread(file_.get(), file.data(), kSize, 0), static_cast<ssize_t>(kSize));
  for (size_t i = 0; i < kSize; ++i) ASSERT_EQ(file[i], i >= 300 && i < 600 ? 9 : 5) << i;
}

TEST_F(ClientSharedMemoryTest, MemoryOfGpusNeedsOne) {
  RegionInfo info{.name = "g", .key = {}, .byte_size = 4, .gpu = 0};
  EXPECT_EQ(memory_.RegisterCuda(info, std::string(64, 'x')).message(),
            "failed to register CUDA shared memory region: 'g', GPUs not supported");
  EXPECT_TRUE(memory_.List(Kind::kCuda, "").value().empty());
  EXPECT_EQ(memory_.List(Kind::kCuda, "g").status().message(),
            "Unable to find cuda shared memory region: 'g'");
  EXPECT_TRUE(memory_.Unregister(Kind::kCuda, "g").ok());
}

TEST_F(ClientSharedMemoryTest, EachKindLetsItsOwnGo) {
  ASSERT_TRUE(memory_.Register({"r", key_, 0, kSize}).ok());
  ASSERT_TRUE(memory_.Unregister(Kind::kCuda, "").ok());
  ASSERT_TRUE(memory_.Unregister(Kind::kCuda, "r").ok());
  EXPECT_EQ(memory_.List(Kind::kSystem, "").value().size(), 1);
  EXPECT_TRUE(memory_.List(Kind::kCuda, "").value().empty());
  EXPECT_EQ(Find(0, 4).region->copies(), nullptr);
}

TEST_F(ClientSharedMemoryTest, AllRegionsTogetherAreBounded) {
  memory_.set_max_bytes(3 * kSize);
  // A sparse file costs the client nothing. The limit is on mapped bytes.
  ASSERT_EQ(ftruncate(file_.get(), off_t{1} << 40), 0);
  const Status refused = memory_.Register({"huge", key_, 0, uint64_t{1} << 40});
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_EQ(refused.message(),
            "no more than 30000 bytes of shared memory can be registered (--client-shm-max-bytes); "
            "unregister some");
  for (const char* name : {"a", "b", "r"}) ASSERT_TRUE(memory_.Register({name, key_, 0, kSize}).ok());
  EXPECT_EQ(memory_.Register({"d", key_, 0, kSize}).code(), StatusCode::kUnavailable);
  {
    const RegionPart used = Find(0, 1);
    ASSERT_TRUE(memory_.Unregister(Kind::kSystem, "r").ok());
    // A request still uses it.
    EXPECT_EQ(memory_.Register({"d", key_, 0, kSize}).code(), StatusCode::kUnavailable);
  }
  EXPECT_TRUE(memory_.Register({"d", key_, 0, kSize}).ok());
}

TEST_F(ClientSharedMemoryTest, OutputsNeedRoom) {
  ASSERT_TRUE(memory_.Register({"r", key_, 0, kSize}).ok());
  Tensor output = Output(301);
  const Status status = PutOutput(Find(0, 300), output);
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_EQ(
      status.message(),
      "shared memory size specified with the request for output 'OUT' (300 bytes) should be at least 301 "
      "bytes to hold the results");
}

TEST_F(ClientSharedMemoryTest, PlacesNeverOverflow) {
  ASSERT_TRUE(memory_.Register({"r", key_, 0, kSize}).ok());
  for (const RegionRequest& asked : {RegionRequest{"r", UINT64_MAX, 1}, RegionRequest{"r", 1, UINT64_MAX},
                                     RegionRequest{"r", UINT64_MAX, UINT64_MAX}, RegionRequest{"r", 1, kSize},
                                     RegionRequest{"r", kSize + 1, 0}, RegionRequest{"r", 0, std::nullopt}}) {
    EXPECT_EQ(memory_.Find(asked, "t").status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(memory_.Find({"r", kSize, 0}, "t").ok());
  EXPECT_EQ(memory_.Find({"other", 0, 1}, "t").status().code(), StatusCode::kNotFound);
  for (auto [offset, size] : {std::pair<uint64_t, uint64_t>{UINT64_MAX, 1},
                              {1, UINT64_MAX},
                              {UINT64_MAX, UINT64_MAX},
                              {kSize, 1},
                              {0, kSize + 1}}) {
    EXPECT_EQ(memory_.Register({"s", key_, offset, size}).code(), StatusCode::kInvalidArgument);
  }
}

TEST_F(ClientSharedMemoryTest, ARegionInUseOutlivesItsName) {
  ASSERT_TRUE(memory_.Register({"r", key_, 0, kSize}).ok());
  const RegionPart part = Find(0, kSize);
  ASSERT_TRUE(memory_.Unregister(Kind::kSystem, "").ok());
  EXPECT_TRUE(memory_.List(Kind::kSystem, "").value().empty());
  Tensor output = Output(kSize);
  EXPECT_TRUE(PutOutput(part, output).ok());
  EXPECT_TRUE(memory_.Register({"r", key_, 0, kSize}).ok());
}

TEST_F(ClientSharedMemoryTest, AFileThatIsShorterNowIsAnError) {
  ASSERT_TRUE(memory_.Register({"r", key_, 0, kSize}).ok());
  const RegionPart part = Find(0, 10);
  ASSERT_EQ(ftruncate(file_.get(), kSize - 1), 0);
  Buffer bytes = HeapAllocator().Allocate(10).value();
  EXPECT_EQ(part.region->Read(0, bytes).code(), StatusCode::kInvalidArgument);
  Tensor output = Output(10);
  EXPECT_EQ(PutOutput(part, output).code(), StatusCode::kInvalidArgument);
}

TEST_F(ClientSharedMemoryTest, ManyThreadsRegisterTheSame) {
  std::atomic<int> registered{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        registered += memory_.Register({"r", key_, 0, kSize}).ok() ? 1 : 0;
        auto part = memory_.Find({"r", 0, kSize}, "t");
        Buffer bytes = HeapAllocator().Allocate(kSize).value();
        if (part.ok()) {
          EXPECT_TRUE((*part).region->Read(0, bytes).ok());
        }
        EXPECT_TRUE(memory_.Unregister(Kind::kSystem, "r").ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(registered, 1);
  EXPECT_TRUE(memory_.List(Kind::kSystem, "").value().empty());
}

}  // namespace
}  // namespace braid
