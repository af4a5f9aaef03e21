// Fuzzes the body of a :predict request of TensorFlow Serving's REST API.
#include "protocols/tfs/rest_predict_request.h"

#include "base/testing/fuzz_input.h"
#include "protocols/inference/testing/fake_servable.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace braid;
  static FakeServable* const servable = [] {
    ServableInfo info;
    info.name = "m";
    info.dialect = Dialect::kOvms;
    for (int i = 1; i < kDataTypeCount; ++i) {
      TensorSpec& spec = info.inputs.emplace_back();
      spec.name = std::string(WireName(static_cast<DataType>(i)));
      spec.type = static_cast<DataType>(i);
      spec.shape = {-1, -1};
    }
    return new FakeServable(std::move(info));
  }();
  std::string body(reinterpret_cast<const char*>(data), size);
  body.append(simdjson::SIMDJSON_PADDING, ' ');
  simdjson::dom::parser parser;
  InferenceRequest request;
  (void)ReadRestPredictRequest(std::string_view(body).substr(0, size), "", *servable, parser, request);
  return 0;
}
