// Fuzzes a PredictRequest of TensorFlow Serving in pieces of any size.
#include "protocols/tfs/predict_request_reader.h"

#include "base/testing/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace braid;
  FuzzInput input(data, size);
  const std::vector<std::string> pieces = input.Pieces(input.Number(1, 512));
  const std::vector<std::string_view> segments(pieces.begin(), pieces.end());
  ParsedPredictRequest request;
  (void)ParsePredictRequest({segments.data(), segments.size()}, request);
  return 0;
}
