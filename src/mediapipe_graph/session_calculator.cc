#include "mediapipe_graph/session_calculator.h"

#include <charconv>
#include <utility>

#include "mediapipe/ovms_calculators.pb.h"
#include "serving/servable.h"

namespace braid {
namespace {

using SessionOptions = ::mediapipe::OpenVINOModelServerSessionCalculatorOptions;

// As clients of the field expect, anything but a 32-bit number above 0 means the default version.
int64_t ParseVersion(const std::string& text) {
  uint32_t version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  return error == std::errc() && end == text.data() + text.size() && version > 0 ? int64_t{version} : -1;
}

}  // namespace

Result<SessionServableName> SessionServable(const graph::Contract& contract) {
  const auto options = contract.FindOptions<SessionOptions>();
  if (!options || options->servable_name().empty()) {
    return InvalidArgumentError("servable_name is missing in OpenVINOModelServerSessionCalculatorOptions");
  }
  return SessionServableName{options->servable_name(), ParseVersion(options->servable_version())};
}

Status SessionCalculator::FillContract(graph::Contract& contract) {
  if (contract.inputs().size() > 0 || contract.outputs().size() > 0) {
    return InvalidArgumentError("OpenVINOModelServerSessionCalculator must not have input or output streams");
  }
  if (contract.input_side_packets().size() > 0 || contract.output_side_packets().size() != 1 ||
      !contract.output_side_packets().Has(kSessionTag)) {
    return InvalidArgumentError(
        "OpenVINOModelServerSessionCalculator must have one side packet, output_side_packet: "
        "\"SESSION:<name>\"");
  }
  BRAID_RETURN_IF_ERROR(SessionServable(contract).status());
  contract.SetOutputSidePacket(0, graph::PortType::Of<GraphSession>());
  contract.SetQuick();
  return OkStatus();
}

Status SessionCalculator::Open(graph::Context& context) {
  BRAID_ASSIGN_OR_RETURN(const SessionServableName named, SessionServable(context.contract()));
  constexpr std::string_view kFailed = "OpenVINOModelServerSessionCalculator failed to load the model";
  using Servables = std::shared_ptr<const GraphServables>;
  const auto* servables = context.Service(kGraphServablesService).GetIf<Servables>();
  const ServableReference* reference =
      servables != nullptr ? (*servables)->Find(named.name, named.version) : nullptr;
  if (reference == nullptr) return FailedPreconditionError(std::string(kFailed));
  const auto found = reference->Get();
  const Status fault = found.ok() ? CheckMayBeAsked((*found)->info()) : found.status();
  if (!fault.ok()) {
    return FailedPreconditionError(
        std::string(kFailed).append(" '").append(named.name).append("': ").append(fault.message()));
  }
  context.SetOutputSidePacket(0, graph::Packet::Of(GraphSession{*servables, reference}));
  return OkStatus();
}

Status SessionCalculator::Process(graph::Context&) { return graph::StopStatus(); }

}  // namespace braid
