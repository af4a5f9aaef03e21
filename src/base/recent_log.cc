#include "base/recent_log.h"

#include <algorithm>

namespace braid {
namespace {

size_t BytesOf(const RecentLog::Line& line) { return sizeof(line) + line.text.size() + line.model.size(); }

// Returns the beginning of the text that fits, without a partial character at its end.
std::string_view Cut(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  return text.substr(0, most);
}

}  // namespace

void RecentLog::OnLine(const LogLine& line) {
  Line kept{0, line.at_ms, line.level, std::string(line.model), std::string(Cut(line.text, kMostLineBytes))};
  std::vector<Line> gone;  // destroyed after the lock is released
  MutexLock lock(mutex_);
  kept.number = ++last_number_;
  bytes_ += BytesOf(kept);
  lines_.push_back(std::move(kept));
  while (bytes_ > most_bytes_ && lines_.size() > 1) {
    bytes_ -= BytesOf(lines_.front());
    gone.push_back(std::move(lines_.front()));
    lines_.pop_front();
  }
  lock.Unlock();
}

RecentLog::Page RecentLog::Newest(size_t most, const Wanted& wanted) const {
  Page page;
  MutexLock lock(mutex_);
  page.next = last_number_;
  for (auto line = lines_.rbegin(); line != lines_.rend() && page.lines.size() < most; ++line) {
    if (wanted(*line)) page.lines.push_back(*line);
  }
  lock.Unlock();
  std::ranges::reverse(page.lines);
  return page;
}

RecentLog::Page RecentLog::After(uint64_t number, size_t most, const Wanted& wanted) const {
  Page page;
  MutexLock lock(mutex_);
  page.next = last_number_;
  if (number >= last_number_) return page;
  const uint64_t first = lines_.front().number;
  page.lost = first - std::min(first, number + 1);
  for (size_t i = number < first ? 0 : number + 1 - first; i < lines_.size(); ++i) {
    if (!wanted(lines_[i])) continue;
    if (page.lines.size() == most) {
      page.next = lines_[i].number - 1;
      break;
    }
    page.lines.push_back(lines_[i]);
  }
  return page;
}

}  // namespace braid
