// FlowCounters: counts executions of the nodes of a pipeline or a graph, and packets along its edges, since
// the graph was loaded. The owner numbers nodes and edges.
//
//   counters.Started(node);
//   counters.Ended(node, !status.ok(), SteadyNowNs() - start_ns);
//
// Any thread, without locks. Each node and each edge has its own cache line, so threads at different nodes do
// not slow each other down.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace braid {

class FlowCounters {
 public:
  // At any time, failed <= ended <= started.
  struct NodeCounts {
    uint64_t started = 0;
    uint64_t ended = 0;
    uint64_t failed = 0;
    uint64_t total_ns = 0;  // of the executions that have ended
  };

  FlowCounters(size_t nodes, size_t edges)
      : nodes_(std::make_unique<Node[]>(nodes)), edges_(std::make_unique<Edge[]>(edges)) {}

  void Started(size_t node) { Add(nodes_[node].started, 1); }
  // Called once for each Started().
  void Ended(size_t node, bool failed, int64_t ns) {
    Node& at = nodes_[node];
    Add(at.total_ns, ns > 0 ? static_cast<uint64_t>(ns) : 0);
    // Released after the start's increment, so that Read() never sees more ends than starts.
    at.ended.fetch_add(1, std::memory_order_release);
    if (failed) at.failed.fetch_add(1, std::memory_order_release);
  }
  void Passed(size_t edge, uint64_t count) { Add(edges_[edge].passed, count); }

  NodeCounts Read(size_t node) const {
    const Node& at = nodes_[node];
    NodeCounts counts;
    // Reads in reverse order of writing, from the end to the start.
    counts.failed = at.failed.load(std::memory_order_acquire);
    counts.ended = at.ended.load(std::memory_order_acquire);
    counts.total_ns = at.total_ns.load(std::memory_order_relaxed);
    counts.started = at.started.load(std::memory_order_relaxed);
    return counts;
  }
  uint64_t ReadPassed(size_t edge) const { return edges_[edge].passed.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kCacheLine = 64;
  struct alignas(kCacheLine) Node {
    std::atomic<uint64_t> started{0};
    std::atomic<uint64_t> ended{0};
    std::atomic<uint64_t> failed{0};
    std::atomic<uint64_t> total_ns{0};
  };
  struct alignas(kCacheLine) Edge {
    std::atomic<uint64_t> passed{0};
  };

  static void Add(std::atomic<uint64_t>& counter, uint64_t count) {
    counter.fetch_add(count, std::memory_order_relaxed);
  }

  const std::unique_ptr<Node[]> nodes_;
  const std::unique_ptr<Edge[]> edges_;
};

}  // namespace braid
