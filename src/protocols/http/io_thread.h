// IoThread: one thread with an event loop and the connections that belong to it. Internal to the HTTP server
// core.
#pragma once

#include <utility>  // asio of Boost 1.81 uses std::exchange without including it

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_set>

#include "base/mutex.h"
#include "protocols/http/exchange.h"
#include "protocols/http/options.h"
#include "protocols/net/listening_socket.h"

namespace braid {

class Connection;

// Shared with its connections, which requests that end late may keep longer than the listener lives.
class IoThread : public std::enable_shared_from_this<IoThread> {
 public:
  IoThread(size_t index, const HttpListenerOptions& options, HttpService& service,
           std::atomic<size_t>& connection_count);
  ~IoThread();

  void Start();
  // Ends the loop and waits for the thread. REQUIRES: no connections are left (AbortAll).
  void Stop();

  // Runs `task` on this thread; false, and no run, once Stop() was called. Any thread.
  bool Post(std::function<void()> task);

  // The rest: on this thread only.

  // Takes over a connected socket.
  void Adopt(AcceptedSocket socket);
  // Closes connections as they become idle.
  void Drain();
  // Cancels what runs and closes everything.
  void AbortAll();
  // Called by a connection that has closed.
  void Forget(const std::shared_ptr<Connection>& connection);

  boost::asio::io_context& context() { return context_; }
  size_t index() const { return index_; }
  const HttpListenerOptions& options() const { return options_; }
  HttpService& service() { return service_; }
  // Whether connections end after their present request. Any thread.
  bool draining() const { return draining_.load(std::memory_order_relaxed); }

 private:
  void ArmSweep();
  void Sweep();

  const size_t index_;
  const HttpListenerOptions options_;
  HttpService& service_;
  std::atomic<size_t>& connection_count_;  // of the listener; not touched after Stop()
  std::atomic<bool> draining_{false};
  Mutex post_mutex_;
  bool stopped_ BRAID_GUARDED_BY(post_mutex_) = false;

  boost::asio::io_context context_{1};
  // Owned by this thread.
  boost::asio::steady_timer sweep_timer_{context_};
  std::unordered_set<std::shared_ptr<Connection>> connections_;
  std::thread thread_;
};

}  // namespace braid
