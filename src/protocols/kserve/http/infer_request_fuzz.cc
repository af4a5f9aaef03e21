// Fuzzes the JSON part of an infer request over HTTP, and the body after it.
#include "protocols/kserve/http/infer_request.h"

#include "base/check.h"
#include "base/testing/fuzz_input.h"
#include "protocols/kserve/testing/read_infer_request.h"
#include "serving/request_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace braid;
  FuzzInput input(data, size);
  const size_t binary = input.Number(0, 1000);
  const bool has_header = input.Flag();
  ServableInfo info;
  info.name = "m";
  info.dialect = input.Flag() ? Dialect::kOvms : Dialect::kTriton;
  for (int i = 1; i < kDataTypeCount; ++i) {
    TensorSpec& spec = info.inputs.emplace_back();
    spec.name = "IN" + std::to_string(i);
    spec.type = static_cast<DataType>(i);
    spec.shape = {-1};
  }
  std::string json(input.rest());
  const size_t length = json.size();
  json.append(simdjson::SIMDJSON_PADDING, ' ');
  HeapAllocator heap;
  simdjson::dom::parser parser;
  const auto read = ReadOwn([&](HttpInferRequest& out) {
    return ReadInferRequest(std::string_view(json).substr(0, length), binary, has_header,
                            {info, heap, 1 << 20}, parser, out);
  });
  if (!read.ok()) return 0;
  size_t rest = 0;
  for (const auto& destination : read->destinations) {
    std::fill(destination.begin(), destination.end(), std::byte{1});
    rest += destination.size();
  }
  BRAID_CHECK(rest == binary);
  (void)CheckRequest(info, *read->request);
  return 0;
}
