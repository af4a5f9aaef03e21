// The packets that libraries of calculators hold, and what they ask of them.
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

// A share in a packet of the engine. Counted by keep() and release() of the host.
struct BraidPacket {
  explicit BraidPacket(braid::graph::Packet value) : packet(std::move(value)) {}

  std::atomic<int> shares{1};
  const braid::graph::Packet packet;
  // What of it has to be a text that ends: the type of a tensor, or those of a message's tensors and its
  // parameters.
  std::string datatype;
  std::vector<std::string> datatypes;
  // What libraries are shown of the tensor, or of those of a message. Strings are where no worker can change
  // them: libraries walk over them.
  std::vector<braid::Buffer> bytes;
  std::map<std::string, std::string, std::less<>> parameters;
};

namespace braid {

// The value of a packet of BRAID_OBJECT.
struct PluginObject {
  std::string type;
  std::shared_ptr<void> object;
  // Whose process has it, when that is not this one (isolated_calculators.h): `object` is no library's then.
  const void* library = nullptr;
};

// The type of the engine behind a kind of port. REQUIRES: a kind of a value.
graph::PortType PluginPortType(BraidKind kind);
// A first share for the caller.
BraidPacket* NewPluginPacket(graph::Packet packet);
BraidKind PluginKindOf(const graph::Packet& packet);
// Whether a tensor has as many bytes as its type and shape say: whoever takes an OVTENSOR trusts that.
bool SizeIsRight(const Tensor& tensor);

// Fills the part of the host that is about packets.
void FillPacketFunctions(BraidHost& host);

}  // namespace braid
