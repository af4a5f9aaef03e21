// Load generator: one thread that keeps requests in flight, or sends them on a schedule, until it is stopped.
// Each generator has its own connections.
//
// A latency begins at the scheduled time of the request. So a request of an open load that waits for a free
// slot does not count as fast.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "load/arrivals.h"
#include "load/connection.h"
#include "load/messages.h"

namespace braid::load {

// An encoded request. Lives as long as the load.
struct LoadRequest {
  OutgoingMessage message;
  size_t step = 0;  // tells the observer which answer to expect
  // Outputs that the server writes to shared memory, by name; they are not in the response.
  std::vector<std::pair<std::string, std::string_view>> placed = {};
};

// The requests of one slot. A slot has one request in flight at a time.
class RequestSource {
 public:
  virtual ~RequestSource() = default;
  // Returns the next request. It may reuse the previous request's object once that request has ended.
  virtual const LoadRequest& Next() = 0;
  // At the end of the load: returns one more request if it must end a sequence, else null.
  virtual const LoadRequest* Last() { return nullptr; }
};

// A request that was answered.
struct Answer {
  const LoadRequest& request;
  int64_t begin_ns;  // the scheduled time
  int64_t end_ns;
  std::span<const int64_t> response_ns;  // the arrival of each response
  uint64_t bytes_received;
  int64_t tokens = 0;  // of a chat completion, if the server counts them
};

// Observes the requests of one thread; called on that thread.
class LoadObserver {
 public:
  virtual ~LoadObserver() = default;
  // A response arrived; an error result makes the request fail.
  virtual Status OnResponse(const LoadRequest& request, const InferResponse& response, uint64_t nth) = 0;
  virtual void OnAnswered(const Answer& answer) = 0;
  virtual void OnFailed(int64_t begin_ns, int64_t end_ns, const Status& why, bool timed_out) = 0;
};

// The number of requests left to send, shared by all threads.
class Budget {
 public:
  // `requests` 0: unlimited.
  explicit Budget(uint64_t requests) : limited_(requests > 0), left_(static_cast<int64_t>(requests)) {}
  bool Take() { return !limited_ || left_.fetch_sub(1, std::memory_order_relaxed) > 0; }
  bool spent() const { return limited_ && left_.load(std::memory_order_relaxed) <= 0; }

 private:
  const bool limited_;
  std::atomic<int64_t> left_;
};

struct LoadPlan {
  std::shared_ptr<const Dialer> dialer;
  Encoding encoding;
  int slots = 1;        // maximal number of requests in flight
  int connections = 1;  // of gRPC, shared by the slots; over HTTP each slot has one
  // Requests per second of an open load; 0: each slot sends its next request when the previous one has ended.
  double rate = 0;
  Distribution distribution = Distribution::kConstant;
  uint64_t seed = 1;
  int64_t delay_ns = 0;  // delay of the first request, so that threads with even schedules take turns
  double timeout_s = 60;
  // Responses to one request of a stream; 0: up to the one marked final.
  uint64_t responses = 1;
};

// Generates load until `stop`, then waits for requests in flight, for the timeout at most. For an open load,
// returns the arrival time of the first request that was not sent.
int64_t GenerateLoad(const LoadPlan& plan, std::span<const std::unique_ptr<RequestSource>> sources,
                     Budget& budget, const std::atomic<bool>& stop, LoadObserver& observer);

}  // namespace braid::load
