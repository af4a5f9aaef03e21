// Chat completions of OpenAI's API, streamed. An InferRequest has an input for each field of the body: a
// tensor of datatype "JSON" with the field's text. Its parameters become fields too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "load/client.h"
#include "load/data.h"
#include "load/tensor.h"

namespace braid::load {

inline constexpr char kChatPath[] = "/v1/chat/completions";

// Returns the body of a request.
std::string EncodeChat(const InferRequest& request);

struct ChatEvent {
  std::string text;
  int64_t tokens = 0;  // of the whole answer; 0: this event does not say
};

// Reads an event of the answer, or an answer without a stream. Errors: it reports one, or is malformed.
Result<ChatEvent> ReadChatEvent(std::string_view data);

// Returns a request with one message of the user.
DataStep MakeChatStep(const std::string& message);

// Parses {"data": [FIELDS, ...]}, where FIELDS is an object of the body's fields, or perf_analyzer's
// {"payload": [FIELDS]}. `name` is for errors.
Result<DataSet> ReadChatFile(const std::string& text, const std::string& name);

// Errors: the server does not list the model, or has no such list.
Status CheckChatModel(Client& client, const std::string& model);

}  // namespace braid::load
