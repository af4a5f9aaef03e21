#include "ipc/channel.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/send_descriptors.h"

namespace braid {
namespace {

constexpr size_t kAlign = 4096;
constexpr size_t kHeaderBytes = (sizeof(ChannelHeader) + kAlign - 1) / kAlign * kAlign;

// The note that goes over the socket with each descriptor.
struct SegmentNote {
  uint64_t size;
  uint32_t id;
  uint32_t kind;
  GpuUuid gpu;  // for kDeviceSegment
};
constexpr uint32_t kSegment = 0;
constexpr uint32_t kForkSocket = 1;
constexpr uint32_t kDeviceSegment = 2;
// The most requests of forks that the server has not taken yet.
constexpr size_t kMostForkSockets = 1024;

// The queue size that each socket asks for; the system's limit may grant less. A descriptor takes about 1 KiB
// of it.
constexpr int kSocketBytes = 4 << 20;

std::atomic<uint32_t> g_spin_ns{0};

bool GoodRingBytes(size_t bytes) {
  return std::has_single_bit(bytes) && bytes >= (size_t{4} << 10) && bytes <= (size_t{1} << 30);
}

int Duplicate(int fd) { return fcntl(fd, F_DUPFD_CLOEXEC, 0); }

// Takes one descriptor with its note; returns an invalid descriptor if there is none now.
Result<UniqueFd> ReceiveDescriptor(int socket, bool wait, SegmentNote& note) {
  iovec part{&note, sizeof(note)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t length = 0;
  do {
    length = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
    // If a peer ended without taking all that this end sent, the socket reports that once, before the peer's
    // own data.
  } while (length < 0 && (errno == EINTR || errno == ECONNRESET));
  if (length < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return UniqueFd();
  if (length < 0) return UnavailableError(ErrnoError("the peer's socket", errno).message());
  // All received descriptors must be taken, or they stay open: the room for one, rounded up, holds two.
  UniqueFd fd;
  size_t descriptors = 0;
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = CMSG_LEN(0); at + sizeof(int) <= head->cmsg_len; at += sizeof(int)) {
      int received = -1;
      std::memcpy(&received, reinterpret_cast<const std::byte*>(head) + at, sizeof(received));
      fd.Reset(received);
      ++descriptors;
    }
  }
  if (length == 0) return UnavailableError("the peer is gone");
  if (descriptors == 0 && (message.msg_flags & MSG_CTRUNC) != 0)
    return UnavailableError("no descriptor is left for a peer's segment; raise the limit of open files");
  if (length != sizeof(note) || descriptors != 1 || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
    return InvalidArgumentError("the peer sent something that is not a segment");
  return fd;
}

// Creates a pipe that each side opens separately for reading and writing. Blocking is a property of the open
// file: if it were shared, as an eventfd's is, the worker could make the server's writes block.
void MakeWakePipe(UniqueFd& ours, UniqueFd& theirs) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  const UniqueFd read(ends[0]);
  const UniqueFd write(ends[1]);
  const std::string path = "/proc/self/fd/" + std::to_string(read.get());
  ours.Reset(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  theirs.Reset(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
}

}  // namespace

Channel::Channel(std::shared_ptr<Segment> memory, UniqueFd socket, UniqueFd wake, bool server_end,
                 const Options& options)
    : server_end_(server_end),
      options_(options),
      memory_(std::move(memory)),
      header_(reinterpret_cast<ChannelHeader*>(memory_->base())),
      socket_(std::move(socket)),
      wake_(std::move(wake)),
      peer_ring_(server_end ? &header_->to_worker : &header_->to_server),
      reader_(server_end ? &header_->to_server : &header_->to_worker,
              memory_->base() + kHeaderBytes + (server_end ? options.ring_bytes : 0), options.ring_bytes),
      writer_(peer_ring_, memory_->base() + kHeaderBytes + (server_end ? 0 : options.ring_bytes),
              options.ring_bytes) {}

Result<std::unique_ptr<Channel>> Channel::CreateServerEnd(const Options& options, WorkerEnd& worker_end) {
  if (!GoodRingBytes(options.ring_bytes)) {
    return InvalidArgumentError("the rings of a channel cannot have " + std::to_string(options.ring_bytes) +
                                " bytes; expected a power of two from 4 KiB to 1 GiB");
  }
  BRAID_ASSIGN_OR_RETURN(auto memory, Segment::Create(0, kHeaderBytes + 2 * options.ring_bytes));
  auto* header = new (memory->base()) ChannelHeader{};
  header->magic = ChannelHeader::kMagic;
  header->ring_bytes = static_cast<uint32_t>(options.ring_bytes);
  header->max_message = options.max_message;
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
    return UnavailableError(ErrnoError("socketpair", errno).message());
  }
  UniqueFd ours(sockets[0]);
  worker_end.socket.Reset(sockets[1]);
  for (int socket : sockets) setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &kSocketBytes, sizeof(kSocketBytes));
  UniqueFd wake;
  if (options.wake_by_socket) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
      return UnavailableError(ErrnoError("socketpair", errno).message());
    }
    wake.Reset(ends[0]);
    worker_end.wake.Reset(ends[1]);
  } else {
    MakeWakePipe(wake, worker_end.wake);
  }
  worker_end.memory.Reset(Duplicate(memory->fd()));
  if (!wake.valid() || !worker_end.memory.valid() || !worker_end.wake.valid()) {
    return UnavailableError(ErrnoError("descriptors of a channel", errno).message());
  }
  return std::unique_ptr<Channel>(
      new Channel(std::move(memory), std::move(ours), std::move(wake), true, options));
}

