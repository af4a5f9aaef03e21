#include "protocols/openai/stop_cutter.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace braid {
namespace {

// As std::string::find(), but linear for every text.
size_t PlaceOf(std::string_view text, std::string_view stop) {
  const void* found = memmem(text.data(), text.size(), stop.data(), stop.size());
  return found == nullptr ? std::string::npos
                          : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

// Returns the length of the longest end of `text` that `stop` begins with.
size_t Overlap(std::string_view text, std::string_view stop) {
  for (size_t length = std::min(text.size(), stop.size() - 1); length > 0; --length) {
    if (stop.starts_with(text.substr(text.size() - length))) return length;
  }
  return 0;
}

// Returns the number of bytes at the end that begin a character of UTF-8 without completing it.
size_t Incomplete(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if (byte < 0x80) return 0;
    if (byte < 0xc0) continue;  // inside a character
    const size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    return length > back ? back : 0;
  }
  return 0;
}

}  // namespace

std::string StopCutter::Add(std::string_view piece) {
  if (stopped_) return "";
  held_ += piece;
  size_t end = std::string::npos;
  for (const std::string& stop : stops_) end = std::min(end, PlaceOf(held_, stop));
  if (end != std::string::npos) {
    stopped_ = true;
    held_.resize(end);
    return std::exchange(held_, {});
  }
  size_t keep = Incomplete(held_);
  for (const std::string& stop : stops_) keep = std::max(keep, Overlap(held_, stop));
  std::string text = held_.substr(0, held_.size() - keep);
  held_.erase(0, text.size());
  return text;
}

std::string StopCutter::Rest() { return std::exchange(held_, {}); }

}  // namespace braid
