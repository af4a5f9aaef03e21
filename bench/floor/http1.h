// The floor over HTTP/1.1: KServe v2 with binary tensors or JSON, one request at a time for each connection.
#pragma once

#include "connection.h"

namespace braid::floor {

class Http1Connection : public Connection, public Caller {
 public:
  Http1Connection(int socket, Calls* calls, std::vector<Connection*>* unsent)
      : Connection(socket, calls, unsent) {}
  ~Http1Connection() override;

  bool Read() override;
  void OnAnswer(uint32_t slot) override;

 private:
  bool StartRequest(size_t head_size);
  void ReadJson(std::string_view json);
  void Submit();

  std::string text_;  // read bytes outside of tensors
  size_t body_size_ = 0;
  size_t tensors_left_ = 0;  // bytes that are still to be read into the slot
  char* tensors_end_ = nullptr;
  uint32_t slot_ = kNoSlot;
  bool in_worker_ = false;
  bool binary_ = false;
};

}  // namespace braid::floor
