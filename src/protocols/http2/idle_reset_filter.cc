#include "protocols/http2/idle_reset_filter.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>

namespace braid {

void IdleResetFilter::Read(std::string_view head) {
  const auto byte = [&](size_t at) { return uint32_t{static_cast<unsigned char>(head[at])}; };
  constexpr uint32_t kStreamBits = 0x7fffffff;
  left_ = byte(0) << 16 | byte(1) << 8 | byte(2);
  const uint32_t type = byte(3);
  const uint32_t stream = (byte(5) << 24 | byte(6) << 16 | byte(7) << 8 | byte(8)) & kStreamBits;
  if (type == NGHTTP2_HEADERS) last_stream_ = std::max(last_stream_, stream);
  // A frame of another length, or of a stream that only a server opens, is still an error.
  dropping_ = type == NGHTTP2_RST_STREAM && left_ == 4 && stream % 2 == 1 && stream > last_stream_;
}

}  // namespace braid
