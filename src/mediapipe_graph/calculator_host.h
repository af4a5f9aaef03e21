// CalculatorHost: runs a library's calculators in a native worker on the server's behalf. The server's side
// is isolated_calculators.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "graph/registry.h"
#include "isolated_calculators.pb.h"
#include "tensor/tensor.h"

namespace braid {

class CalculatorHost {
 public:
  // `calculators`: only those of the library.
  explicit CalculatorHost(std::shared_ptr<const graph::CalculatorRegistry> calculators);
  ~CalculatorHost();

  // Reads a CalculatorCall with its tensors, executes it, and returns a CalculatorResult. Any thread, several
  // at once; the calls of one calculator come one after the other. Errors: the calculator's error; INTERNAL
  // for an unknown calculator or object; INVALID_ARGUMENT for unreadable input.
  Result<std::vector<Tensor>> Call(const std::vector<Tensor>& inputs);

 private:
  class Shown;
  struct Running;
  class CallContext;

  Status Describe(const CalculatorNodeMessage& node, CalculatorResult& result) const;
  Result<std::shared_ptr<Running>> Open(const CalculatorCall& call, const std::vector<Tensor>& inputs);
  Result<std::shared_ptr<Running>> Find(uint64_t calculator);
  Status Run(Running& running, const CalculatorCall& call, const std::vector<Tensor>& inputs,
             CalculatorResult& result, std::vector<Tensor>& outputs);
  Status ReadInputs(const google::protobuf::RepeatedPtrField<CalculatorCall::Input>& inputs,
                    const std::vector<Tensor>& tensors, const std::shared_ptr<Shown>& shown,
                    std::vector<graph::Packet>& packets);
  Status WriteOutput(const graph::Packet& packet, Shown& shown, CalculatorPacket& message,
                     std::vector<Tensor>& tensors);
  // Ends calculators and releases objects.
  void Drop(const CalculatorCall& call);
  void End(uint64_t calculator);

  const std::shared_ptr<const graph::CalculatorRegistry> calculators_;  // immutable
  Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Running>> running_ BRAID_GUARDED_BY(mutex_);
  // Objects of which the server has packets.
  std::map<uint64_t, graph::Packet> objects_ BRAID_GUARDED_BY(mutex_);
  // Differs from the numbers of other processes of this library: it begins with this process's start time.
  uint64_t next_object_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
