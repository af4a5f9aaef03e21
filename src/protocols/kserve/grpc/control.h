// The control plane of the KServe v2 gRPC service: health, metadata, configuration, statistics, repository
// and settings. Plain functions from message to message; nothing here knows of calls or queues. Any thread.
#pragma once

#include <functional>

#include "base/status.h"
#include "grpc_service.pb.h"
#include "health.pb.h"
#include "protocols/inference/context.h"

namespace braid {

class GrpcControl {
 public:
  explicit GrpcControl(ProtocolContext& context) : context_(context) {}

  // These answer at once.
  Status ServerLive(const inference::ServerLiveRequest& request, inference::ServerLiveResponse& response);
  Status ServerMetadata(const inference::ServerMetadataRequest& request,
                        inference::ServerMetadataResponse& response);

  // User code may have a say in these: `done` is called once, perhaps before they return, perhaps later on
  // any thread.
  template <class Response>
  using Done = std::function<void(Result<Response>)>;
  void ServerReady(const inference::ServerReadyRequest& request, Done<inference::ServerReadyResponse> done);
  void ModelReady(const inference::ModelReadyRequest& request, Done<inference::ModelReadyResponse> done);
  void HealthCheck(const grpc::health::v1::HealthCheckRequest& request,
                   Done<grpc::health::v1::HealthCheckResponse> done);

  // These look at many models, or make large messages.
  Status ModelMetadata(const inference::ModelMetadataRequest& request,
                       inference::ModelMetadataResponse& response);
  Status ModelConfig(const inference::ModelConfigRequest& request, inference::ModelConfigResponse& response);
  Status ModelStatistics(const inference::ModelStatisticsRequest& request,
                         inference::ModelStatisticsResponse& response);
  Status RepositoryIndex(const inference::RepositoryIndexRequest& request,
                         inference::RepositoryIndexResponse& response);
  Status LogSettings(const inference::LogSettingsRequest& request, inference::LogSettingsResponse& response);
  Status TraceSetting(const inference::TraceSettingRequest& request,
                      inference::TraceSettingResponse& response);

  // These block until the repository is done.
  Status RepositoryModelLoad(const Permit& permit, const inference::RepositoryModelLoadRequest& request,
                             inference::RepositoryModelLoadResponse& response);
  Status RepositoryModelUnload(const Permit& permit, const inference::RepositoryModelUnloadRequest& request,
                               inference::RepositoryModelUnloadResponse& response);

  // Regions of clients. CudaSharedMemoryRegister() blocks.
  Status SystemSharedMemoryStatus(const inference::SystemSharedMemoryStatusRequest& request,
                                  inference::SystemSharedMemoryStatusResponse& response);
  Status SystemSharedMemoryRegister(const inference::SystemSharedMemoryRegisterRequest& request,
                                    inference::SystemSharedMemoryRegisterResponse& response);
  Status SystemSharedMemoryUnregister(const inference::SystemSharedMemoryUnregisterRequest& request,
                                      inference::SystemSharedMemoryUnregisterResponse& response);
  Status CudaSharedMemoryStatus(const inference::CudaSharedMemoryStatusRequest& request,
                                inference::CudaSharedMemoryStatusResponse& response);
  Status CudaSharedMemoryRegister(const inference::CudaSharedMemoryRegisterRequest& request,
                                  inference::CudaSharedMemoryRegisterResponse& response);
  Status CudaSharedMemoryUnregister(const inference::CudaSharedMemoryUnregisterRequest& request,
                                    inference::CudaSharedMemoryUnregisterResponse& response);

 private:
  // UNAVAILABLE while the server starts or exits.
  Status CheckServing() const;
  // A ready version of the model; version text as in the request.
  Result<std::unique_ptr<ServableHandle>> Find(const std::string& name, const std::string& version) const;

  ProtocolContext& context_;
};

}  // namespace braid
