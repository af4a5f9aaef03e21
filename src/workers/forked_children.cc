#include "workers/forked_children.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <system_error>
#include <utility>
#include <vector>

#include "base/guard.h"
#include "base/thread.h"
#include "ipc/fork_rendezvous.h"
#include "ipc/messages.h"
#include "workers/worker_conversation.h"

namespace braid {
namespace {

// Smaller than a worker's: there may be many, and they get no executions.
constexpr size_t kRingBytes = size_t{64} << 10;
constexpr int kLookAroundMs = 1000;

}  // namespace

class ForkedChildren::Child {
 public:
  Child(ForkedChildren& owner, std::shared_ptr<Channel> channel)
      : owner_(owner),
        channel_(std::move(channel)),
        conversation_(channel_, owner.arena_, owner.services_, owner.log_, [&owner](const CallMessage&) {
          return WorkerConversation::Origin{owner.chain_, {}};
        }) {}
  ~Child() {
    if (!thread_.joinable()) return;
    stopping_.store(true, std::memory_order_release);
    // The thread treats this as the end of the process.
    shutdown(channel_->wake_fd(), SHUT_RDWR);
    thread_.join();
  }

  void Start() {
    thread_ = StartThread("brd-py-fork", [this] { Run(); });
  }
  bool ended() const { return ended_.load(std::memory_order_acquire); }

 private:
  void Run() {
    if (Status status = Guarded([this] { return Serve(); }); !status.ok()) {
      BRAID_LOG_WARNING(owner_.log_, "closed the channel of a forked process of instance '{}': {}",
                        owner_.chain_->instance, status.message());
    }
    conversation_.Abandon();
    ended_.store(true, std::memory_order_release);
  }

  // Serves until the process is gone. Errors: it broke the rules.
  Status Serve() {
    std::vector<std::byte> message;
    bool gone = false;
    while (!stopping_.load(std::memory_order_acquire)) {
      switch (channel_->Receive(message, 0)) {
        case Channel::Outcome::kMessage:
          BRAID_RETURN_IF_ERROR(Handle(message));
          break;
        case Channel::Outcome::kCorrupted:
          return InvalidArgumentError("it wrote invalid data to its channel");
        case Channel::Outcome::kTimeout:
          if (conversation_.stuck())
            return InvalidArgumentError("it does not read the responses to its calls");
          // All messages from before its end were received.
          if (gone) return OkStatus();
          gone = !Sleep();
          break;
      }
    }
    return OkStatus();
  }

  // Waits for a message. Returns false when the process is gone.
  bool Sleep() {
    if (!channel_->reader().SleepOnEventFd()) return true;
    pollfd wake{channel_->wake_fd(), POLLIN | POLLRDHUP, 0};
    poll(&wake, 1, kLookAroundMs);
    channel_->reader().Awake();
    std::array<char, 256> bytes;
    while (recv(channel_->wake_fd(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
    }
    return (wake.revents & (POLLHUP | POLLRDHUP | POLLERR)) == 0;
  }

  Status Handle(const std::vector<std::byte>& message) {
    BRAID_ASSIGN_OR_RETURN(const bool handled, conversation_.Handle(message));
    return handled ? OkStatus() : WorkerConversation::Malformed();
  }

  ForkedChildren& owner_;
  const std::shared_ptr<Channel> channel_;  // shared with pending answers
  WorkerConversation conversation_;         // owned by the thread once it runs
  std::atomic<bool> stopping_{false};
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

ForkedChildren::ForkedChildren(const WorkerServices& services, Arena& arena, Logger& log,
                               std::shared_ptr<const CallChain> chain, std::shared_ptr<SegmentBudget> imports)
    : services_(services), arena_(arena), log_(log), chain_(std::move(chain)), imports_(std::move(imports)) {}

ForkedChildren::~ForkedChildren() = default;

void ForkedChildren::DropEnded() {
  std::erase_if(children_, [](const auto& child) { return child->ended(); });
}

size_t ForkedChildren::size() {
  DropEnded();
  return children_.size();
}

void ForkedChildren::Admit(UniqueFd fork_socket) {
  DropEnded();
  Status status;
  if (children_.size() >= kMostChildren) {
    status = UnavailableError(std::to_string(kMostChildren) + " of them already call the server");
  } else {
    Channel::Options options;
    options.ring_bytes = kRingBytes;
    options.wake_by_socket = true;
    options.imports = imports_;
    Channel::WorkerEnd end;
    auto channel = Channel::CreateServerEnd(options, end);
    status = channel.status();
    if (status.ok()) {
      auto child = std::make_unique<Child>(*this, std::move(channel).value());
      try {
        child->Start();
        status = GrantForkChannel(fork_socket, end);
        if (status.ok()) children_.push_back(std::move(child));
      } catch (const std::system_error& error) {
        status = UnavailableError(std::string("cannot start a thread: ") + error.what());
      }
    }
  }
  if (!status.ok()) {
    BRAID_LOG_WARNING(log_, "cannot open a channel for a forked process of instance '{}': {}",
                      chain_->instance, status.message());
  }
}

}  // namespace braid
