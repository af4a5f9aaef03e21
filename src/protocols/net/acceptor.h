// Acceptor: accepts connections at the listening sockets of a port, and distributes them over the loops of a
// server in turn. A connection then stays with its loop. (With one listening socket for each loop the kernel
// would distribute by hash, and two clients could share one loop while another is idle.)
//
// Runs on the loop of the first taker. The loops of all takers outlive the acceptor.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "protocols/net/client_limits.h"
#include "protocols/net/event_loop.h"
#include "protocols/net/listening_socket.h"

namespace braid {

class Acceptor final : public EventLoop::Watcher, public std::enable_shared_from_this<Acceptor> {
 public:
  struct Taker {
    EventLoop* loop;
    std::function<void(AcceptedSocket)> take;  // on the loop's thread
  };

  Acceptor(std::vector<ListeningSocket> sockets, std::shared_ptr<ClientLimits> limits,
           std::vector<Taker> takers)
      : sockets_(std::move(sockets)), limits_(std::move(limits)), takers_(std::move(takers)) {}

  // Starts to accept connections. Errors: those of the system. REQUIRES: the first loop does not run yet.
  Status Start();
  // Accepts no more connections. Call on the first loop's thread.
  void Stop();

 private:
  void OnEvents(uint32_t) override;
  // Accepts all pending connections. Returns false if descriptors or memory ran out before.
  bool TakeAll();
  EventLoop& loop() { return *takers_.front().loop; }

  std::vector<ListeningSocket> sockets_;        // empty once stopped
  const std::shared_ptr<ClientLimits> limits_;  // shared with the other ports
  const std::vector<Taker> takers_;
  size_t next_ = 0;
  std::optional<EventLoop::TimerKey> pause_;  // set while it waits for descriptors or memory
};

}  // namespace braid
