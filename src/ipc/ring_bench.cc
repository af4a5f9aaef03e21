// Benchmarks of the parts of ipc; bench/ measures them together.
#include <benchmark/benchmark.h>

#include <cstring>
#include <thread>

#include "ipc/arena.h"
#include "ipc/channel.h"
#include "ipc/messages.h"

namespace braid {
namespace {

constexpr int64_t kLong = 60'000'000'000;

struct Pair {
  Pair() {
    Channel::WorkerEnd worker_end;
    server = Channel::CreateServerEnd({}, worker_end).value();
    worker = Channel::OpenWorkerEnd(std::move(worker_end)).value();
  }
  std::unique_ptr<Channel> server;
  std::unique_ptr<Channel> worker;
};

// A round trip between two threads that both sleep on the futex.
void BM_ChannelRoundTrip(benchmark::State& state) {
  Pair pair;
  std::thread echo([&pair] {
    std::vector<std::byte> message;
    while (pair.worker->Receive(message, kLong) == Channel::Outcome::kMessage) {
      if (!pair.worker->Send(message).ok()) break;
    }
  });
  const std::vector<std::byte> message(static_cast<size_t>(state.range(0)));
  std::vector<std::byte> answer;
  for (auto _ : state) {
    if (!pair.server->Send(message).ok() ||
        pair.server->Receive(answer, kLong) != Channel::Outcome::kMessage) {
      state.SkipWithError("no answer");
      break;
    }
  }
  pair.worker->Interrupt();
  echo.join();
}
BENCHMARK(BM_ChannelRoundTrip)->Arg(256)->Arg(16 << 10)->Arg(1 << 20)->UseRealTime();

// Without a second thread: the cost of the ring itself.
void BM_ChannelSendAndReceive(benchmark::State& state) {
  Pair pair;
  const std::vector<std::byte> message(static_cast<size_t>(state.range(0)));
  std::vector<std::byte> received;
  for (auto _ : state) {
    if (!pair.server->Send(message).ok() || pair.worker->Receive(received, 0) != Channel::Outcome::kMessage) {
      state.SkipWithError("no message");
      break;
    }
  }
}
BENCHMARK(BM_ChannelSendAndReceive)->Arg(256)->Arg(16 << 10);

class ArenaBench : public benchmark::Fixture {
 public:
  SegmentIds ids;
  Arena arena{ids, {}};
};

BENCHMARK_DEFINE_F(ArenaBench, AllocateAndFree)(benchmark::State& state) {
  for (auto _ : state) {
    auto buffer = arena.Allocate(static_cast<size_t>(state.range(0)));
    benchmark::DoNotOptimize(buffer);
  }
}
BENCHMARK_REGISTER_F(ArenaBench, AllocateAndFree)->Arg(64)->Arg(1 << 20);
BENCHMARK_REGISTER_F(ArenaBench, AllocateAndFree)->Arg(64)->Threads(2)->Name("ArenaBench/TwoThreads");

constexpr float kValues[16] = {};

ExecuteMessage AddSub() {
  ExecuteMessage message;
  message.execution_id = 1;
  RequestMessage& request = message.requests.emplace_back();
  request.id = 1;
  request.correlation_id = uint64_t{0};
  for (const char* name : {"INPUT0", "INPUT1"}) {
    TensorMessage& input = request.inputs.emplace_back();
    input.name = name;
    input.type = DataType::kFp32;
    input.shape = {1, 16};
    input.bytes = {reinterpret_cast<const std::byte*>(kValues), sizeof(kValues)};
  }
  return message;
}

void BM_EncodeExecute(benchmark::State& state) {
  const ExecuteMessage message = AddSub();
  std::vector<std::byte> out;
  for (auto _ : state) {
    Encode(out, message);
    benchmark::DoNotOptimize(out.data());
  }
  state.counters["bytes"] = static_cast<double>(out.size());
}
BENCHMARK(BM_EncodeExecute);

void BM_DecodeExecute(benchmark::State& state) {
  std::vector<std::byte> encoded;
  Encode(encoded, AddSub());
  ExecuteMessage message;
  for (auto _ : state) {
    if (!Decode(encoded, message)) state.SkipWithError("not decoded");
    benchmark::DoNotOptimize(message);
  }
}
BENCHMARK(BM_DecodeExecute);

}  // namespace
}  // namespace braid
