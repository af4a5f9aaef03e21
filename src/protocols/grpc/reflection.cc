#include "protocols/grpc/reflection.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <set>

#include "base/utf8.h"
#include "protocols/grpc/method_call.h"
#include "reflection_v1.pb.h"

namespace braid {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

// gRPC's status codes.
constexpr int kInvalidArgument = 3;
constexpr int kNotFound = 5;

void SetError(int code, const std::string& text, ServerReflectionResponse& response) {
  response.mutable_error_response()->set_error_code(code);
  response.mutable_error_response()->set_error_message(text);
}

// Adds the file and all files that it imports, each once.
void SetFile(const FileDescriptor* file, const std::string& what, ServerReflectionResponse& response) {
  if (file == nullptr) {
    SetError(kNotFound, what + " not found", response);
    return;
  }
  std::vector<const FileDescriptor*> open = {file};
  std::set<const FileDescriptor*> seen = {file};
  while (!open.empty()) {
    const FileDescriptor* next = open.back();
    open.pop_back();
    google::protobuf::FileDescriptorProto proto;
    next->CopyTo(&proto);
    response.mutable_file_descriptor_response()->add_file_descriptor_proto(proto.SerializeAsString());
    for (int i = 0; i < next->dependency_count(); ++i) {
      if (seen.insert(next->dependency(i)).second) open.push_back(next->dependency(i));
    }
  }
}

void SetExtensions(const DescriptorPool& pool, const std::string& type, ServerReflectionResponse& response) {
  const Descriptor* message = pool.FindMessageTypeByName(type);
  if (message == nullptr) {
    SetError(kNotFound, "message '" + Shortened(type) + "' not found", response);
    return;
  }
  std::vector<const FieldDescriptor*> extensions;
  pool.FindAllExtensions(message, &extensions);
  auto& answer = *response.mutable_all_extension_numbers_response();
  answer.set_base_type_name(type);
  for (const FieldDescriptor* extension : extensions) answer.add_extension_number(extension->number());
}

// One client's stream of requests, which are answered one after another. The next one is taken after the
// previous response has left.
class ReflectionCall final : public GrpcCall {
 public:
  using GrpcCall::GrpcCall;

 private:
  void OnMessage(GrpcMessage message) override {
    const Status status = Answer(message);
    if (!status.ok()) Finish(status);
  }
  Status Answer(const GrpcMessage& message) {
    ServerReflectionRequest request;
    BRAID_RETURN_IF_ERROR(ReadGrpcMessage(message, request));
    BRAID_ASSIGN_OR_RETURN(EncodedMessage answer,
                           WriteGrpcMessage(AnswerReflection(request, thread().state().service_names)));
    Send(std::move(answer));
    NotifyWhenAtMost({});
    return OkStatus();
  }
  void OnSent() override { RequestMessage(); }
  void OnHalfClose() override { Finish(OkStatus()); }
  void OnDrain() override { Finish(UnavailableError("Server exiting")); }
  void OnCancelled() override {}
};

}  // namespace

ServerReflectionResponse AnswerReflection(const ServerReflectionRequest& request,
                                          const std::vector<std::string>& services) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kListServices:
      for (const std::string& name : services) {
        response.mutable_list_services_response()->add_service()->set_name(name);
      }
      break;
    case ServerReflectionRequest::kFileByFilename:
      SetFile(pool.FindFileByName(request.file_by_filename()),
              "file '" + Shortened(request.file_by_filename()) + "'", response);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      SetFile(pool.FindFileContainingSymbol(request.file_containing_symbol()),
              "symbol '" + Shortened(request.file_containing_symbol()) + "'", response);
      break;
    case ServerReflectionRequest::kFileContainingExtension: {
      const auto& asked = request.file_containing_extension();
      const Descriptor* message = pool.FindMessageTypeByName(asked.containing_type());
      const FieldDescriptor* extension =
          message == nullptr ? nullptr : pool.FindExtensionByNumber(message, asked.extension_number());
      SetFile(extension == nullptr ? nullptr : extension->file(),
              "extension " + std::to_string(asked.extension_number()) + " of '" +
                  Shortened(asked.containing_type()) + "'",
              response);
      break;
    }
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
      SetExtensions(pool, request.all_extension_numbers_of_type(), response);
      break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      SetError(kInvalidArgument, "the request has no message_request", response);
      break;
  }
  return response;
}

std::vector<std::string> ReflectionServices() {
  // Refers to v1, so that it is linked. The messages of both are the same on the wire, and v1alpha's classes
  // are used.
  return {grpc::reflection::v1::ServerReflectionRequest::descriptor()->file()->service(0)->full_name(),
          ServerReflectionRequest::descriptor()->file()->service(0)->full_name()};
}

std::vector<GrpcRoute> ReflectionRoutes() {
  const auto make = [](GrpcThread& thread, GrpcCall::Setup setup) -> Result<std::shared_ptr<GrpcCall>> {
    if (thread.state().draining) return UnavailableError("Server exiting");
    return std::shared_ptr<GrpcCall>(std::make_shared<ReflectionCall>(std::move(setup)));
  };
  std::vector<GrpcRoute> routes;
  for (const std::string& service : ReflectionServices()) {
    routes.push_back({"/" + service + "/ServerReflectionInfo", Api::kReflection, make});
  }
  return routes;
}

}  // namespace braid
