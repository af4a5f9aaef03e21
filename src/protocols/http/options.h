// The settings of an HTTP listener.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "protocols/net/client_limits.h"
#include "protocols/net/control_pool.h"
#include "protocols/net/tls.h"

namespace braid {

class ThreadWatch;

struct HttpListenerOptions {
  std::string address = "0.0.0.0";
  uint16_t port = 0;  // 0: the system chooses
  // Lets another process listen on the same port.
  bool reuse_port = false;
  int threads = 2;
  // Threads are "{thread_name}-0", ...
  std::string thread_name = "brd-http";
  ThreadWatch* thread_watch =
      nullptr;  // sees when one of them stands still; null: none. Outlives the listener.
  std::shared_ptr<ClientLimits> limits = nullptr;  // shared with other ports; null: its own

  // Of protocol "http/1.1", shared with who has it reloaded; null: none.
  std::shared_ptr<TlsSource> tls = nullptr;

  // Where calls are shown large fronts of bodies (HttpCall::kLargeFront), and large answers are written down.
  // Shared with the connections; null: on the io threads.
  std::shared_ptr<ControlPool> large_pool = nullptr;

  // Of a body, before and after decompression.
  size_t max_body_bytes = size_t{64} * 1024 * 1024;
  // Stands behind "... exceeds the maximum allowed input size of {n} bytes."; with a space in front.
  std::string body_limit_hint;
  size_t max_header_bytes = size_t{32} * 1024;
  size_t max_header_fields = 256;
  size_t max_chunks = 65'536;

  // Between requests.
  std::chrono::milliseconds idle_timeout = std::chrono::minutes(10);
  // From the first byte of a request to the end of its headers; and for a handshake of TLS.
  std::chrono::milliseconds header_timeout = std::chrono::seconds(30);
  // For each 64 KiB of a body.
  std::chrono::milliseconds body_timeout = std::chrono::seconds(60);
  // Without progress of a response.
  std::chrono::milliseconds write_timeout = std::chrono::seconds(60);
  // How long the rest of a refused request is read and thrown away, so that its client can read the answer.
  std::chrono::milliseconds linger_timeout = std::chrono::seconds(10);
};

}  // namespace braid
