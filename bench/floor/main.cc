// braid_floor: the least that a server with a Python worker costs. Its sockets, HTTP/2 library, memory and
// wake-ups are like Braid's, and it copies each tensor once, into shared memory. It has no scheduler, checks,
// statistics, cancellation, limits or errors. bench/run-floor measures Braid beside it.
//
//   braid_floor MODEL GRPC_PORT HTTP_PORT PYTHON    serves add_sub or identity over FP32 on loopback
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>

#include "http1.h"
#include "http2.h"

namespace braid::floor {
namespace {

int Listen(int port) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener, 512) != 0) {
    std::perror("listen");
    std::exit(1);
  }
  return listener;
}

class Loop {
 public:
  Loop(Calls* calls, int grpc_port, int http_port)
      : calls_(calls), grpc_listener_(Listen(grpc_port)), http_listener_(Listen(http_port)) {
    Watch(EPOLL_CTL_ADD, grpc_listener_, EPOLLIN);
    Watch(EPOLL_CTL_ADD, http_listener_, EPOLLIN);
    Watch(EPOLL_CTL_ADD, calls->wake_up(), EPOLLIN | EPOLLET);
  }

  // Serves until `signals` can be read.
  void Run(int signals) {
    Watch(EPOLL_CTL_ADD, signals, EPOLLIN);
    for (;;) {
      do {
        while (calls_->Deliver()) {
        }
        Send();
      } while (!calls_->Sleep());
      epoll_event events[64];
      const int count = epoll_wait(epoll_, events, 64, -1);
      for (int k = 0; k < count; ++k) {
        const int file = events[k].data.fd;
        if (file == signals) return;
        if (file == grpc_listener_ || file == http_listener_) {
          Accept(file);
        } else if (const auto found = connections_.find(file); found != connections_.end()) {
          Connection& connection = *found->second;
          const bool open = ((events[k].events & EPOLLOUT) == 0 || Write(&connection)) &&
                            ((events[k].events & ~EPOLLOUT) == 0 || connection.Read());
          if (!open) connections_.erase(found);
        }
      }
    }
  }

 private:
  void Watch(int operation, int file, uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.fd = file;
    epoll_ctl(epoll_, operation, file, &event);
  }

  void Accept(int listener) {
    const int accepted = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (accepted < 0) return;
    const int on = 1;
    setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    Watch(EPOLL_CTL_ADD, accepted, EPOLLIN);
    if (listener == grpc_listener_) {
      connections_[accepted] = std::make_unique<Http2Connection>(accepted, calls_, &unsent_);
    } else {
      connections_[accepted] = std::make_unique<Http1Connection>(accepted, calls_, &unsent_);
    }
  }

  bool Write(Connection* connection) {
    const bool blocked = connection->blocked();
    if (!connection->Write()) return false;
    if (connection->blocked() != blocked) {
      Watch(EPOLL_CTL_MOD, connection->socket(), EPOLLIN | (blocked ? 0U : static_cast<uint32_t>(EPOLLOUT)));
    }
    return true;
  }

  void Send() {
    std::vector<Connection*> unsent = std::move(unsent_);
    unsent_.clear();
    for (Connection* connection : unsent) {
      if (!Write(connection)) connections_.erase(connection->socket());
    }
  }

  Calls* calls_;
  int epoll_ = epoll_create1(EPOLL_CLOEXEC);
  int grpc_listener_;
  int http_listener_;
  std::vector<Connection*> unsent_;
  std::map<int, std::unique_ptr<Connection>> connections_;
};

}  // namespace
}  // namespace braid::floor

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: braid_floor MODEL GRPC_PORT HTTP_PORT PYTHON\n");
    return 2;
  }
  // The worker inherits an empty mask; only this program reads its signals from a file.
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  braid::floor::Calls calls(argv[4], BRAID_FLOOR_WORKER, folder / "bench/floor", argv[1]);
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  braid::floor::Loop loop(&calls, std::atoi(argv[2]), std::atoi(argv[3]));
  loop.Run(signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK));
  return 0;
}
