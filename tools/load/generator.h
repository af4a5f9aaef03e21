// One thread of load: requests are kept in flight, or sent when they come, until it is told to stop. Its connections are its own.
//
// A latency begins when a request was to be sent, so that a request of an open load that waits for its turn is not taken for a fast one.
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

// A request as it is sent. Lives as long as the load.
struct LoadRequest {
  OutgoingMessage message;
  size_t step = 0;  // for the observer, which knows what the answer has to be
  // Outputs that the server puts into shared memory, by name; not in the response.
  std::vector<std::pair<std::string, std::string_view>> placed = {};
};

// What one slot sends, request after request. A slot has one request in flight at a time.
class RequestSource {
 public:
  virtual ~RequestSource() = default;
  // The next request, which may be written anew when the one before has ended.
  virtual const LoadRequest& Next() = 0;
  // At the end of the load: one more request, if what was begun (a sequence) is to be ended; null: nothing is.
  virtual const LoadRequest* Last() { return nullptr; }
};

// A request that has ended.
struct Answer {
  const LoadRequest& request;
  int64_t begin_ns;  // when it was to be sent
  int64_t end_ns;
  std::span<const int64_t> response_ns;  // when each response came
  uint64_t bytes_received;
};

// Is told what has come of the requests of one thread; called on it.
class LoadObserver {
 public:
  virtual ~LoadObserver() = default;
  // A response; an error makes the request a failed one.
  virtual Status OnResponse(const LoadRequest& request, const InferResponse& response, uint64_t nth) = 0;
  virtual void OnAnswered(const Answer& answer) = 0;
  virtual void OnFailed(int64_t begin_ns, int64_t end_ns, const Status& why, bool timed_out) = 0;
};

// How many requests may still be sent, by all threads together.
class Budget {
 public:
  // 0: any number.
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
  int slots = 1;        // requests in flight at most
  int connections = 1;  // of gRPC, that they share; over HTTP each has one
  // Requests come at this rate; 0: the next one comes when one has ended.
  double rate = 0;
  Distribution distribution = Distribution::kConstant;
  uint64_t seed = 1;
  int64_t delay_ns = 0;  // before the first request comes, so that threads that send evenly take turns
  double timeout_s = 60;
  // Of streams: responses to one request; 0: up to the one that is marked final.
  uint64_t responses = 1;
};

// Runs until `stop`, and then until all that is in flight has ended, for the time-out at most. Returns when, of an open load, the first
// request came that was not sent.
int64_t GenerateLoad(const LoadPlan& plan, std::span<const std::unique_ptr<RequestSource>> sources,
                     Budget& budget, const std::atomic<bool>& stop, LoadObserver& observer);

}  // namespace braid::load