Result<std::unique_ptr<Channel>> Channel::OpenWorkerEnd(WorkerEnd worker_end) {
  // The server made this memory, so its header is trusted. The sizes are still checked against the memory.
  Options options;
  {
    BRAID_ASSIGN_OR_RETURN(auto head,
                           Segment::Import(0, UniqueFd(Duplicate(worker_end.memory.get())), kHeaderBytes));
    const auto* header = reinterpret_cast<const ChannelHeader*>(head->base());
    if (header->magic != ChannelHeader::kMagic || !GoodRingBytes(header->ring_bytes))
      return InvalidArgumentError("not the memory of a channel");
    options.ring_bytes = header->ring_bytes;
    options.max_message = header->max_message;
  }
  BRAID_ASSIGN_OR_RETURN(
      auto memory, Segment::Import(0, std::move(worker_end.memory), kHeaderBytes + 2 * options.ring_bytes));
  return std::unique_ptr<Channel>(new Channel(std::move(memory), std::move(worker_end.socket),
                                              std::move(worker_end.wake), false, options));
}

// Writes as much of the message as fits; returns true if all of it is written.
bool Channel::Write(std::span<const std::byte> message, size_t& done) {
  const size_t part = writer_.max_record();
  do {
    const size_t length = std::min(part, message.size() - done);
    if (!writer_.Write(message.subspan(done, length), done + length < message.size())) return false;
    done += length;
  } while (done < message.size());
  return true;
}

// Writes waiting messages; returns true if all are written.
bool Channel::WriteWaiting() {
  while (!waiting_.empty()) {
    Waiting& front = waiting_.front();
    if (!Write(front.message, front.done)) return false;
    waiting_bytes_ -= front.message.size();
    waiting_.pop_front();
  }
  has_waiting_.store(false, std::memory_order_relaxed);
  return true;
}

void Channel::CloseDescriptors() {
  socket_.Reset();
  wake_.Reset();
  memory_->CloseDescriptor();
}

void Channel::FlushLocked() {
  if (WriteWaiting()) return;
  writer_.WantSpace();
  // Uses the room that the peer made before it could see `space_wanted`. The peer reports room made later.
  WriteWaiting();
}

void Channel::WakePeer(RingSleep sleep) {
  if (sleep == kRingOnFutex) {
    WakeFutex(peer_ring_);
  } else if (sleep == kRingOnEventFd) {
    const uint64_t one = 1;
    // A full pipe means that a wake-up of the peer is already pending.
    [[maybe_unused]] ssize_t written = ::write(wake_.get(), &one, sizeof(one));
  }
}

Status Channel::Send(std::span<const std::byte> message, bool quietly) {
  RingSleep sleep = kRingAwake;
  {
    if (message.empty() || message.size() > options_.max_message) {
      return InvalidArgumentError("a message of " + std::to_string(message.size()) +
                                  " bytes exceeds the limit of a worker's channel, " +
                                  std::to_string(options_.max_message));
    }
    MutexLock lock(send_mutex_);
    if (waiting_bytes_ > options_.max_pending_bytes)
      return UnavailableError("the peer does not read its messages");
    size_t done = 0;
    if (!writer_.corrupted() && (!waiting_.empty() || !Write(message, done))) {
      waiting_.push_back({{message.begin(), message.end()}, done});
      waiting_bytes_ += message.size();
      has_waiting_.store(true, std::memory_order_relaxed);
      quietly = false;
      FlushLocked();
    }
    if (writer_.corrupted()) return UnavailableError("the peer wrote invalid data to its channel");
    if (quietly) {
      writer_.PublishQuietly();
    } else {
      sleep = writer_.Publish();
    }
  }
  WakePeer(sleep);
  return OkStatus();
}

