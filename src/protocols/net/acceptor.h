// Acceptor: takes in what connects to the listening sockets of a port, and deals it to the loops of a server in turn; from
// then on a connection stays with its loop. (With a listening socket for each loop the kernel would deal by
// hash, and of two clients both could land on one loop.)
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
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

  // The takers' loops outlive it. It lives on the first one's.
  Acceptor(std::vector<UniqueFd> sockets, std::shared_ptr<ClientLimits> limits, std::vector<Taker> takers)
      : sockets_(std::move(sockets)), limits_(std::move(limits)), takers_(std::move(takers)) {}

  // Before the first loop runs. Errors: those of the system.
  Status Start();
  // On the first loop's thread. No connection is taken in any more.
  void Stop();

 private:
  void OnEvents(uint32_t) override;
  // Whether all that waited are taken in; else there is no descriptor, or no memory, left.
  bool TakeAll();
  EventLoop& loop() { return *takers_.front().loop; }

  std::vector<UniqueFd> sockets_;               // none once it has stopped
  const std::shared_ptr<ClientLimits> limits_;  // shared with the other ports
  const std::vector<Taker> takers_;
  size_t next_ = 0;
  std::optional<EventLoop::TimerKey> pause_;  // while it rests
};

}  // namespace braid
