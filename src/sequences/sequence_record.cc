#include "sequences/sequence_record.h"

#include <bit>
#include <cstring>

#include "tensor/data_type.h"

namespace braid {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

// More than any tensor has.
constexpr uint32_t kMostDimensions = 64;

template <class T>
void Put(T number, std::string& out) {
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

Status DamagedRecord() { return InvalidArgumentError("it is damaged"); }

class RecordReader {
 public:
  explicit RecordReader(std::string_view left) : left_(left) {}

  template <class T>
  bool Number(T& number) {
    if (left_.size() < sizeof(number)) return false;
    std::memcpy(&number, left_.data(), sizeof(number));
    left_.remove_prefix(sizeof(number));
    return true;
  }
  bool Bytes(uint64_t size, std::string_view& bytes) {
    if (left_.size() < size) return false;
    bytes = left_.substr(0, size);
    left_.remove_prefix(size);
    return true;
  }
  bool empty() const { return left_.empty(); }

 private:
  std::string_view left_;
};

bool ReadState(RecordReader& reader, Tensor& state) {
  uint32_t size = 0;
  uint8_t type = 0;
  uint32_t dimensions = 0;
  std::string_view bytes;
  if (!reader.Number(size) || !reader.Bytes(size, bytes)) return false;
  state.name = bytes;
  if (!reader.Number(type) || !reader.Number(dimensions) || dimensions > kMostDimensions) return false;
  if (type == 0 || type >= kDataTypeCount) return false;
  state.type = static_cast<DataType>(type);
  for (uint32_t i = 0; i < dimensions; ++i) {
    int64_t dimension = 0;
    if (!reader.Number(dimension)) return false;
    state.shape.push_back(dimension);
  }
  uint64_t data = 0;
  if (!reader.Number(data) || !reader.Bytes(data, bytes)) return false;
  state.data = CopyToHeap(std::as_bytes(std::span(bytes)));
  return true;
}

}  // namespace

std::string EncodeSequenceRecord(std::span<const Tensor> states) {
  std::string out;
  size_t bytes = 64;
  for (const Tensor& state : states) bytes += state.data.size() + state.name.size() + 128;
  out.reserve(bytes);
  Put(kSequenceRecordFormat, out);
  Put(static_cast<uint32_t>(states.size()), out);
  for (const Tensor& state : states) {
    Put(static_cast<uint32_t>(state.name.size()), out);
    out += state.name;
    Put(static_cast<uint8_t>(state.type), out);
    Put(static_cast<uint32_t>(state.shape.size()), out);
    for (const int64_t dimension : state.shape) Put(dimension, out);
    Put(uint64_t{state.data.size()}, out);
    out += state.data.text();
  }
  return out;
}

Result<std::vector<Tensor>> DecodeSequenceRecord(std::string_view record) {
  RecordReader reader(record);
  uint32_t format = 0;
  uint32_t count = 0;
  if (!reader.Number(format)) return DamagedRecord();
  if (format != kSequenceRecordFormat) {
    return UnsupportedError("it has format " + std::to_string(format) + ", this server reads format " +
                            std::to_string(kSequenceRecordFormat));
  }
  if (!reader.Number(count)) return DamagedRecord();
  std::vector<Tensor> states;
  for (uint32_t i = 0; i < count; ++i) {
    Tensor state;
    if (!ReadState(reader, state)) return DamagedRecord();
    states.push_back(std::move(state));
  }
  if (!reader.empty()) return DamagedRecord();
  return states;
}

}  // namespace braid
