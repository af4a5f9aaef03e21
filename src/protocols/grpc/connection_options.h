// How long the connections of a gRPC server live, and how they are kept alive.
#pragma once

#include <cstdint>

namespace braid {

struct GrpcConnectionOptions {
  // A ping to a client from which nothing has come for so long; it is gone when it does not answer in time.
  int64_t keepalive_ns = 7'200'000'000'000;
  int64_t keepalive_timeout_ns = 20'000'000'000;
  bool keepalive_without_calls = false;
  // So many pings to a client at most while it is sent nothing else. 0: any number.
  int pings_without_data = 2;
  // Pings of a client closer to each other than this are counted while it has no data under way; beyond so
  // many it is sent away ("too_many_pings").
  int64_t ping_interval_ns = 300'000'000'000;
  int ping_strikes = 2;
  // A client that has not said that it speaks HTTP/2, behind a handshake where there is TLS, is ended.
  int64_t handshake_ns = 30'000'000'000;
  // A message that is slower than 64 KiB in this time ends its call.
  int64_t message_ns = 60'000'000'000;
  // A connection without calls for so long is told to end. 0: no end.
  int64_t idle_ns = 0;
  // A connection that is older is told to end, and ended after the grace. 0: no end.
  int64_t age_ns = 0;
  int64_t age_grace_ns = 0;
};

}  // namespace braid
