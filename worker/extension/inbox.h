// Inbox: sorts the server's messages to the threads that wait for them. Any waiting thread may be the reader.
//
// At most one thread at a time reads the channel: the leader. A waiting thread takes the lead if it is free,
// and sorts the messages that arrive. Executions, loads and the like go to the main thread. Responses go to
// exchanges (calls and questions of user code). Work that needs the GIL, on any thread, becomes a chore. Once
// the leader has its own message, it passes the lead to another waiting thread. So a call on a single thread
// costs no thread switch.
//
// Two substitutes read if no thread waits. The main thread's event loop is woken by the server through the
// channel's wake-up descriptor. The reader is a thread of the inbox, started on first use. It serves calls
// awaited in event loops of user code, and messages that did not fit into the ring. For the readiness hook,
// it polls from time to time.
//
// Call the waiting functions without the GIL. All other functions never block, and are thread-safe unless
// stated otherwise.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "ipc/channel.h"

namespace braid {

// A call or a question to the server, and the messages that have arrived for it. The inbox guards its fields.
class Exchange {
 public:
  // The message that makes the exchange a chore, once.
  enum class Notice : uint8_t {
    kNone,   // none: a thread waits for it
    kFirst,  // the first message
    kLast,   // the last one
  };

  explicit Exchange(uint64_t id) : id_(id) {}
  uint64_t id() const { return id_; }
  // The GPU of this process that should receive the outputs. Set by the caller, guarded by the GIL.
  std::optional<int> preferred_gpu;

 private:
  friend class Inbox;
  bool has_message() const { return taken_ < messages_.size(); }
  struct Waiter {
    std::condition_variable wake;
  };

  const uint64_t id_;
  std::vector<std::vector<std::byte>> messages_;
  size_t taken_ = 0;        // number of messages already taken
  bool ended_ = false;      // the last message has arrived
  bool discarded_ = false;  // messages for it are no longer wanted
  bool background_ = false;
  Notice notice_ = Notice::kNone;
  std::vector<Waiter*> waiters_;  // threads that wait for it
};

class Inbox {
 public:
  enum class Outcome : uint8_t {
    kReady,
    kTimeout,
    kAttend,    // there are chores: do them, then wait again
    kSummoned,  // by Summon()
    kEnded,     // the connection is closed or broken, see why()
  };

  // `attend` does the chores; the reader calls it without the GIL.
  Inbox(Channel& channel, std::function<void()> attend);
  // REQUIRES: End() was called.
  ~Inbox();

  // --- The main thread's messages.

  // Takes the next message, and waits for it up to `timeout_ns`. 0 does not wait, and is allowed with the
  // GIL.
  Outcome Next(std::vector<std::byte>& message, int64_t timeout_ns);

  // --- The same for several threads that share them.

  // Waits for messages that no other thread is about to take, or for Summon(). Takes no message: call
  // TakeMain() with the GIL, so that messages are handled in order. Only the reading thread gets kTimeout and
  // kAttend. REQUIRES: one WillAwait() before each Await(), with the GIL, so that the GIL's next holder can
  // count on this thread.
  Outcome Await(int64_t timeout_ns);
  void WillAwait();
  // Takes a queued message; false if there is none. A thread that Await() returned for messages must call it
  // until it returns false. Only then does Await() return another thread for later messages.
  bool TakeMain(std::vector<std::byte>& message);
  // Makes one thread return from Await(), or from its next call of it. Chooses the reading thread only if
  // `reader_too` and there is no other. False if there is none.
  bool Summon(bool reader_too);
  // Returns the number of threads in Await(), or about to enter it, that were not summoned. One of them
  // reads, unless another thread does.
  size_t awaiting() const;

  // --- The event loop.

  // The main thread enters or leaves its event loop, which polls Channel::wake_fd(). When that is readable,
  // call Next() until it returns no message.
  void EnterLoop();
  void LeaveLoop();

  // --- Exchanges.

