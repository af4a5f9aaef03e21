// How a fork of a worker comes by a channel of its own.
//
// A process that user code forks (multiprocessing, os.fork) has inherited its parent's end of the channel,
// but two processes cannot take part in one conversation. The fork makes a pair of sockets, hands one of them
// to the server over the inherited channel's socket, where datagrams of several processes do not mix, and
// makes the server look up. The server answers on it with the descriptors of a new channel.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "base/unique_fd.h"
#include "ipc/channel.h"

namespace braid {

// In the fork: asks for a channel and waits for it, for at most `timeout_ns`. Errors: UNAVAILABLE.
Result<Channel::WorkerEnd> RequestForkChannel(Channel& inherited, int64_t timeout_ns);

// In the server: answers a fork on its socket, of Channel::TakeForkSockets(); does not block. To refuse a fork, close
// its socket instead. Errors: UNAVAILABLE when the fork is gone.
Status GrantForkChannel(const UniqueFd& fork_socket, const Channel::WorkerEnd& end);

}  // namespace braid
