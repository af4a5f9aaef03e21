#include "protocols/kserve/http/shared_memory.h"

#include <simdjson.h>

#include <algorithm>
#include <climits>
#include <utility>

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

struct CudaRegistration {
  RegionInfo info;
  std::string raw_handle;
};
Result<CudaRegistration> ReadCudaRegistration(const std::string& region, std::string_view body) {
  simdjson::dom::parser parser;
  BRAID_ASSIGN_OR_RETURN(auto root, ParseJsonCopy(parser, body));
  BRAID_ASSIGN_OR_RETURN(auto object, JsonObject("request", root, kMaxJsonKeys));
  CudaRegistration read{.info = {.name = region, .key = {}}, .raw_handle = {}};
  bool has_handle = false;
  bool has_byte_size = false;
  for (auto field : object) {
    if (field.key == "raw_handle") {
      BRAID_ASSIGN_OR_RETURN(auto handle, JsonObject("raw_handle", field.value, kMaxJsonKeys));
      for (auto part : handle) {
        if (part.key != "b64") continue;
        BRAID_ASSIGN_OR_RETURN(const std::string_view text, JsonString("b64", part.value));
        auto decoded = DecodeBase64(text);
        if (!decoded) return InvalidArgumentError("'raw_handle' must have base64 in 'b64'");
        read.raw_handle = *std::move(decoded);
        has_handle = true;
      }
    } else if (field.key == "device_id") {
      BRAID_ASSIGN_OR_RETURN(const uint64_t gpu, JsonUnsigned("device_id", field.value));
      read.info.gpu = static_cast<int>(std::min<uint64_t>(gpu, INT_MAX));
    } else if (field.key == "byte_size") {
      BRAID_ASSIGN_OR_RETURN(read.info.byte_size, JsonUnsigned("byte_size", field.value));
      has_byte_size = true;
    }
  }
  const std::string lacks = "Shared memory register request has no ";
  if (!has_handle) return InvalidArgumentError(lacks + "'raw_handle' field");
  if (!read.info.gpu) return InvalidArgumentError(lacks + "'device_id' field");
  if (!has_byte_size) return InvalidArgumentError(lacks + "'byte_size' field");
  return read;
}

}  // namespace

Status RegisterSystemRegion(ClientSharedMemory& memory, const std::string& region, std::string_view body) {
  BRAID_ASSIGN_OR_RETURN(RegionInfo info, ReadRegistration(region, body));
  return memory.Register(std::move(info));
}

Status RegisterCudaRegion(ClientSharedMemory& memory, const std::string& region, std::string_view body) {
  BRAID_RETURN_IF_ERROR(memory.CheckGpus(region));
  BRAID_ASSIGN_OR_RETURN(CudaRegistration read, ReadCudaRegistration(region, body));
  return memory.RegisterCuda(std::move(read.info), read.raw_handle);
}

}  // namespace braid
