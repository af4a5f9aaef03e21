// GrpcConnectionOptions: lifetime and keepalive of a gRPC server's connections.
#pragma once

#include <cstdint>

namespace braid {

struct GrpcConnectionOptions {
  // Time without input until the server pings the client, and time for the client's reply. Without a reply
  // the connection is closed.
  int64_t keepalive_ns = 7'200'000'000'000;
  int64_t keepalive_timeout_ns = 20'000'000'000;
  bool keepalive_without_calls = false;
  // The maximum number of pings to a client to which no other data is sent. 0: no limit.
  int pings_without_data = 2;
  // A client's ping is a strike if it follows the last one within this interval, without data between them. A
  // client with more strikes than the maximum is disconnected ("too_many_pings").
  int64_t ping_interval_ns = 300'000'000'000;
  int ping_strikes = 2;
  // Time for a new client to begin HTTP/2, including the TLS handshake. Then the connection is closed.
  int64_t handshake_ns = 30'000'000'000;
  // A message slower than 64 KiB in this time ends its call.
  int64_t message_ns = 60'000'000'000;
  // A connection without calls for this time is asked to end. 0: never.
  int64_t idle_ns = 0;
  // A connection of this age is asked to end, and closed after the grace time. 0: never.
  int64_t age_ns = 0;
  int64_t age_grace_ns = 0;
};

}  // namespace braid
