// GrpcConnection: one client's socket with its HTTP/2 session and its calls.
//
// Who may touch what. The socket is read by the connection's I/O thread. Session and calls are guarded by one
// mutex, under which nothing blocks and no code of a call's runs: what a read brings is noted as events, and
// told after it. Answers come on any thread, which writes them itself as far as the socket takes them: no
// hand-over. One thread writes at a time, without the mutex; what others answer meanwhile, it writes too.
// What answers within a read waits for the end of that read, and leaves in one system call.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "base/batch.h"
#include "base/guard.h"
#include "base/mutex.h"
#include "base/serial_delivery.h"
#include "protocols/grpc/message.h"
#include "protocols/http2/outgoing_bytes.h"
#include "protocols/http2/session.h"
#include "protocols/net/client_socket.h"
#include "protocols/net/connection_limits.h"
#include "protocols/net/event_loop.h"

namespace braid {

class GrpcCall;
class GrpcThread;

// What a call is told on its I/O thread.
enum class GrpcEvent : unsigned char { kMessage, kHalfClose, kSent, kDrain, kCancelled };

class GrpcConnection final : public EventLoop::Watcher,
                             public Batch::Work,
                             private Http2Session::Owner,
                             public std::enable_shared_from_this<GrpcConnection> {
 public:
  GrpcConnection(GrpcThread& thread, ClientSocket socket, ConnectionLimits::Place place);
  ~GrpcConnection() override;

  // --- On the I/O thread.
  Status Start();
  // Tells all calls that the server drains.
  void DrainCalls();
  // No more calls are taken; closes when those that run have ended.
  void Drain();
  // Cancels what runs, and closes.
  void Abort();

  GrpcThread& thread() const { return thread_; }
  // As ClientSocket's. Any thread.
  std::string_view certificate_identity() const { return socket_.certificate_identity(); }

  // --- For its calls.

  // Guards the session and the calls.
  Mutex& mutex() BRAID_THREAD_ATTRIBUTE(lock_returned(mutex_)) { return mutex_; }
  Http2Session& session() BRAID_REQUIRES(mutex_) { return session_; }
  // Runs `work` under the mutex. What it throws ends the connection: no call may be left without an end.
  template <class Work>
  void Locked(Work&& work) noexcept BRAID_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const Status done = Guarded([&] { work(); });
    if (!done.ok()) BreakLocked();
  }
  // To the I/O thread after what it does now, or soon.
  void AddEventLocked(std::shared_ptr<GrpcCall> call, GrpcEvent event, GrpcMessage message = {})
      BRAID_REQUIRES(mutex_);
  // Data of a call has come, or leaves.
  void NoteReceivedLocked() BRAID_REQUIRES(mutex_) { data_since_ping_ = true; }
  void NoteSentLocked() BRAID_REQUIRES(mutex_) {
    data_since_ping_ = true;
    pings_without_data_ = 0;
  }
  // The stream of the call is over.
  void EndCallLocked(GrpcCall& call) BRAID_REQUIRES(mutex_);
  // Messages that have begun to come are looked at from time to time: those that are too slow end their
  // calls.
  void WatchMessages();
  // Writes the pending frames now, or at the end of this thread's Batch. A thread that already writes takes
  // them along.
  void Flush() BRAID_EXCLUDES(mutex_);

 private:
  struct Event {
    std::shared_ptr<GrpcCall> call;
    GrpcEvent kind;
    GrpcMessage message;
  };

  void OnEvents(uint32_t events) override;
  void OnPing() override;
  void OnStreamRefused() override;
  void OnFault(uint32_t error, std::string_view text) override;
  std::shared_ptr<Http2Stream> OnRequest(int32_t id, Http2Head head, const Status& fault) override;

  // Nothing can be written any more; the I/O thread hears of it, and closes.
  void BreakLocked() noexcept BRAID_REQUIRES(mutex_);

  void ReadAll();
  // Whether a client that sends much waits, so that others' requests end first; it is then looked at again.
  // Once for each time that memory becomes short.
  bool HoldBack();
  // False when there is no more for now.
  bool ReadOnce();
  void DispatchEvents() BRAID_EXCLUDES(mutex_);
  // The same; gives the mutex back while it calls.
  void DispatchLocked() BRAID_REQUIRES(mutex_);
  void AtEnd() noexcept override;
  void FlushNow() BRAID_EXCLUDES(mutex_);
  // What the socket takes now; false when it takes no more for now, or (`failed`) never.
  bool Write(bool& failed);
  void ArmDeadlineLocked() BRAID_REQUIRES(mutex_);
  void OnDeadline();
  void OnMessagesDue();
  // Keepalive and age.
  void ArmWatch();
  void Watch();
  void Close();

  GrpcThread& thread_;
  const ConnectionLimits::Place place_;
  ClientSocket socket_;

  Mutex mutex_;
  Http2Session session_ BRAID_GUARDED_BY(mutex_);
  std::vector<Event> events_ BRAID_GUARDED_BY(mutex_);
  bool dispatch_posted_ BRAID_GUARDED_BY(mutex_) = false;  // the I/O thread will look for events
  std::vector<std::shared_ptr<GrpcCall>> ended_ BRAID_GUARDED_BY(mutex_);  // are let go without the mutex
  std::set<std::pair<int64_t, GrpcCall*>> deadlines_ BRAID_GUARDED_BY(mutex_);  // of calls that are not over
  bool data_since_ping_ BRAID_GUARDED_BY(mutex_) = false;  // the client's pings measure what passes
  int pings_without_data_ BRAID_GUARDED_BY(mutex_) = 0;    // of ours, since calls last sent something
  int64_t idle_since_ns_ BRAID_GUARDED_BY(mutex_);         // when the last call ended; 0: there are calls
  bool retry_ BRAID_GUARDED_BY(mutex_) = false;            // the socket took more again while a thread wrote
  SerialDelivery delivery_ BRAID_GUARDED_BY(mutex_);       // of outgoing_ to the socket
  bool blocked_ BRAID_GUARDED_BY(mutex_) = false;          // the socket takes no more for now
  bool broken_ BRAID_GUARDED_BY(mutex_) = false;           // nothing can be written any more
  bool over_ BRAID_GUARDED_BY(mutex_) = false;             // closed by the I/O thread
  bool faulty_ BRAID_GUARDED_BY(mutex_) = false;           // ends for a fault of the client's
  OutgoingBytes outgoing_;                                 // of the thread that writes

  // Owned by the I/O thread.
  std::vector<Event> dispatching_;  // keeps its memory
  std::optional<EventLoop::TimerKey> deadline_timer_;
  std::optional<EventLoop::TimerKey> watch_timer_;
  std::optional<EventLoop::TimerKey> message_timer_;
  std::optional<EventLoop::TimerKey> hold_timer_;
  int64_t held_since_ns_ = 0;  // 0: memory was not short since
  const int64_t born_ns_;
  int64_t heard_ns_;              // when something last came
  int64_t pinged_ns_ = 0;         // of the ping that is not answered; 0: none
  int64_t aged_ns_ = 0;           // when the client was told that the connection is too old; 0: not yet
  int64_t last_ping_ns_ = 0;      // of the client's
  int ping_strikes_ = 0;          // of pings without data between them
  bool ended_by_client_ = false;  // its last bytes may be there, and the end is behind them
  bool large_reads_ = false;      // the last read was full
};

}  // namespace braid
