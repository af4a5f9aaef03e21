#include "protocols/kserve/grpc/request_sequence.h"

#include <algorithm>
#include <optional>

#include "base/utf8.h"
#include "protocols/inference/sequence_naming.h"
#include "protocols/kserve/grpc/request_builder.h"
#include "protocols/kserve/grpc/request_ovms.h"
#include "serving/request_check_ovms.h"
#include "serving/sequence_inputs.h"

namespace braid {
namespace {

using Inputs = std::vector<ParsedInput>;

bool NamesSequence(const ParsedInput& input) {
  return input.name == kSequenceIdInput || input.name == kSequenceControlInput;
}

std::optional<uint64_t> ReadRaw(WireSegments segments, const WireRange& raw, size_t size) {
  if (raw.size != size) return std::nullopt;
  uint64_t value = 0;  // little-endian
  CopyRange(segments, raw, reinterpret_cast<std::byte*>(&value));
  return value;
}

// Returns the value if it is the only one and in the field of its type.
std::optional<uint64_t> ReadContents(WireSegments segments, const ParsedContents& contents, DataType type) {
  const std::optional<ContentsField> field = ContentsFieldFor(type);
  uint64_t count = 0;
  for (const uint64_t elements : contents.elements) count += elements;
  if (!field || count != 1 || contents.count(*field) != 1) return std::nullopt;
  uint64_t value = 0;
  CopyContents(segments, contents, *field, ElementSize(type), reinterpret_cast<std::byte*>(&value));
  return value;
}

Result<std::optional<uint64_t>> ReadRegion(const ParsedInput& input, size_t size,
                                           const ClientRegions& regions) {
  BRAID_ASSIGN_OR_RETURN(const RegionRequest asked, FindRegionRequest(input.parameters));
  BRAID_ASSIGN_OR_RETURN(const RegionPart part, regions.Find(asked, input.name));
  if (part.byte_size != size || input.contents.present()) return std::optional<uint64_t>();
  if (part.region->copies() != nullptr)
    return UnsupportedError("sequence input '" + Shortened(input.name) + "' cannot use CUDA shared memory");
  uint64_t value = 0;
  Buffer to(reinterpret_cast<std::byte*>(&value), size, nullptr);  // not on a device: the copy is synchronous
  BRAID_RETURN_IF_ERROR(part.region->Read(part.offset, to));
  return std::optional<uint64_t>(value);
}

// Removes one of the two inputs from the message. REQUIRES: there are no raw contents, or one for each input
// outside shared memory regions.
Result<std::optional<SequenceInput>> TakeInput(WireSegments segments, std::string_view name, DataType type,
                                               const ClientRegions& regions, ParsedRequest& parsed) {
  Inputs& inputs = parsed.inputs;
  const auto is_it = [name](const ParsedInput& input) { return input.name == name; };
  const auto found = std::find_if(inputs.begin(), inputs.end(), is_it);
  if (found == inputs.end()) return std::optional<SequenceInput>();
  if (std::any_of(found + 1, inputs.end(), is_it)) return RepeatedSequenceInput(name);
  SequenceInput input;
  input.has_shape = !found->shape.empty();
  input.shape = std::move(found->shape);
  const bool right_type = DataTypeFromWireName(found->datatype) == type;
  if (LiesInRegion(*found)) {
    BRAID_ASSIGN_OR_RETURN(input.value, ReadRegion(*found, ElementSize(type), regions));
  } else if (!parsed.raw.empty()) {
    const auto raw = parsed.raw.begin() + std::count_if(inputs.begin(), found, [](const ParsedInput& other) {
                       return !LiesInRegion(other);
                     });
    input.value = ReadRaw(segments, *raw, ElementSize(type));
    parsed.raw.erase(raw);
  } else {
    input.value = ReadContents(segments, found->contents, type);
  }
  if (!right_type) input.value.reset();
  inputs.erase(found);
  return std::optional<SequenceInput>(std::move(input));
}

// Checks for faults of the message that leave the assignment of contents to inputs open.
Status CheckStructure(const ServableInfo& info, const ParsedRequest& parsed) {
  Status fault = CheckOvmsStructure(parsed);
  if (fault.ok()) return fault;
  const auto naming =
      static_cast<size_t>(std::count_if(parsed.inputs.begin(), parsed.inputs.end(), NamesSequence));
  BRAID_RETURN_IF_ERROR(CheckOvmsInputCount(info, parsed.inputs.size() - naming, naming));
  return fault;
}

}  // namespace

Status TakeSequence(WireSegments segments, const ServableInfo& info, std::string_view header,
                    const ClientRegions& regions, ParsedRequest& parsed, InferenceRequest& request) {
  if (info.stateful) BRAID_RETURN_IF_ERROR(CheckStructure(info, parsed));
  const auto take = [&](std::string_view name, DataType type) {
    return TakeInput(segments, name, type, regions, parsed);
  };
  return NameSequenceOf(info, header, take, request);
}

}  // namespace braid
