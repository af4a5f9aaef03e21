// IoThread: one thread with an event loop and its connections. Internal to the HTTP server core.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>

#include "base/status.h"
#include "protocols/http/exchange.h"
#include "protocols/http/options.h"
#include "protocols/net/event_loop.h"
#include "protocols/net/listening_socket.h"

namespace braid {

class Connection;

// Shared with its connections. A request that ends late may keep it longer than the listener lives.
class IoThread : public std::enable_shared_from_this<IoThread> {
 public:
  // Errors: those of the system, such as no free descriptors.
  static Result<std::shared_ptr<IoThread>> Create(size_t index, const HttpListenerOptions& options,
                                                  HttpService& service,
                                                  std::atomic<size_t>& connection_count);
  ~IoThread();

  void Start();
  // Ends the loop and joins the thread. REQUIRES: no connections (see AbortAll()).
  void Stop() { loop_->Stop(); }

  // Runs `task` on this thread. Returns false, and does not run it, after Stop(). Any thread.
  bool Post(std::function<void()> task) { return loop_->Post(std::move(task)); }

  // Call the functions below on this thread only.

  // Takes over an accepted socket.
  void Adopt(AcceptedSocket socket);
  // Closes connections as they become idle.
  void Drain();
  // Cancels running requests and closes all connections.
  void AbortAll();
  // Removes a connection that has closed.
  void Forget(const std::shared_ptr<Connection>& connection);

  EventLoop& loop() { return *loop_; }
  size_t index() const { return index_; }
  const HttpListenerOptions& options() const { return options_; }
  HttpService& service() { return service_; }
  // Whether connections close after their current request. Any thread.
  bool draining() const { return draining_.load(std::memory_order_relaxed); }

 private:
  IoThread(size_t index, const HttpListenerOptions& options, HttpService& service,
           std::atomic<size_t>& connection_count, std::unique_ptr<EventLoop> loop);
  void ArmSweep();
  void Sweep();

  const size_t index_;
  const HttpListenerOptions options_;
  HttpService& service_;
  std::atomic<size_t>& connection_count_;  // of the listener; not used after Stop()
  std::atomic<bool> draining_{false};
  const std::unique_ptr<EventLoop> loop_;
  // Owned by this thread.
  std::optional<EventLoop::TimerKey> sweep_timer_;
  std::unordered_set<std::shared_ptr<Connection>> connections_;
};

}  // namespace braid
