// The handshake by which a fork of a worker gets its own channel.
//
// A process that user code forks (multiprocessing, os.fork) inherits its parent's end of the channel, but two
// processes cannot share one end. The fork makes a pair of sockets and sends one of them to the server over
// the inherited channel's socket, where datagrams of several processes do not mix. It then wakes the server,
// which answers on the socket with the descriptors of a new channel.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "base/unique_fd.h"
#include "ipc/channel.h"

namespace braid {

// Requests a channel in the fork, and waits for it for up to `timeout_ns`. Errors: UNAVAILABLE.
Result<Channel::WorkerEnd> RequestForkChannel(Channel& inherited, int64_t timeout_ns);

// Answers a fork in the server, on a socket from Channel::TakeForkSockets(); does not block. To refuse a
// fork, close its socket instead. Errors: UNAVAILABLE if the fork is gone.
Status GrantForkChannel(const UniqueFd& fork_socket, const Channel::WorkerEnd& end);

}  // namespace braid
