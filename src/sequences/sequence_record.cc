#include "sequences/sequence_record.h"

#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "tensor/buffer.h"
#include "tensor/bytes_elements.h"
#include "tensor/data_type.h"

namespace braid {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

// More than any tensor has.
constexpr uint32_t kMostDimensions = 64;

class StringWriter final : public RecordWriter {
 public:
  explicit StringWriter(std::string& out) : out_(out) {}
  void Bytes(const void* data, size_t size) override { out_.append(static_cast<const char*>(data), size); }

 private:
  std::string& out_;
};

class StringReader final : public RecordReader {
 public:
  explicit StringReader(std::string_view record) : RecordReader(record.size()), record_(record) {}

 private:
  Status Get(void* to, uint64_t size, std::string_view) override {
    if (size > 0) std::memcpy(to, record_.data(), size);
    record_.remove_prefix(size);
    return OkStatus();
  }

  std::string_view record_;
};

// Checks that the bytes match type and shape, since they go to models unchanged.
Status CheckState(const Tensor& state) {
  const std::optional<int64_t> elements = ElementCount(state.shape);
  if (!elements) return DamagedRecord("a state has an invalid shape");
  if (state.type != DataType::kBytes) {
    return ByteSize(state.type, state.shape) == state.data.size()
               ? OkStatus()
               : DamagedRecord("a state's size does not match its shape");
  }
  int64_t found = 0;
  BytesElements walk(state.data.text());
  while (walk.Next()) ++found;
  return !walk.truncated() && found == *elements
             ? OkStatus()
             : DamagedRecord("a state's number of strings does not match its shape");
}

Status ReadState(RecordReader& reader, Tensor& state) {
  BRAID_RETURN_IF_ERROR(reader.Text(state.name, "the name of a state"));
  uint8_t type = 0;
  BRAID_RETURN_IF_ERROR(reader.Number(type, "the type of a state"));
  if (type == 0 || type >= kDataTypeCount) {
    return DamagedRecord("a state has unknown type " + std::to_string(type));
  }
  state.type = static_cast<DataType>(type);
  uint32_t rank = 0;
  BRAID_RETURN_IF_ERROR(reader.Number(rank, "the shape of a state"));
  BRAID_RETURN_IF_ERROR(reader.CheckLeft(uint64_t{rank} * sizeof(int64_t), "the shape of a state"));
  if (rank > kMostDimensions) return DamagedRecord("a state has an invalid shape");
  state.shape.resize(rank);
  for (int64_t& dimension : state.shape) {
    BRAID_RETURN_IF_ERROR(reader.Number(dimension, "the shape of a state"));
  }
  uint64_t size = 0;
  BRAID_RETURN_IF_ERROR(reader.Number(size, "the bytes of a state"));
  BRAID_RETURN_IF_ERROR(reader.CheckLeft(size, "the bytes of a state"));
  HeapAllocator heap;
  BRAID_ASSIGN_OR_RETURN(state.data, heap.Allocate(size));
  BRAID_RETURN_IF_ERROR(reader.Bytes(state.data.mutable_data(), size, "the bytes of a state"));
  return CheckState(state);
}

}  // namespace

Status DamagedRecord(const std::string& why) { return InvalidArgumentError("it is damaged: " + why); }

void RecordWriter::Text(std::string_view text) {
  Number(static_cast<uint32_t>(text.size()));
  Bytes(text.data(), text.size());
}

Status RecordReader::CheckLeft(uint64_t size, std::string_view what) const {
  return size <= left_ ? OkStatus() : DamagedRecord("it ends within " + std::string(what));
}

Status RecordReader::Bytes(void* to, uint64_t size, std::string_view what) {
  BRAID_RETURN_IF_ERROR(CheckLeft(size, what));
  BRAID_RETURN_IF_ERROR(Get(to, size, what));
  left_ -= size;
  return OkStatus();
}

Status RecordReader::Text(std::string& text, std::string_view what) {
  uint32_t size = 0;
  BRAID_RETURN_IF_ERROR(Number(size, what));
  BRAID_RETURN_IF_ERROR(CheckLeft(size, what));
  text.resize(size);
  return Bytes(text.data(), size, what);
}

void WriteStates(RecordWriter& writer, std::span<const Tensor> states) {
  writer.Number(static_cast<uint32_t>(states.size()));
  for (const Tensor& state : states) {
    writer.Text(state.name);
    writer.Number(static_cast<uint8_t>(state.type));
    writer.Number(static_cast<uint32_t>(state.shape.size()));
    for (const int64_t dimension : state.shape) writer.Number(dimension);
    writer.Number(uint64_t{state.data.size()});
    writer.Bytes(state.data.data(), state.data.size());
  }
}

Status ReadStates(RecordReader& reader, std::vector<Tensor>& states) {
  uint32_t count = 0;
  BRAID_RETURN_IF_ERROR(reader.Number(count, "a sequence"));
  // A large count allocates nothing by itself: each state takes bytes, or is an error.
  for (uint32_t i = 0; i < count; ++i) {
    BRAID_RETURN_IF_ERROR(ReadState(reader, states.emplace_back()));
  }
  return OkStatus();
}

std::string EncodeSequenceRecord(std::span<const Tensor> states) {
  std::string out;
  size_t bytes = 64;
  for (const Tensor& state : states) bytes += state.data.size() + state.name.size() + 128;
  out.reserve(bytes);
  StringWriter writer(out);
  writer.Number(kSequenceRecordFormat);
  WriteStates(writer, states);
  return out;
}

Result<std::vector<Tensor>> DecodeSequenceRecord(std::string_view record) {
  StringReader reader(record);
  uint32_t format = 0;
  BRAID_RETURN_IF_ERROR(reader.Number(format, "its head"));
  if (format != kSequenceRecordFormat) {
    return UnsupportedError("it has format " + std::to_string(format) + ", but this server reads format " +
                            std::to_string(kSequenceRecordFormat));
  }
  std::vector<Tensor> states;
  BRAID_RETURN_IF_ERROR(ReadStates(reader, states));
  if (reader.left() > 0) return DamagedRecord("it has data after its last state");
  return states;
}

}  // namespace braid
