#include "protocols/tfs/data_types.h"

#include <iterator>

namespace braid {
namespace {

using Proto = tensorflow::TensorProto;

struct Row {
  DataType type;
  tensorflow::DataType dtype;
  int value_field;
};

constexpr Row kTypes[] = {
    {DataType::kBool, tensorflow::DT_BOOL, Proto::kBoolValFieldNumber},
    {DataType::kUint8, tensorflow::DT_UINT8, Proto::kIntValFieldNumber},
    {DataType::kUint16, tensorflow::DT_UINT16, Proto::kIntValFieldNumber},
    {DataType::kUint32, tensorflow::DT_UINT32, Proto::kUint32ValFieldNumber},
    {DataType::kUint64, tensorflow::DT_UINT64, Proto::kUint64ValFieldNumber},
    {DataType::kInt8, tensorflow::DT_INT8, Proto::kIntValFieldNumber},
    {DataType::kInt16, tensorflow::DT_INT16, Proto::kIntValFieldNumber},
    {DataType::kInt32, tensorflow::DT_INT32, Proto::kIntValFieldNumber},
    {DataType::kInt64, tensorflow::DT_INT64, Proto::kInt64ValFieldNumber},
    {DataType::kFp16, tensorflow::DT_HALF, Proto::kHalfValFieldNumber},
    {DataType::kFp32, tensorflow::DT_FLOAT, Proto::kFloatValFieldNumber},
    {DataType::kFp64, tensorflow::DT_DOUBLE, Proto::kDoubleValFieldNumber},
    {DataType::kBytes, tensorflow::DT_STRING, Proto::kStringValFieldNumber},
    {DataType::kBf16, tensorflow::DT_BFLOAT16, Proto::kHalfValFieldNumber},
};
static_assert(std::size(kTypes) == kDataTypeCount - 1);

const Row* Find(DataType type) {
  for (const Row& row : kTypes) {
    if (row.type == type) return &row;
  }
  return nullptr;
}

}  // namespace

std::optional<DataType> FromTensorFlow(uint32_t dtype) {
  for (const Row& row : kTypes) {
    if (static_cast<uint32_t>(row.dtype) == dtype) return row.type;
  }
  return std::nullopt;
}

tensorflow::DataType ToTensorFlow(DataType type) {
  const Row* row = Find(type);
  return row != nullptr ? row->dtype : tensorflow::DT_INVALID;
}

uint32_t ValueField(DataType type) {
  const Row* row = Find(type);
  return row != nullptr ? static_cast<uint32_t>(row->value_field) : 0;
}

}  // namespace braid
