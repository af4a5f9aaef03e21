// The settings of an HTTP listener.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "protocols/net/client_limits.h"
#include "protocols/net/control_pool.h"
#include "protocols/net/listening_socket.h"
#include "protocols/net/tls.h"

namespace braid {

class ThreadWatch;

struct HttpListenerOptions {
  std::string address = "0.0.0.0";
  uint16_t port = 0;  // 0: the system chooses
  // Allows another process to listen on the same port.
  bool reuse_port = false;
  uint32_t unix_socket_mode = kUnixSocketMode;
  int threads = 2;
  // The threads are named "{thread_name}-0", ...
  std::string thread_name = "brd-http";
  ThreadWatch* thread_watch = nullptr;  // reports threads that hang; outlives the listener; null: none
  std::shared_ptr<ClientLimits> limits = nullptr;  // shared with other ports; null: its own

  // For the protocol "http/1.1". Shared with the code that reloads its files; null: no TLS.
  std::shared_ptr<TlsSource> tls = nullptr;

  // Threads that pass large fronts of bodies to calls (HttpCall::kLargeFront) and write large responses.
  // Shared with the connections; null: the io threads do this.
  std::shared_ptr<ControlPool> large_pool = nullptr;

  // The limit of a body, before and after decompression.
  size_t max_body_bytes = size_t{64} * 1024 * 1024;
  // Follows "... exceeds the maximum allowed input size of {n} bytes."; begins with a space.
  std::string body_limit_hint;
  size_t max_header_bytes = size_t{32} * 1024;
  size_t max_header_fields = 256;
  size_t max_chunks = 65'536;

  // Time between requests.
  std::chrono::milliseconds idle_timeout = std::chrono::minutes(10);
  // Time from the first byte of a request to the end of its headers, and for a TLS handshake.
  std::chrono::milliseconds header_timeout = std::chrono::seconds(30);
  // Time for each 64 KiB of a body.
  std::chrono::milliseconds body_timeout = std::chrono::seconds(60);
  // Time without progress of a response.
  std::chrono::milliseconds write_timeout = std::chrono::seconds(60);
  // Time to read and discard the rest of a refused request, so that its client can read the response.
  std::chrono::milliseconds linger_timeout = std::chrono::seconds(10);
};

}  // namespace braid
