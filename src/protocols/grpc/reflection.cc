#include "protocols/grpc/reflection.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpcpp/grpcpp.h>

#include <set>

#include "base/guard.h"
#include "protocols/grpc/queue.h"
#include "protocols/grpc/status.h"

namespace braid {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

void SetError(grpc::StatusCode code, const std::string& text, ServerReflectionResponse& response) {
  response.mutable_error_response()->set_error_code(code);
  response.mutable_error_response()->set_error_message(text);
}

// The file and all that it imports, each once.
void SetFile(const FileDescriptor* file, const std::string& what, ServerReflectionResponse& response) {
  if (file == nullptr) {
    SetError(grpc::StatusCode::NOT_FOUND, "there is no " + what, response);
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
    SetError(grpc::StatusCode::NOT_FOUND, "there is no message '" + type + "'", response);
    return;
  }
  std::vector<const FieldDescriptor*> extensions;
  pool.FindAllExtensions(message, &extensions);
  auto& answer = *response.mutable_all_extension_numbers_response();
  answer.set_base_type_name(type);
  for (const FieldDescriptor* extension : extensions) answer.add_extension_number(extension->number());
}

// One client's stream of questions, which are answered one after the other. All of it on the queue's thread.
class ReflectionCall {
 public:
  // A method that is not armed again has ended for all clients, so each step here waits for its memory.
  static void Arm(GrpcQueue& queue) {
    const PatientAllocation patience;
    (new ReflectionCall(queue))->WaitForClient();
  }

 private:
  explicit ReflectionCall(GrpcQueue& queue) : queue_(queue) {}

  void WaitForClient() {
    queue_.CallArmed();
    context_.AsyncNotifyWhenDone(static_cast<GrpcEvent*>(&done_event_));
    queue_.state().reflection.RequestServerReflectionInfo(&context_, &stream_, queue_.cq(), queue_.cq(),
                                                          static_cast<GrpcEvent*>(&called_event_));
  }

  void OnCalled(bool ok) {
    if (!ok) {
      // The server stops and nobody called; the event of the end does not come for such a call.
      Leave();
      return;
    }
    if (queue_.taking_calls()) Arm(queue_);
    GrpcServerState& state = queue_.state();
    Status status = state.access.Check(Api::kReflection, context_);
    if (status.ok() && !state.reflections.Add(context_)) status = UnavailableError("Server exiting");
    if (status.ok()) {
      Read();
    } else {
      Finish(ToGrpcStatus(status));
    }
  }

  void Read() {
    const PatientAllocation patience;
    stream_.Read(&request_, static_cast<GrpcEvent*>(&read_event_));
  }

  void OnRead(bool ok) {
    if (!ok) {
      Finish(grpc::Status::OK);
      return;
    }
    const PatientAllocation patience;
    stream_.Write(AnswerReflection(request_, queue_.state().service_names),
                  static_cast<GrpcEvent*>(&written_event_));
  }

  void OnWritten(bool ok) {
    if (ok) {
      Read();
    } else {
      Finish(grpc::Status::CANCELLED);
    }
  }

  void Finish(const grpc::Status& status) {
    const PatientAllocation patience;
    stream_.Finish(status, static_cast<GrpcEvent*>(&finished_event_));
  }

  void OnFinished(bool) {
    finished_ = true;
    if (done_) Leave();
  }

  void OnDone(bool) {
    done_ = true;
    queue_.state().reflections.Remove(context_);
    if (finished_) Leave();
  }

  void Leave() {
    GrpcQueue& queue = queue_;
    delete this;
    queue.CallEnded();
  }

  GrpcQueue& queue_;
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<ServerReflectionResponse, ServerReflectionRequest> stream_{&context_};
  ServerReflectionRequest request_;
  bool finished_ = false;
  bool done_ = false;

  GrpcEventOf<ReflectionCall, &ReflectionCall::OnCalled> called_event_{this};
  GrpcEventOf<ReflectionCall, &ReflectionCall::OnRead> read_event_{this};
  GrpcEventOf<ReflectionCall, &ReflectionCall::OnWritten> written_event_{this};
  GrpcEventOf<ReflectionCall, &ReflectionCall::OnFinished> finished_event_{this};
  GrpcEventOf<ReflectionCall, &ReflectionCall::OnDone> done_event_{this};
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
      SetFile(pool.FindFileByName(request.file_by_filename()), "file '" + request.file_by_filename() + "'",
              response);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      SetFile(pool.FindFileContainingSymbol(request.file_containing_symbol()),
              "symbol '" + request.file_containing_symbol() + "'", response);
      break;
    case ServerReflectionRequest::kFileContainingExtension: {
      const auto& asked = request.file_containing_extension();
      const Descriptor* message = pool.FindMessageTypeByName(asked.containing_type());
      const FieldDescriptor* extension =
          message == nullptr ? nullptr : pool.FindExtensionByNumber(message, asked.extension_number());
      SetFile(
          extension == nullptr ? nullptr : extension->file(),
          "extension " + std::to_string(asked.extension_number()) + " of '" + asked.containing_type() + "'",
          response);
      break;
    }
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
      SetExtensions(pool, request.all_extension_numbers_of_type(), response);
      break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      SetError(grpc::StatusCode::INVALID_ARGUMENT, "the request has no message_request", response);
      break;
  }
  return response;
}

void ArmReflectionCall(GrpcQueue& queue) { ReflectionCall::Arm(queue); }

}  // namespace braid
