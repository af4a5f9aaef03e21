// The serialised states of a sequence, as a store and a SequenceFile keep them.
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

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tensor/tensor.h"

namespace braid {

// The bytes that states are written to: a record, or a part of a SequenceFile.
class RecordWriter {
 public:
  virtual void Bytes(const void* data, size_t size) = 0;
  template <class T>
  void Number(T number) {
    Bytes(&number, sizeof(number));
  }
  void Text(std::string_view text);

 protected:
  ~RecordWriter() = default;
};

// The bytes that states are read from. `what` names the field for the text of an error.
class RecordReader {
 public:
  explicit RecordReader(uint64_t left) : left_(left) {}

  uint64_t left() const { return left_; }
  Status Bytes(void* to, uint64_t size, std::string_view what);
  template <class T>
  Status Number(T& number, std::string_view what) {
    return Bytes(&number, sizeof(number), what);
  }
  Status Text(std::string& text, std::string_view what);
  // Errors: INVALID_ARGUMENT if less than `size` bytes are left.
  Status CheckLeft(uint64_t size, std::string_view what) const;

 protected:
  ~RecordReader() = default;

 private:
  // Reads the next `size` bytes. REQUIRES: size <= left()
  virtual Status Get(void* to, uint64_t size, std::string_view what) = 0;

  uint64_t left_;
};

// INVALID_ARGUMENT, "it is damaged: {why}".
Status DamagedRecord(const std::string& why);

// The number of states, and the states.
void WriteStates(RecordWriter& writer, std::span<const Tensor> states);
// Errors: INVALID_ARGUMENT for states that are not whole, or whose bytes do not match their type and shape.
Status ReadStates(RecordReader& reader, std::vector<Tensor>& states);

inline constexpr uint32_t kSequenceRecordFormat = 1;

std::string EncodeSequenceRecord(std::span<const Tensor> states);

// Errors: UNSUPPORTED for another format, INVALID_ARGUMENT for a damaged record.
Result<std::vector<Tensor>> DecodeSequenceRecord(std::string_view record);

}  // namespace braid
