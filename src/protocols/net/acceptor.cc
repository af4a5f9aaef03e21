#include "protocols/net/acceptor.h"

#include <sys/epoll.h>

#include "base/clock.h"
#include "base/guard.h"

namespace braid {
namespace {

// How long it rests when there are no descriptors, or no memory, left.
constexpr int64_t kPauseNs = 100'000'000;

}  // namespace

Status Acceptor::Start() { return loop().Watch(fd_.get(), EPOLLIN, shared_from_this()); }

void Acceptor::Stop() {
  if (!fd_.valid()) return;
  if (pause_) loop().Withdraw(*pause_);
  loop().Unwatch(fd_.get());
  fd_.Reset();
}

void Acceptor::OnEvents(uint32_t) {
  if (!fd_.valid() || pause_) return;
  bool all = false;
  GuardedOrReport("accepting connections", [&] { all = TakeAll(); });
  if (all) return;
  // No event tells of those that wait already.
  const PatientAllocation patience;
  pause_ = loop().At(SteadyNowNs() + kPauseNs, [self = shared_from_this()] {
    self->pause_.reset();
    self->OnEvents(0);
  });
}

bool Acceptor::TakeAll() {
  return AcceptAll(fd_.get(), *limits_->connections, [this](AcceptedSocket client) {
    const Taker& taker = takers_[next_++ % takers_.size()];
    if (taker.loop == &loop()) {
      taker.take(std::move(client));
      return;
    }
    // std::function must be copyable, so the descriptor travels in a shared pointer.
    taker.loop->Post([&taker, shared = std::make_shared<AcceptedSocket>(std::move(client))] {
      taker.take(std::move(*shared));
    });
  });
}

}  // namespace braid
