// The parts of KServe v2's protobuf messages that the floor needs: see the field numbers of
// ModelInferRequest and ModelInferResponse in protos/.
#pragma once

#include <string>
#include <string_view>

#include "calls.h"

namespace braid::floor {

// Reads messages of ModelInferRequest with their prefixes, in pieces of any size. Tensors are copied once,
// into a slot; all other fields are skipped.
class MessageReader {
 public:
  enum class Progress { kNeedsMore, kWhole, kInvalid };

  // Takes bytes from the front of `bytes`. The slot is taken at the first tensor of a message.
  Progress Read(std::string_view* bytes, Calls* calls, uint32_t* slot);

 private:
  // Reads the prefix or one field; returns its size, or 0 if it is not whole.
  size_t ReadField(std::string_view bytes, Calls* calls, uint32_t* slot);

  std::string incomplete_;  // the beginning of a field
  uint64_t message_left_ = 0;
  uint64_t tensor_left_ = 0;
  char* tensor_end_ = nullptr;
  bool in_message_ = false;
  bool invalid_ = false;
};

// The message around the tensors of an answer: everything before the first, and then the key of each next.
void AppendResponseHead(const Call& call, std::string_view model, bool stream, std::string* text);
void AppendTensorKey(const Tensor& tensor, std::string* text);

}  // namespace braid::floor
