// The serialised states of a sequence, as a store keeps them.
//
// Numbers are little-endian; a text is its length (u32) and that many bytes.
//
//   u32        format, kSequenceRecordFormat
//   u32        number of states, and for each of them
//     text       name
//     u8         type, a DataType
//     u32        number of dimensions
//     i64 ...    dimensions
//     u64        number of bytes
//     bytes      as Tensor::data
//
// A reader trusts no field: it checks each length against the remaining bytes before use.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tensor/tensor.h"

namespace braid {

inline constexpr uint32_t kSequenceRecordFormat = 1;

std::string EncodeSequenceRecord(std::span<const Tensor> states);

// Errors: UNSUPPORTED for another format, INVALID_ARGUMENT for a damaged record.
Result<std::vector<Tensor>> DecodeSequenceRecord(std::string_view record);

}  // namespace braid
