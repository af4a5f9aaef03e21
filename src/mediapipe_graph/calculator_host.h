// CalculatorHost: in a native worker, the calculators of a library, and what the server has them do. Its other end is
// isolated_calculators.h.
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
  // `calculators`: those of the library, and no others.
  explicit CalculatorHost(std::shared_ptr<const graph::CalculatorRegistry> calculators);
  ~CalculatorHost();

  // Reads a CalculatorCall and what is beside it, does that, and answers with a CalculatorResult. Any thread, several at once; those of
  // one calculator one after the other. Errors: what the calculator has failed with; INTERNAL for a calculator or an object that this
  // process never had; INVALID_ARGUMENT for what cannot be read.
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
  // Ends calculators, and gives objects back.
  void Drop(const CalculatorCall& call);
  void End(uint64_t calculator);

  const std::shared_ptr<const graph::CalculatorRegistry> calculators_;  // shared with nobody who changes it
  Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Running>> running_ BRAID_GUARDED_BY(mutex_);
  // Objects that the server has packets of.
  std::map<uint64_t, graph::Packet> objects_ BRAID_GUARDED_BY(mutex_);
  // Never that of another process of this library: it begins with the time of this one's start.
  uint64_t next_object_ BRAID_GUARDED_BY(mutex_);
};

}  // namespace braid
