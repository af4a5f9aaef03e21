// The part of Worker for a forked child of user code: to call the server, it opens a connection of its own.
// The inherited connection stays allocated, because Python objects refer to its memory, but is never used
// again.
#include "ipc/fork_rendezvous.h"
#include "worker/extension/worker.h"

namespace braid {
namespace {

constexpr int64_t kForkSignalNs = 10'000'000'000;

}  // namespace

void Worker::AfterForkInChild() {
  // A grandchild also asks through the worker's channel.
  if (inherited_ == nullptr) inherited_ = &connection_->channel();
  connection_->MarkForked();
  in_loop_ = false;
  calls_.ForgetAll();
  // Threads that do not exist here may hold its locks, so it cannot be ended. It reads no more messages.
  static_cast<void>(inbox_.release());
  inbox_ = std::make_unique<Inbox>(connection_->channel(), [] {});
  inbox_->Break(connection_->CheckOpen().message());
}

void Worker::Become(std::unique_ptr<Connection> connection) {
  static_cast<void>(connection_.release());
  connection_ = std::move(connection);
  header_ = &connection_->header();
  inherited_ = nullptr;
  inbox_->End("");
  inbox_ = MakeInbox();
  ended_ = false;
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
