// What a process that user code has forked from the worker's does to call the server: it starts a
// conversation of its own. What it has inherited stays where it is, because Python objects name its memory;
// nothing is said or heard there any more.
#include "ipc/fork_rendezvous.h"
#include "worker/extension/worker.h"

namespace braid {
namespace {

constexpr int64_t kForkSignalNs = 10'000'000'000;

}  // namespace

void Worker::AfterForkInChild() {
  // A child's child asks by way of the worker's channel as well.
  if (inherited_ == nullptr) inherited_ = &connection_->channel();
  connection_->MarkForked();
  in_loop_ = false;
  calls_.ForgetAll();
  // Its locks may be held by threads that are not here, so it cannot be ended; and nothing is read any more.
  static_cast<void>(inbox_.release());
  inbox_ = std::make_unique<Inbox>(connection_->channel(), [] {});
  inbox_->Break(connection_->CheckOpen().message());
}

Status Worker::EnsureConversation() {
  if (!connection_->forked()) return OkStatus();
  BRAID_ASSIGN_OR_RETURN(Channel::WorkerEnd end, RequestForkChannel(*inherited_, kForkSignalNs));
  BRAID_ASSIGN_OR_RETURN(auto own, Connection::Open(std::move(end)));
  if (arena_keep_bytes_ != 0) own->ConfigureArena(arena_keep_bytes_);
  BRAID_RETURN_IF_ERROR(own->StartWatching(Connection::Alone::kEnds));
  static_cast<void>(connection_.release());
  connection_ = std::move(own);
  inbox_->End("");
  inbox_ = MakeInbox();
  return OkStatus();
}

}  // namespace braid
