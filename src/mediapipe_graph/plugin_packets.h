// Packets in the hands of calculator libraries, and the host's functions for them.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/calculator.h"
#include "graph/packet.h"
#include "include/braid_calculator.h"
#include "tensor/buffer.h"
#include "tensor/tensor.h"

// A reference to a packet of the engine, counted by keep() and release() of the host.
struct BraidPacket {
  explicit BraidPacket(braid::graph::Packet value) : packet(std::move(value)) {}

  std::atomic<int> shares{1};
  const braid::graph::Packet packet;
  // Texts that must end with a zero byte: the type of a tensor, or the types of a message's tensors and its
  // parameters.
  std::string datatype;
  std::vector<std::string> datatypes;
  // The bytes that libraries see of the tensor, or of a message's tensors. Libraries walk over strings, so
  // those are in memory that no worker can change.
  std::vector<braid::Buffer> bytes;
  std::map<std::string, std::string, std::less<>> parameters;
};

namespace braid {

// The value of a packet of BRAID_OBJECT.
struct PluginObject {
  std::string type;
  std::shared_ptr<void> object;
  // The process with the object, if it is not this one (isolated_calculators.h). Then no library owns
  // `object`.
  const void* library = nullptr;
};

// Returns the engine's type for a kind of port. REQUIRES: a kind of a value.
graph::PortType PluginPortType(BraidKind kind);
// Returns a packet with one reference, which the caller owns.
BraidPacket* NewPluginPacket(graph::Packet packet);
BraidKind PluginKindOf(const graph::Packet& packet);
// Whether a tensor's bytes fit its type and shape; consumers of an OVTENSOR rely on that.
bool SizeIsRight(const Tensor& tensor);

// Fills in the host's functions for packets.
void FillPacketFunctions(BraidHost& host);

}  // namespace braid
