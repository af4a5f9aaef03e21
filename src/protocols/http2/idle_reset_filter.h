// IdleResetFilter: removes RST_STREAM frames of streams that were never opened from a client's bytes.
//
// gRPC's C core (under its clients for C++, Python, Ruby, PHP and more) sends such a frame for a call whose
// deadline expires before its head was sent. RFC 9113 (5.1) requires the server to end the connection then,
// with all its calls, and nghttp2 does. gRPC's own servers ignore such frames, and so does this server. The
// filter reads only the heads of frames, in place.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace braid {

class IdleResetFilter {
 public:
  // Calls feed(piece) with the bytes to pass on, in order, until it returns false. The pieces lie in `bytes`,
  // except heads of frames that arrived in parts: those lie in this object.
  template <class Feed>
  void Pass(std::string_view bytes, Feed&& feed) {
    size_t begin = 0;  // of the bytes not yet passed on
    size_t at = 0;
    while (at < bytes.size()) {
      if (left_ > 0) {
        const size_t part = std::min(left_, bytes.size() - at);
        left_ -= part;
        at += part;
        if (dropping_) begin = at;
        continue;
      }
      if (held_ == 0 && bytes.size() - at >= kHead) {
        Read(bytes.substr(at, kHead));
        if (dropping_ && at > begin && !feed(bytes.substr(begin, at - begin))) return;
        at += kHead;
        if (dropping_) begin = at;
        continue;
      }
      if (at > begin && !feed(bytes.substr(begin, at - begin))) return;
      while (held_ < kHead && at < bytes.size()) head_[held_++] = bytes[at++];
      begin = at;
      if (held_ < kHead) return;
      held_ = 0;
      const std::string_view head(head_.data(), kHead);
      Read(head);
      if (!dropping_ && !feed(head)) return;
    }
    if (at > begin) feed(bytes.substr(begin));
  }

 private:
  static constexpr size_t kHead = 9;
  static constexpr size_t kPreface = 24;  // comes before the first frame

  // Reads the head of the next frame: its length, and whether to drop it.
  void Read(std::string_view head);

  std::array<char, kHead> head_{};
  size_t held_ = 0;           // of head_
  size_t left_ = kPreface;    // of the frame
  bool dropping_ = false;     // this frame
  uint32_t last_stream_ = 0;  // the highest that was opened
};

}  // namespace braid
