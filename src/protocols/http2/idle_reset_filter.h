// IdleResetFilter: drops RST_STREAM frames of streams that were never opened from what a client sends.
//
// gRPC's C core (under its clients for C++, Python, Ruby, PHP and more) sends one for a call whose deadline
// is over before its head has left. RFC 9113 (5.1) has a server end the connection then, with all other calls
// on it, and nghttp2 does; gRPC's own servers look away, and so does this. Frames are read by their heads
// alone, as they lie.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace braid {

class IdleResetFilter {
 public:
  // Calls feed(piece) with what is to be passed on, in its order, until it returns false. All pieces lie in
  // `bytes`, but heads of frames that came in parts: those lie here.
  template <class Feed>
  void Pass(std::string_view bytes, Feed&& feed) {
    size_t begin = 0;  // of what is not fed yet
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
  static constexpr size_t kPreface = 24;  // stands before the first frame

  // Of the next frame: its length, and whether it is dropped.
  void Read(std::string_view head);

  std::array<char, kHead> head_{};
  size_t held_ = 0;           // of head_
  size_t left_ = kPreface;    // of the frame
  bool dropping_ = false;     // this frame
  uint32_t last_stream_ = 0;  // that was opened
};

}  // namespace braid
