// GrpcConnection: one client's socket with its HTTP/2 session and its calls.
//
// Threads. The connection's I/O thread reads the socket. One mutex guards the session and the calls. Nothing
// blocks under it, and no code of a call runs under it: a read notes events, which are dispatched after it.
// Responses come on any thread, which writes them itself as far as the socket takes them, without a switch of
// threads. One thread writes at a time, without the mutex, and also writes the responses that other threads
// add meanwhile. Responses within a read wait for its end and leave in one system call.
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

// An event that a call receives on its I/O thread.
enum class GrpcEvent : unsigned char { kMessage, kHalfClose, kSent, kDrain, kCancelled };

class GrpcConnection final : public EventLoop::Watcher,
                             public Batch::Work,
                             private Http2Session::Owner,
                             public std::enable_shared_from_this<GrpcConnection> {
 public:
  GrpcConnection(GrpcThread& thread, ClientSocket socket, ConnectionLimits::Place place);
  ~GrpcConnection() override;

  // --- Call on the I/O thread.
  Status Start();
  // Notifies all calls that the server drains.
  void DrainCalls();
  // Takes no more calls. Closes when the running ones have ended.
  void Drain();
  // Cancels running calls and closes.
  void Abort();

  GrpcThread& thread() const { return thread_; }
  // See ClientSocket. Any thread.
  std::string_view certificate_identity() const { return socket_.certificate_identity(); }

  // --- For its calls.

  // Guards the session and the calls.
  Mutex& mutex() BRAID_THREAD_ATTRIBUTE(lock_returned(mutex_)) { return mutex_; }
  Http2Session& session() BRAID_REQUIRES(mutex_) { return session_; }
  // Runs `work` under the mutex. An exception ends the connection, because no call may be left without an
  // end.
  template <class Work>
  void Locked(Work&& work) noexcept BRAID_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const Status done = Guarded([&] { work(); });
    if (!done.ok()) BreakLocked();
  }
  // Dispatches an event on the I/O thread, after its current work or soon.
  void AddEventLocked(std::shared_ptr<GrpcCall> call, GrpcEvent event, GrpcMessage message = {})
      BRAID_REQUIRES(mutex_);
  // Record that a call received, or sent, data.
  void NoteReceivedLocked() BRAID_REQUIRES(mutex_) { data_since_ping_ = true; }
  void NoteSentLocked() BRAID_REQUIRES(mutex_) {
    data_since_ping_ = true;
    pings_without_data_ = 0;
  }
  // Records that the call's stream is over.
  void EndCallLocked(GrpcCall& call) BRAID_REQUIRES(mutex_);
  // Starts to check partly received messages from time to time. Calls whose message is too slow end.
  void WatchMessages();
  // Writes the pending frames now, or at the end of this thread's Batch. If another thread is writing, it
  // writes them too.
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

  // Marks the connection as broken. The I/O thread receives an event and closes it.
  void BreakLocked() noexcept BRAID_REQUIRES(mutex_);

  void ReadAll();
  // Whether to delay a client that sends large input while memory is short, so that other requests finish
  // first. A timer then continues. Each shortage of memory delays a connection once.
  bool HoldBack();
  // Reads once. Returns false if there is no more input for now.
  bool ReadOnce();
  void DispatchEvents() BRAID_EXCLUDES(mutex_);
  // The same; gives the mutex back while it calls.
  void DispatchLocked() BRAID_REQUIRES(mutex_);
  void AtEnd() noexcept override;
  void FlushNow() BRAID_EXCLUDES(mutex_);
  // Writes until the socket takes no more. Returns false if bytes are left, and sets `failed` if they cannot
  // be written.
  bool Write(bool& failed);
  void ArmDeadlineLocked() BRAID_REQUIRES(mutex_);
  void OnDeadline();
  void OnMessagesDue();
  // For keepalive, age and idle time.
  void ArmWatch();
  void Watch();
  void Close();

  GrpcThread& thread_;
  const ConnectionLimits::Place place_;
  ClientSocket socket_;

  Mutex mutex_;
  Http2Session session_ BRAID_GUARDED_BY(mutex_);
  std::vector<Event> events_ BRAID_GUARDED_BY(mutex_);
  bool dispatch_posted_ BRAID_GUARDED_BY(mutex_) = false;  // a dispatch was posted to the I/O thread
  std::vector<std::shared_ptr<GrpcCall>> ended_ BRAID_GUARDED_BY(mutex_);  // to be released without the mutex
  std::set<std::pair<int64_t, GrpcCall*>> deadlines_ BRAID_GUARDED_BY(mutex_);  // of calls that are not over
  // Data was sent or received since the client's last ping.
  bool data_since_ping_ BRAID_GUARDED_BY(mutex_) = false;
  int pings_without_data_ BRAID_GUARDED_BY(mutex_) = 0;  // pings of the server since calls last sent data
  int64_t idle_since_ns_ BRAID_GUARDED_BY(mutex_);       // when the last call ended; 0: there are calls
  bool retry_ BRAID_GUARDED_BY(mutex_) = false;          // the socket became writable while a thread wrote
  SerialDelivery delivery_ BRAID_GUARDED_BY(mutex_);     // of outgoing_ to the socket
  bool blocked_ BRAID_GUARDED_BY(mutex_) = false;        // the socket takes no more for now
  bool broken_ BRAID_GUARDED_BY(mutex_) = false;         // writing is no longer possible
  bool over_ BRAID_GUARDED_BY(mutex_) = false;           // closed by the I/O thread
  bool faulty_ BRAID_GUARDED_BY(mutex_) = false;         // ends for a fault of the client
  OutgoingBytes outgoing_;                               // used by the thread that writes

  // Owned by the I/O thread.
  std::vector<Event> dispatching_;  // a member to reuse its memory
  std::optional<EventLoop::TimerKey> deadline_timer_;
  std::optional<EventLoop::TimerKey> watch_timer_;
  std::optional<EventLoop::TimerKey> message_timer_;
  std::optional<EventLoop::TimerKey> hold_timer_;
  int64_t held_since_ns_ = 0;  // when the connection began to wait for memory; 0: it does not
  const int64_t born_ns_;
  int64_t heard_ns_;              // when bytes last arrived
  int64_t pinged_ns_ = 0;         // when the unanswered ping was sent; 0: none
  int64_t aged_ns_ = 0;           // when the client was told that the connection is too old; 0: not yet
  int64_t last_ping_ns_ = 0;      // when the client last sent a ping
  int ping_strikes_ = 0;          // the client's pings that came too soon without data between them
  bool ended_by_client_ = false;  // unread bytes and the end may be left
  bool large_reads_ = false;      // the last read was full
};

}  // namespace braid
