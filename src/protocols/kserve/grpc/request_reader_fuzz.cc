// Parses a ModelInferRequest in pieces of any size. Accepted tensors are copied out in all forms.
#include "base/testing/fuzz_input.h"
#include "protocols/kserve/grpc/request_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace braid;
  FuzzInput input(data, size);
  const std::vector<std::string> pieces = input.Pieces(input.Number(1, 512));
  const std::vector<std::string_view> segments(pieces.begin(), pieces.end());
  ParsedRequest request;
  if (!ParseInferRequest({segments.data(), segments.size()}, request).ok()) return 0;
  for (const ParsedInput& parsed : request.inputs) {
    for (const auto& [field, element] : {std::pair(ContentsField::kBool, 1),
                                         {ContentsField::kInt, 1},
                                         {ContentsField::kInt, 4},
                                         {ContentsField::kInt64, 8},
                                         {ContentsField::kUint, 2},
                                         {ContentsField::kUint64, 8},
                                         {ContentsField::kFp32, 4},
                                         {ContentsField::kFp64, 8},
                                         {ContentsField::kBytes, 0}}) {
      std::vector<std::byte> raw(ContentsRawSize(parsed.contents, field, static_cast<size_t>(element)));
      CopyContents({segments.data(), segments.size()}, parsed.contents, field, static_cast<size_t>(element),
                   raw.data());
    }
  }
  return 0;
}
