// The KServe v2 gRPC messages that the generator needs; package, method names and field numbers are the
// protocol's.
#pragma once

#include <string>
#include <vector>

#include "expectation.h"
#include "options.h"

namespace braid::bench {

inline constexpr char kServerReadyMethod[] = "/inference.GRPCInferenceService/ServerReady";
inline constexpr char kModelReadyMethod[] = "/inference.GRPCInferenceService/ModelReady";
inline constexpr char kModelInferMethod[] = "/inference.GRPCInferenceService/ModelInfer";
inline constexpr char kRegisterMethod[] = "/inference.GRPCInferenceService/SystemSharedMemoryRegister";
inline constexpr char kModelStreamInferMethod[] = "/inference.GRPCInferenceService/ModelStreamInfer";

// ModelInferRequest with the inputs as raw_input_contents, or all tensors in shared memory.
std::string EncodeInferRequest(const Options& options);
// SystemSharedMemoryRegisterRequest.
std::string EncodeRegisterRequest(const SharedPayload& shared);
std::string EncodeModelReadyRequest(const std::string& model);

// Reads the one field of ServerReadyResponse and ModelReadyResponse.
bool DecodeReady(const Pieces& message);

// The outputs of a ModelInferResponse; only raw_output_contents are understood. Views into `message`.
Result<std::vector<OutputView>> DecodeInferResponse(const Pieces& message);

// The same from a ModelStreamInferResponse; its error_message becomes the status.
Result<std::vector<OutputView>> DecodeStreamResponse(const Pieces& message);

}  // namespace braid::bench
