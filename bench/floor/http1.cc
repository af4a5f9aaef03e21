#include "http1.h"

#include <strings.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

namespace braid::floor {
namespace {

constexpr size_t kHeadBytes = size_t{64} << 10;

// Returns the number after a text, or 0 if the text is missing.
size_t NumberAfter(std::string_view text, const char* what) {
  const char* found = strcasestr(text.data(), what);
  return found == nullptr ? 0 : std::strtoul(found + std::strlen(what), nullptr, 10);
}

void AppendNumber(float value, std::string* text) {
  char digits[32];
  text->append(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
}

}  // namespace

Http1Connection::~Http1Connection() {
  if (in_worker_) {
    calls().Forget(slot_);
  } else if (slot_ != kNoSlot) {
    calls().GiveBack(slot_);
  }
}

bool Http1Connection::Read() {
  if (tensors_left_ > 0) {
    const ssize_t got = recv(socket(), tensors_end_, tensors_left_, 0);
    if (got <= 0) return got < 0 && errno == EAGAIN;
    tensors_end_ += got;
    tensors_left_ -= static_cast<size_t>(got);
    if (tensors_left_ == 0) Submit();
    return true;
  }
  static thread_local char buffer[kHeadBytes];
  const ssize_t got = recv(socket(), buffer, sizeof(buffer), 0);
  if (got <= 0) return got < 0 && errno == EAGAIN;
  text_.append(buffer, static_cast<size_t>(got));
  const size_t end = text_.find("\r\n\r\n");
  if (end == std::string::npos) return true;
  return StartRequest(end + 4);
}

bool Http1Connection::StartRequest(size_t head_size) {
  if (text_.starts_with("GET ")) {
    AddText("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    WantWrite();
    text_.clear();
    return true;
  }
  text_[head_size - 1] = '\0';  // ends the search for headers
  body_size_ = NumberAfter(text_, "\nContent-Length:");
  const size_t json_size = NumberAfter(text_, "Inference-Header-Content-Length:");
  text_[head_size - 1] = '\n';
  binary_ = json_size > 0;
  const size_t needed = binary_ ? json_size : body_size_;
  if (text_.size() < head_size + needed) return true;
  slot_ = calls().Take();
  Call& call = calls().call(slot_);
  call.input_count = 0;
  const std::string_view json(text_.data() + head_size, needed);
  if (!binary_) {
    ReadJson(json);
    Submit();
    return true;
  }
  uint64_t at = 0;
  for (size_t found = 0; (found = json.find("\"binary_data_size\":", found)) != json.npos; ++found) {
    if (call.input_count == kTensors) return false;
    const uint64_t bytes =
        std::strtoul(json.data() + found + std::strlen("\"binary_data_size\":"), nullptr, 10);
    call.inputs[call.input_count++] = {at, bytes};
    at += bytes;
  }
  if (at != body_size_ - json_size || at > kTensors * kTensorBytes) return false;
  const std::string_view tensors = std::string_view(text_).substr(head_size + json_size);
  std::memcpy(calls().memory(slot_), tensors.data(), tensors.size());
  tensors_end_ = calls().memory(slot_) + tensors.size();
  tensors_left_ = at - tensors.size();
  if (tensors_left_ == 0) Submit();
  return true;
}

void Http1Connection::ReadJson(std::string_view json) {
  Call& call = calls().call(slot_);
  uint64_t at = 0;
  size_t found = 0;
  while (call.input_count < kTensors && (found = json.find("\"data\":[", found)) != json.npos) {
    float* to = reinterpret_cast<float*>(calls().memory(slot_) + at);
    const char* from = json.data() + found + std::strlen("\"data\":[");
    const char* end = json.data() + json.size();
    uint64_t count = 0;
    for (bool more = true; more; ++count) {
      from = std::from_chars(from, end, to[count]).ptr;
      more = *from++ == ',';
    }
    call.inputs[call.input_count++] = {at, count * sizeof(float)};
    at = Aligned(at + count * sizeof(float));
    ++found;
  }
}

void Http1Connection::Submit() {
  text_.clear();
  in_worker_ = true;
  calls().Submit(slot_, this);
}

void Http1Connection::OnAnswer(uint32_t slot) {
  in_worker_ = false;
  slot_ = kNoSlot;
  const Call& call = calls().call(slot);
  std::string json = "{\"model_name\":\"";
  json += calls().model();
  json += "\",\"model_version\":\"1\",\"outputs\":[";
  size_t tensor_bytes = 0;
  for (uint64_t k = 0; k < call.output_count; ++k) {
    const Tensor& output = call.outputs[k];
    const size_t count = output.bytes / sizeof(float);
    json += k == 0 ? "{\"name\":\"OUTPUT" : ",{\"name\":\"OUTPUT";
    json += std::to_string(k) + "\",\"datatype\":\"FP32\",\"shape\":[" + std::to_string(count);
    if (binary_) {
      json += "],\"parameters\":{\"binary_data_size\":" + std::to_string(output.bytes) + "}}";
      tensor_bytes += output.bytes;
    } else {
      json += "],\"data\":[";
      const float* values = reinterpret_cast<const float*>(calls().memory(slot) + output.at);
      for (size_t i = 0; i < count; ++i) {
        if (i > 0) json += ',';
        AppendNumber(values[i], &json);
      }
      json += "]}";
    }
  }
  json += "]}";
  std::string head = "HTTP/1.1 200 OK\r\nContent-Type: ";
  head += binary_
              ? "application/octet-stream\r\nInference-Header-Content-Length: " + std::to_string(json.size())
              : std::string("application/json");
  head += "\r\nContent-Length: " + std::to_string(json.size() + tensor_bytes) + "\r\n\r\n";
  AddText(head);
  AddText(json);
  if (binary_) {
    for (uint64_t k = 0; k < call.output_count; ++k) {
      const std::string_view tensor(calls().memory(slot) + call.outputs[k].at, call.outputs[k].bytes);
      if (tensor.size() < kCopiedBelow) {
        AddText(tensor);
      } else {
        AddReference(tensor.data(), tensor.size());
      }
    }
  }
  AddGiveBack(slot);
  WantWrite();
}

}  // namespace braid::floor
