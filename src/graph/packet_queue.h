// PacketQueue: the packets that wait at one input of a node. An empty queue has no memory.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "graph/packet.h"

namespace braid::graph {

class PacketQueue {
 public:
  bool empty() const { return begin_ == packets_.size(); }
  size_t size() const { return packets_.size() - begin_; }
  // REQUIRES: i < size()
  const Packet& operator[](size_t i) const { return packets_[begin_ + i]; }
  // REQUIRES: !empty()
  const Packet& front() const { return packets_[begin_]; }

  void Push(Packet packet) {
    // Erases the taken packets when they are half of all, so each packet is moved once on average.
    if (begin_ > 0 && packets_.size() == packets_.capacity() && begin_ * 2 >= packets_.size()) {
      packets_.erase(packets_.begin(), packets_.begin() + static_cast<ptrdiff_t>(begin_));
      begin_ = 0;
    }
    packets_.push_back(std::move(packet));
  }
  // REQUIRES: !empty()
  Packet Pop() {
    Packet packet = std::move(packets_[begin_++]);
    if (empty()) Clear();
    return packet;
  }
  void Clear() {
    packets_.clear();
    begin_ = 0;
  }

 private:
  std::vector<Packet> packets_;
  size_t begin_ = 0;  // the packets before it are taken
};

}  // namespace braid::graph
