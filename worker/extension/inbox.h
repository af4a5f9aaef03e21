// Inbox: what the server says, sorted to whoever waits for it. Any thread that waits may be the one that
// reads.
//
// At any time at most one thread reads the channel: it has the lead. A thread that waits takes the lead when
// nobody has it, and sorts what comes: to the main thread (executions and the like), to exchanges (calls and
// questions of user code), to the chores (what needs the GIL, whoever does it). When it has what it waits
// for, it passes the lead to another that waits. So a call on a thread that runs alone costs no hand-over.
//
// Two stand in where no thread waits: the main thread's event loop, which the server wakes through the
// channel's wake-up descriptor, and the reader, a thread of the inbox that is started when somebody first
// needs it: for calls that are awaited in event loops of user code, for what did not fit into the ring, and
// for the readiness hook, for which it looks around from time to time.
//
// Waits are to be called without the GIL; everything else never waits, and any thread may call it unless it
// says otherwise.
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

// A call or a question to the server, and what has come for it. Its fields are the inbox's.
class Exchange {
 public:
  // What makes it a chore, once.
  enum class Notice : uint8_t {
    kNone,   // a thread waits for it
    kFirst,  // the first message
    kLast,   // the last one
  };

  explicit Exchange(uint64_t id) : id_(id) {}
  uint64_t id() const { return id_; }
  // The GPU of this process that outputs are wanted on. The caller's, with the GIL.
  std::optional<int> preferred_gpu;

 private:
  friend class Inbox;
  bool has_message() const { return taken_ < messages_.size(); }
  struct Waiter {
    std::condition_variable wake;
  };

  const uint64_t id_;
  std::vector<std::vector<std::byte>> messages_;
  size_t taken_ = 0;        // so many of them are gone
  bool ended_ = false;      // the last message has come
  bool discarded_ = false;  // nobody wants them
  bool background_ = false;
  Notice notice_ = Notice::kNone;
  std::vector<Waiter*> waiters_;  // threads that wait for it
};

class Inbox {
 public:
  enum class Outcome : uint8_t {
    kReady,
    kTimeout,
    kAttend,    // there are chores; then wait again
    kSummoned,  // by Summon()
    kEnded,     // the conversation is over, see why()
  };

  // `attend` does the chores; called by the reader, without the GIL.
  Inbox(Channel& channel, std::function<void()> attend);
  // REQUIRES: End() was called.
  ~Inbox();

  // --- The main thread's messages.

  // Takes the next, waiting for it up to `timeout_ns`; 0 does not wait, and is allowed with the GIL.
  Outcome Next(std::vector<std::byte>& message, int64_t timeout_ns);

  // --- The same for several threads that share them.

  // Waits until there are messages and none of the threads that have come back for them is still to take
  // them, or until Summon(); takes nothing. What is there is to be taken with the GIL, so that the messages
  // are handled in their order. kTimeout and kAttend come to the thread that reads alone.
  // REQUIRES: WillAwait() was called, once for each time; with the GIL, so that whoever has it next can count
  // on this thread.
  Outcome Await(int64_t timeout_ns);
  void WillAwait();
  // Takes a message that is there. False when there is none: only then does another thread come back for what
  // follows, so a thread that Await() has sent back is to call it until then.
  bool TakeMain(std::vector<std::byte>& message);
  // Sends a thread back that is in Await(), or about to be: one besides that which reads; or else, if wanted,
  // that one. False when there is none.
  bool Summon(bool reader_too);
  // So many threads are in Await(), or about to be, and were not sent back; one of them reads, if no other
  // thread does.
  size_t awaiting() const;

  // --- The event loop.

  // The main thread goes into its event loop, which polls Channel::wake_fd(), and comes back. When that is
  // readable, Next() is to be called until there is nothing more.
  void EnterLoop();
  void LeaveLoop();

  // --- Exchanges.

  // To be begun before the message that asks for them is sent. `background`: where a notice is wanted that no
  // thread and not the main thread's loop waits for.
  std::shared_ptr<Exchange> Begin(Exchange::Notice notice, bool background);
  // Waits for a message that can be taken, or for the end.
  Outcome Wait(Exchange& exchange);
  // Takes a message that is there. False when there is none.
  bool Take(Exchange& exchange, std::vector<std::byte>& message);
  // Whether the last message has come and is taken.
  bool Exhausted(const Exchange& exchange);
  // Whether the last message is still to come.
  bool Open(const Exchange& exchange);
  // Its message was not sent, so nothing will come.
  void Forget(Exchange& exchange);
  // Nobody wants it any more: what comes for it becomes a chore.
  void Discard(Exchange& exchange);

  // --- Chores: what needs the GIL.

  struct Chores {
    std::vector<std::shared_ptr<Exchange>> noticed;
    std::vector<uint64_t> checks;                      // of readiness
    std::vector<std::vector<std::byte>> housekeeping;  // kRelease and kRetireSegment
    std::vector<std::vector<std::byte>> discarded;     // messages that nobody wants
  };
  bool has_chores() const { return has_chores_.load(std::memory_order_acquire); }
  Chores TakeChores();

  // --- What else is read for.

  // Reads what is there, for whoever it is.
  void Poll();
  // To be called after a message was sent: some may have to wait for room.
  void Sent() {
    if (channel_.has_waiting()) WantReader();
  }
  // The model has a readiness hook.
  void WatchForChecks();

  // The server does not keep the rules: all waits end with it.
  void Break(std::string why);
  // Ends the conversation: all waits end with it. Returns when nobody reads any more; nobody will again.
  void End(std::string why);
  // Why the conversation has ended; "" before.
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
  Waiter* main_waiter_ = nullptr;      // in Next()
  std::vector<Waiter*> main_waiters_;  // in Await(), but for the one that reads
  bool main_reads_ = false;            // a thread in Await() does
  // Of the threads that are in Await(), or about to be: so many may stay, and so many are to come back.
  size_t awaiting_ = 0;
  size_t summoned_ = 0;
  bool claimed_ = false;  // a thread is on its way for what is in main_
  std::vector<Waiter*> followers_;
  uint64_t next_id_ = 1;
  std::unordered_map<uint64_t, std::shared_ptr<Exchange>> open_;  // shared with those who wait
  size_t background_ = 0;                                         // open exchanges of that kind
  Chores chores_;
  bool urgent_ = false;  // somebody waits for a chore to be done
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
