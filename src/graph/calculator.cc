#include "graph/calculator.h"

#include <exception>
#include <utility>

#include "base/guard.h"

namespace braid::graph {
namespace {

// A calculator cannot return an equal status by accident: the text is used only here.
const Status& Stop() {
  static const Status stop(StatusCode::kAborted, "braid::graph::StopStatus()");
  return stop;
}

}  // namespace

int Ports::Find(std::string_view tag, int index) const {
  for (int port = 0; port < size(); ++port) {
    if ((*this)[port].tag == tag && (*this)[port].index == index) return port;
  }
  return -1;
}

int Ports::Count(std::string_view tag) const {
  int count = 0;
  for (const Port& port : ports_) count += port.tag == tag ? 1 : 0;
  return count;
}

int Ports::FindName(std::string_view name) const {
  for (int port = 0; port < size(); ++port) {
    if ((*this)[port].name == name) return port;
  }
  return -1;
}

Contract::Contract(std::string node_name, NodeConfig config, Ports inputs, Ports outputs,
                   Ports input_side_packets, Ports output_side_packets)
    : node_name_(std::move(node_name)),
      config_(std::move(config)),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      input_side_packets_(std::move(input_side_packets)),
      output_side_packets_(std::move(output_side_packets)),
      input_types_(static_cast<size_t>(inputs_.size())),
      output_types_(static_cast<size_t>(outputs_.size())),
      input_side_packet_types_(static_cast<size_t>(input_side_packets_.size())),
      output_side_packet_types_(static_cast<size_t>(output_side_packets_.size())),
      optional_side_packets_(static_cast<size_t>(input_side_packets_.size())) {}

void Contract::SetInput(int port, PortType type) {
  input_types_.at(static_cast<size_t>(port)) = std::move(type);
}

void Contract::SetOutput(int port, PortType type) {
  output_types_.at(static_cast<size_t>(port)) = std::move(type);
}

void Contract::SetInputSidePacket(int port, PortType type, bool optional) {
  input_side_packet_types_.at(static_cast<size_t>(port)) = std::move(type);
  optional_side_packets_[static_cast<size_t>(port)] = optional;
}

void Contract::SetOutputSidePacket(int port, PortType type) {
  output_side_packet_types_.at(static_cast<size_t>(port)) = std::move(type);
}

Deferral& Deferral::operator=(Deferral&& other) noexcept {
  Deferral old(std::move(*this));
  target_ = std::move(other.target_);
  return *this;
}

Deferral::~Deferral() {
  if (!target_) return;
  const RetryingAllocation retrying;
  Finish(std::uncaught_exceptions() > 0 ? UnwindingStatus()
                                        : InternalError("The node stopped its work without a result."));
}

void Deferral::Finish(Status status) {
  BRAID_CHECK(target_ != nullptr);
  std::exchange(target_, nullptr)->FinishDeferred(std::move(status));
}

Status StopStatus() { return Stop(); }
bool IsStop(const Status& status) { return status == Stop(); }

}  // namespace braid::graph
