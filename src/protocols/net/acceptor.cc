#include "protocols/net/acceptor.h"

#include <sys/epoll.h>

#include <algorithm>

#include "base/clock.h"
#include "base/guard.h"

namespace braid {
namespace {

// The pause before accepting again when descriptors or memory ran out.
constexpr int64_t kPauseNs = 100'000'000;

}  // namespace

Status Acceptor::Start() {
  for (const ListeningSocket& socket : sockets_) {
    BRAID_RETURN_IF_ERROR(loop().Watch(socket.fd.get(), EPOLLIN, shared_from_this()));
  }
  return OkStatus();
}

void Acceptor::Stop() {
  if (sockets_.empty()) return;
  if (pause_) loop().Withdraw(*pause_);
  for (const ListeningSocket& socket : sockets_) loop().Unwatch(socket.fd.get());
  sockets_.clear();
}

void Acceptor::OnEvents(uint32_t) {
  if (sockets_.empty() || pause_) return;
  bool all = false;
  GuardedOrReport("accepting connections", [&] { all = TakeAll(); });
  if (all) return;
  // No event reports connections that are already pending.
  const RetryingAllocation retrying;
  pause_ = loop().At(SteadyNowNs() + kPauseNs, [self = shared_from_this()] {
    self->pause_.reset();
    self->OnEvents(0);
  });
}

bool Acceptor::TakeAll() {
  const auto deal = [this](AcceptedSocket client) {
    const Taker& taker = takers_[next_++ % takers_.size()];
    if (taker.loop == &loop()) {
      taker.take(std::move(client));
      return;
    }
    // std::function must be copyable, so the descriptor travels in a shared pointer.
    taker.loop->Post([&taker, shared = std::make_shared<AcceptedSocket>(std::move(client))] {
      taker.take(std::move(*shared));
    });
  };
  return std::ranges::all_of(sockets_, [&](const ListeningSocket& socket) {
    return AcceptAll(socket.fd.get(), *limits_->connections, deal);
  });
}

}  // namespace braid