void Channel::Flush() {
  // A sender sets it before it asks the peer for space, so the message that tells of space finds it set.
  if (!has_waiting()) return;
  RingSleep sleep = kRingAwake;
  {
    MutexLock lock(send_mutex_);
    if (waiting_.empty()) return;
    FlushLocked();
    sleep = writer_.Publish();
  }
  WakePeer(sleep);
}

Channel::Outcome Channel::Receive(std::vector<std::byte>& message, int64_t timeout_ns) {
  handled_.store(reader_.read(), std::memory_order_release);
  int64_t deadline_ns = 0;  // set at the first wait
  while (true) {
    const RingReader::Outcome outcome = reader_.Read(message, options_.max_message);
    if (outcome == RingReader::Outcome::kCorrupted) return Outcome::kCorrupted;
    // Not only after a message: the ring may be full of a part of one.
    if (reader_.TakeSpaceWanted()) TellOfSpace();
    const bool got_one = outcome == RingReader::Outcome::kMessage;
    if (got_one && !message.empty()) return Outcome::kMessage;
    // The ring is empty, or an empty message reports space.
    Flush();
    if (got_one) {
      // A peer that sends only empty messages keeps this loop until an interrupt at most.
      if (reader_.TakeInterrupt()) return Outcome::kTimeout;
      continue;
    }
    if (timeout_ns <= 0) return Outcome::kTimeout;
    const int64_t now_ns = SteadyNowNs();
    if (deadline_ns == 0) deadline_ns = timeout_ns < INT64_MAX - now_ns ? now_ns + timeout_ns : INT64_MAX;
    if (now_ns >= deadline_ns || !reader_.Wait(deadline_ns - now_ns, SpinNs())) return Outcome::kTimeout;
  }
}

void Channel::SetSpinNs(int64_t spin_ns) {
  g_spin_ns.store(static_cast<uint32_t>(std::clamp<int64_t>(spin_ns, 0, kMostSpinNs)),
                  std::memory_order_relaxed);
}

// The worker's end learns of a change when the server's end receives next.
int64_t Channel::SpinNs() {
  if (!server_end_) return header_->spin_ns.load(std::memory_order_relaxed);
  const uint32_t spin_ns = g_spin_ns.load(std::memory_order_relaxed);
  if (header_->spin_ns.load(std::memory_order_relaxed) != spin_ns) {
    header_->spin_ns.store(spin_ns, std::memory_order_relaxed);
  }
  return spin_ns;
}

void Channel::TellOfSpace() {
  // By a message rather than a bare wake-up, which could fall between the peer's last check and its sleep. A
  // waiting message serves as well as an empty one. If neither fits, the peer has messages to read, perhaps
  // quiet ones, and checks for space after them anyway.
  RingSleep sleep = kRingAwake;
  {
    MutexLock lock(send_mutex_);
    FlushLocked();
    if (waiting_.empty()) writer_.Write({}, false);
    sleep = writer_.Publish();
  }
  WakePeer(sleep);
}

Status Channel::SendSegment(const Segment& segment, uint32_t as) {
  const bool device = segment.on_device();
  return SendDescriptor(segment.fd(), segment.size(), as, device ? kDeviceSegment : kSegment,
                        device ? segment.gpu() : GpuUuid());
}

Status Channel::SendForkSocket(int socket) {
  BRAID_RETURN_IF_ERROR(SendDescriptor(socket, 0, 0, kForkSocket, {}));
  RequestForkChannelOn(peer_ring_);
  return OkStatus();
}

std::vector<UniqueFd> Channel::TakeForkSockets() {
  MutexLock lock(fork_mutex_);
  return std::exchange(fork_sockets_, {});
}

Status Channel::SendDescriptor(int fd, uint64_t size, uint32_t id, uint32_t kind, const GpuUuid& gpu) {
  const SegmentNote note{size, id, kind, gpu};
  return SendDescriptors(socket_.get(), std::as_bytes(std::span(&note, 1)), {&fd, 1}, MSG_DONTWAIT,
                         "cannot send shared memory to the peer");
}

Result<std::shared_ptr<Segment>> Channel::ReceiveSegment(bool wait) {
  for (;;) {
    SegmentNote note{};
    BRAID_ASSIGN_OR_RETURN(UniqueFd fd, ReceiveDescriptor(socket_.get(), wait, note));
    if (!fd.valid()) return std::shared_ptr<Segment>();
    if (note.kind == kSegment) return Segment::Import(note.id, std::move(fd), note.size, options_.imports);
    if (note.kind == kDeviceSegment)
      return Segment::OfDevice(note.id, std::move(fd), note.size, note.gpu, options_.imports);
    MutexLock lock(fork_mutex_);
    if (fork_sockets_.size() >= kMostForkSockets)
      return InvalidArgumentError("the peer's forks request too many channels");
    fork_sockets_.push_back(std::move(fd));
  }
}

}  // namespace braid
