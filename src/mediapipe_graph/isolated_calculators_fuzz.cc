// Fuzzes the answers of a native worker: the same answer to each call of a run.
#include "mediapipe_graph/isolated_calculators.h"

#include "graph/run.h"
#include "graph/topology.h"
#include "mediapipe_graph/calculator_messages.h"

namespace braid {
namespace {

class Ignore final : public graph::RunObserver {
 public:
  void OnPacket(int, graph::Packet) override {}
  void OnEnd(Status) override {}
};

Tensor Bytes(std::string_view bytes) {
  return {"",
          DataType::kUint8,
          {static_cast<int64_t>(bytes.size())},
          CopyToHeap(std::as_bytes(std::span(bytes)))};
}

void Run(std::string_view answer) {
  auto registry = std::make_shared<graph::CalculatorRegistry>();
  IsolatedCalculators library;
  library.names = {"C"};
  library.call = [answer](const std::vector<Tensor>&) -> Result<std::vector<Tensor>> {
    return std::vector{Bytes(answer), Bytes("eight by"), Bytes(std::string_view("\x03\0\0\0abc", 7))};
  };
  for (auto& [name, kind] : IsolatedKinds(std::move(library))) registry->Add(name, std::move(kind));
  auto config = graph::ParseGraphConfig(
      "input_stream: 'in' output_stream: 'out' node { calculator: 'C' input_stream: 'in' output_stream: "
      "'out' }");
  auto topology = graph::Topology::Create(*std::move(config), registry);
  if (!topology.ok()) return;
  const auto run = graph::Run::Create(*std::move(topology), {}, std::make_shared<Ignore>());
  if (!run->Start().ok()) return;
  for (int64_t i = 0; i < 2; ++i) (void)run->AddPacket(0, graph::Packet::Of(i, graph::Timestamp(i)));
  run->CloseAllInputs();
}

}  // namespace
}  // namespace braid

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  braid::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
