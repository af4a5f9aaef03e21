// A socket of the floor's loop, with the bytes that wait to be written to it.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "calls.h"

namespace braid::floor {

// Smaller tensors are copied beside the text around them, instead of written from their slot.
constexpr size_t kCopiedBelow = 4096;

class Connection {
 public:
  Connection(int socket, Calls* calls, std::vector<Connection*>* unsent)
      : socket_(socket), calls_(calls), unsent_(unsent) {}
  virtual ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int socket() const { return socket_; }
  bool blocked() const { return blocked_; }
  // Reads once. Returns false when the connection is over.
  virtual bool Read() = 0;
  // Writes what can be written. Returns false when the connection is over.
  bool Write();

 protected:
  Calls& calls() { return *calls_; }
  // Has the loop call Write() before it sleeps.
  void WantWrite();
  void AddText(std::string_view text);
  // Adds bytes of a slot, which stay in use until they are written.
  void AddReference(const char* data, size_t size) { pieces_.push_back({data, {}, size, kNoSlot}); }
  // Gives a slot back when everything added so far is written.
  void AddGiveBack(uint32_t slot);
  // Called before each write: adds what the protocol has to say.
  virtual bool Fill() { return true; }

 private:
  struct Piece {
    const char* data;  // null: `text`
    std::string text;
    size_t size;
    uint32_t given_back;
  };
  int socket_;
  Calls* calls_;
  std::vector<Connection*>* unsent_;
  std::deque<Piece> pieces_;
  size_t written_ = 0;  // of the first piece
  bool queued_ = false;
  bool blocked_ = false;
};

}  // namespace braid::floor
