// The gRPC services with every method in raw form: messages are taken and given as bytes, on our own
// completion queues. No method is left to gRPC's synchronous server or to its callbacks, whose threads would
// poll the same sockets and make every request change threads once more.
#pragma once

#include "grpc_service.grpc.pb.h"
#include "health.grpc.pb.h"

namespace braid {

// One layer for each method; a method that is missing here would be a synchronous one.
using RawInferenceService = inference::GRPCInferenceService;
using GrpcInferenceService = RawInferenceService::WithRawMethod_ServerLive<
    RawInferenceService::WithRawMethod_ServerReady<RawInferenceService::WithRawMethod_ModelReady<
        RawInferenceService::WithRawMethod_ServerMetadata<RawInferenceService::WithRawMethod_ModelMetadata<
            RawInferenceService::WithRawMethod_ModelInfer<RawInferenceService::WithRawMethod_ModelStreamInfer<
                RawInferenceService::WithRawMethod_ModelConfig<
                    RawInferenceService::WithRawMethod_ModelStatistics<
                        RawInferenceService::WithRawMethod_RepositoryIndex<
                            RawInferenceService::WithRawMethod_RepositoryModelLoad<
                                RawInferenceService::WithRawMethod_RepositoryModelUnload<
                                    RawInferenceService::WithRawMethod_SystemSharedMemoryStatus<
                                        RawInferenceService::WithRawMethod_SystemSharedMemoryRegister<
                                            RawInferenceService::WithRawMethod_SystemSharedMemoryUnregister<
                                                RawInferenceService::WithRawMethod_CudaSharedMemoryStatus<
                                                    RawInferenceService::WithRawMethod_CudaSharedMemoryRegister<
                                                        RawInferenceService::
                                                            WithRawMethod_CudaSharedMemoryUnregister<
                                                                RawInferenceService::WithRawMethod_TraceSetting<
                                                                    RawInferenceService::
                                                                        WithRawMethod_LogSettings<
                                                                            RawInferenceService::
                                                                                Service>>>>>>>>>>>>>>>>>>>>;

using GrpcHealthService = grpc::health::v1::Health::WithRawMethod_Check<grpc::health::v1::Health::Service>;

struct GrpcServices {
  GrpcInferenceService inference;
  GrpcHealthService health;
};

}  // namespace braid