  // Begins an exchange; call it before sending the request. `background`: the notice must arrive although
  // neither a thread nor the main thread's loop waits for it.
  std::shared_ptr<Exchange> Begin(Exchange::Notice notice, bool background);
  // Waits for a message, or for the end of the exchange.
  Outcome Wait(Exchange& exchange);
  // Takes a message that has arrived; false if there is none.
  bool Take(Exchange& exchange, std::vector<std::byte>& message);
  // Whether the last message has arrived and been taken.
  bool Exhausted(const Exchange& exchange);
  // Whether the last message is still outstanding.
  bool Open(const Exchange& exchange);
  // Ends an exchange whose request was not sent.
  void Forget(Exchange& exchange);
  // Abandons an exchange: its messages become chores.
  void Discard(Exchange& exchange);

  // --- Chores: work that needs the GIL.

  struct Chores {
    std::vector<std::shared_ptr<Exchange>> noticed;
    std::vector<uint64_t> checks;                      // of readiness
    std::vector<std::vector<std::byte>> housekeeping;  // kRelease and kRetireSegment
    std::vector<std::vector<std::byte>> discarded;     // messages of abandoned exchanges
  };
  bool has_chores() const { return has_chores_.load(std::memory_order_acquire); }
  Chores TakeChores();

  // --- Other reasons to read.

  // Reads and sorts all messages that have arrived, without waiting.
  void Poll();
  // Must be called after sending a message: it may have to wait for room.
  void Sent() {
    if (channel_.has_waiting()) WantReader();
  }
  // Must be called if the model has a readiness hook.
  void WatchForChecks();

  // The server violated the protocol: ends all waits.
  void Break(std::string why);
  // Ends all waits, now and later. Returns when no thread reads any more.
  void End(std::string why);
  // The reason of the end; "" before it.
  std::string why() const;

 private:
  using Waiter = Exchange::Waiter;
  enum class Lead : uint8_t { kNobody, kThread, kLoop };

  template <class Done>
  Outcome WaitLocked(std::unique_lock<std::mutex>& lock, Waiter& waiter, int64_t timeout_ns,
                     const Done& done);
  Outcome ReceiveLocked(std::unique_lock<std::mutex>& lock, std::vector<std::byte>& message,
                        int64_t timeout_ns);
  void SortLocked(std::vector<std::byte>& message);
  void SortResponseLocked(uint64_t id, bool last, std::vector<std::byte>& message);
  void GiveToMainLocked(std::vector<std::byte>& message);
  bool OpenLocked(const Exchange& exchange) const;
  void TakeLeadLocked();
  void PassLeadLocked();
  void NoticeLocked(const std::shared_ptr<Exchange>& exchange);
  void BreakLocked(std::string why);
  void WakeLoop();
  void WantReader();
  void StartReaderLocked();
  void Read();
  bool ReaderWantedLocked() const { return background_ != 0 || channel_.has_waiting(); }

  Channel& channel_;
  const std::function<void()> attend_;
  std::atomic<bool> has_chores_{false};

  mutable std::mutex mutex_;  // guards the rest
  Lead lead_ = Lead::kNobody;
  bool in_loop_ = false;
  std::deque<std::vector<std::byte>> main_;
  Waiter* main_waiter_ = nullptr;      // waits in Next()
  std::vector<Waiter*> main_waiters_;  // wait in Await(), without the reading one
  bool main_reads_ = false;            // the leader is in Await()
  // Threads in Await(), or about to enter it: those that may stay, and those that must return.
  size_t awaiting_ = 0;
  size_t summoned_ = 0;
  bool claimed_ = false;  // a thread is about to take the messages in main_
  std::vector<Waiter*> followers_;
  uint64_t next_id_ = 1;
  std::unordered_map<uint64_t, std::shared_ptr<Exchange>> open_;  // shared with waiting threads
  size_t background_ = 0;                                         // open background exchanges
  Chores chores_;
  bool urgent_ = false;  // a thread waits for a chore
  bool ended_ = false;
  bool broken_ = false;
  std::string why_;
  std::condition_variable lead_free_;

  std::thread reader_;
  Waiter reader_waiter_;
  std::condition_variable reader_wake_;
  bool reader_sleeps_ = false;
  bool watches_checks_ = false;
};

}  // namespace braid
