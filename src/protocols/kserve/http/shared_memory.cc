#include "protocols/kserve/http/shared_memory.h"

#include <simdjson.h>

#include "protocols/json/json.h"

namespace braid {
namespace {

Result<RegionInfo> ReadRegistration(const std::string& region, std::string_view body) {
  simdjson::dom::parser parser;
  BRAID_ASSIGN_OR_RETURN(auto root, ParseJsonCopy(parser, body));
  BRAID_ASSIGN_OR_RETURN(auto object, JsonObject("request", root, kMaxJsonKeys));
  RegionInfo info{.name = region, .key = {}, .offset = 0, .byte_size = 0};
  bool has_key = false;
  bool has_byte_size = false;
  for (auto field : object) {
    if (field.key == "key") {
      BRAID_ASSIGN_OR_RETURN(info.key, JsonString("key", field.value));
      has_key = true;
    } else if (field.key == "offset") {
      BRAID_ASSIGN_OR_RETURN(info.offset, JsonUnsigned("offset", field.value));
    } else if (field.key == "byte_size") {
      BRAID_ASSIGN_OR_RETURN(info.byte_size, JsonUnsigned("byte_size", field.value));
      has_byte_size = true;
    }
  }
  if (!has_key) return InvalidArgumentError("Shared memory register request has no 'key' field");
  if (!has_byte_size) return InvalidArgumentError("Shared memory register request has no 'byte_size' field");
  return info;
}

HttpResponse Acknowledge(const Status& status) {
  return status.ok() ? HttpResponse{} : ErrorResponse(status);
}

}  // namespace

HttpResponse SystemMemoryStatus(const ClientSharedMemory& memory, std::string_view region) {
  auto list = memory.List(region);
  if (!list.ok()) return ErrorResponse(list.status());
  std::string json = "[";
  for (const RegionInfo& info : *list) {
    if (json.size() > 1) json += ',';
    json += "{\"name\":";
    AppendJsonString(json, info.name);
    json += ",\"key\":";
    AppendJsonString(json, info.key);
    json += ",\"offset\":" + std::to_string(info.offset);
    json += ",\"byte_size\":" + std::to_string(info.byte_size) + "}";
  }
  return JsonResponse(json + "]");
}

HttpResponse RegisterSystemMemory(ClientSharedMemory& memory, const std::string& region,
                                  std::string_view body) {
  auto info = ReadRegistration(region, body);
  return Acknowledge(info.ok() ? memory.Register(std::move(info).value()) : info.status());
}

HttpResponse UnregisterSystemMemory(ClientSharedMemory& memory, std::string_view region) {
  return Acknowledge(memory.Unregister(region));
}

HttpResponse CudaMemoryStatus(std::string_view region) {
  const Status status = FindNoCudaRegion(region);
  return status.ok() ? JsonResponse("[]") : ErrorResponse(status);
}

HttpResponse RegisterCudaMemory(std::string_view region) { return ErrorResponse(RefuseCudaRegion(region)); }

}  // namespace braid
