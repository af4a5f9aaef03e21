// pb_utils.InferenceRequest: a request from the server, or a model's own request to another model.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ipc/messages.h"
#include "worker/extension/py.h"

namespace braid {

class Worker;

// A request from the server that still needs a response. Its request object and its sender share it. If both
// are gone without a response, the request fails.
class OpenRequest {
 public:
  OpenRequest(Worker& worker, uint64_t id, uint32_t cancel_slot)
      : worker_(worker), id_(id), slot_(cancel_slot) {}
  ~OpenRequest();
  OpenRequest(const OpenRequest&) = delete;
  OpenRequest& operator=(const OpenRequest&) = delete;

  Worker& worker() const { return worker_; }
  uint64_t id() const { return id_; }
  bool is_cancelled();
  // Whether the client requested this output.
  bool Wants(PyObject* name) const;
  // Returns a new set of str.
  PyObject* RequestedOutputs() const;
  void RequestOnly(std::vector<std::string> names) { requested_ = std::move(names); }
  // Sets the outputs that may stay on a GPU.
  void LeaveOnDevice(std::vector<std::string> names) { on_device_ = std::move(names); }
  bool StaysOnDevice(std::string_view name) const {
    return std::find(on_device_.begin(), on_device_.end(), name) != on_device_.end();
  }

  // The id of the sequence to save with the response; null if there is none or the sequence ends.
  PyObject* saved_sequence() const { return saved_sequence_.get(); }
  void SaveSequence(Ref correlation_id) { saved_sequence_ = std::move(correlation_id); }

  // Number of responses so far.
  size_t responses() const { return responses_; }
  void CountResponse() { ++responses_; }
  // No response may follow.
  bool closed() const { return closed_; }
  void Close() { closed_ = true; }
  // The model's wish, during its execution, that the request be rescheduled.
  bool released() const { return released_; }
  bool reschedules() const { return reschedules_; }
  void set_reschedules(bool reschedules) { reschedules_ = reschedules; }
  // The execution has returned: the wish is final. Returns it.
  bool TakeRelease() {
    released_ = true;
    return reschedules_;
  }
  // The error of a request that ends without a response.
  const char* abandoned_because() const { return abandoned_because_; }
  void set_abandoned_because(const char* text) { abandoned_because_ = text; }
  // The last response was sent: the server may give the cancel slot to another request.
  bool done() const { return done_; }
  void Finish();

 private:
  Worker& worker_;
  const uint64_t id_;
  uint32_t slot_;
  std::vector<std::string> requested_;  // empty: all outputs of the model
  std::vector<std::string> on_device_;
  Ref saved_sequence_;
  size_t responses_ = 0;
  bool closed_ = false;
  bool released_ = false;
  bool reschedules_ = false;
  const char* abandoned_because_ =
      "the model released the request without a response: execute returned None for it, and its response "
      "sender is gone.";
  bool done_ = false;
  bool was_cancelled_ = false;  // set with done_
};

// The value of an InferenceRequest object.
struct PyRequest {
  std::shared_ptr<OpenRequest> open;  // null for a model's own request; shared with the sender
  Ref inputs;                         // list of Tensor
  Ref sender;                         // result of get_response_sender()
  std::string request_id;
  std::variant<uint64_t, std::string> correlation_id;
  uint32_t flags = 0;
  uint64_t timeout_us = 0;
  std::string parameters_json;
  std::string trace_context;
  Ref trace;  // InferenceTrace; null until needed
  // Only for a model's own request.
  std::vector<std::string> requested_outputs;
  std::string model_name;
  int64_t model_version = -1;
  bool device_outputs = true;        // whether outputs may be on a GPU
  std::optional<int> preferred_gpu;  // the GPU for outputs; nullopt: where they are made
};

bool AddRequestType(PyObject* module);

}  // namespace braid
