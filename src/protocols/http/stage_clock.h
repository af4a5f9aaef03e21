// StageClock: the stage of a connection's input, the time when it began, and its limit without progress.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/clock.h"
#include "protocols/http/options.h"

namespace braid {

enum class HttpStage : unsigned char {
  kHead,     // reads headers, or waits for them
  kFront,    // gathers the front of a plain body of known size
  kRest,     // reads the rest of it to its destinations
  kWhole,    // gathers a chunked or compressed body
  kOffered,  // passes a large front to the call, on another thread
  kWriting,  // writes a response that the socket did not take at once; does not read
  kDiscard,  // discards the body of a request that was answered early
  kLinger,   // has sent its last response and waits until the client closes
};

class StageClock {
 public:
  StageClock() : last_active_ns_(SteadyNowNs()) {}

  HttpStage stage() const { return stage_; }
  bool reads_body() const {
    return stage_ == HttpStage::kFront || stage_ == HttpStage::kRest || stage_ == HttpStage::kWhole;
  }

  // Call on the io thread.
  void Enter(HttpStage stage) {
    stage_ = stage;
    progress_ = 0;
    Touch();
  }
  // Adds received bytes. A slow body gets its full time again after each kProgressBytes.
  static constexpr uint64_t kProgressBytes = uint64_t{64} * 1024;
  void AddInput(uint64_t bytes) {
    progress_ += bytes;
    if (reads_body() && progress_ >= kProgressBytes) Enter(stage_);
  }
  // Restarts the time limit. Call on the thread that owns the connection.
  void Touch() { last_active_ns_.store(SteadyNowNs(), std::memory_order_relaxed); }

  // `idle`: the connection waits for a request and has received no part of it.
  bool Expired(int64_t now_ns, const HttpListenerOptions& options, bool idle, bool handshake_done) const {
    return Silent(now_ns, LimitOf(options, idle && handshake_done));
  }
  // Whether the connection was inactive for longer than `limit`.
  bool Silent(int64_t now_ns, std::chrono::nanoseconds limit) const {
    return now_ns - last_active_ns_.load(std::memory_order_relaxed) > limit.count();
  }

 private:
  std::chrono::nanoseconds LimitOf(const HttpListenerOptions& options, bool between_requests) const {
    switch (stage_) {
      case HttpStage::kHead:
        return between_requests ? options.idle_timeout : options.header_timeout;
      case HttpStage::kFront:
      case HttpStage::kRest:
      case HttpStage::kWhole:
        return options.body_timeout;
      case HttpStage::kOffered:
        return options.idle_timeout;
      case HttpStage::kWriting:
        return options.write_timeout;
      case HttpStage::kDiscard:
      case HttpStage::kLinger:
        return options.linger_timeout;
    }
    return {};
  }

  HttpStage stage_ = HttpStage::kHead;
  uint64_t progress_ = 0;  // bytes since the stage was entered
  std::atomic<int64_t> last_active_ns_;
};

}  // namespace braid
