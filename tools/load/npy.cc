#include "load/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <map>

#include "load/elements.h"

namespace braid::load {
namespace {

constexpr std::string_view kDigits = "0123456789";

// Returns the text behind `key` in the file's header, a dictionary printed by Python; empty if the key is
// missing.
std::string_view EntryOf(std::string_view head, std::string_view key) {
  const std::string quoted = "'" + std::string(key) + "':";
  const size_t at = head.find(quoted);
  if (at == head.npos) return {};
  head.remove_prefix(at + quoted.size());
  head.remove_prefix(std::min(head.find_first_not_of(' '), head.size()));
  return head;
}

}  // namespace

Result<Tensor> ReadNpy(std::string_view bytes) {
  constexpr std::string_view kMagic("\x93NUMPY", 6);
  if (!bytes.starts_with(kMagic) || bytes.size() < 12) return InvalidArgumentError("not a .npy file");
  size_t head_at = 10;
  size_t head_bytes = static_cast<uint8_t>(bytes[8]) | static_cast<size_t>(static_cast<uint8_t>(bytes[9]))
                                                           << 8;
  if (bytes[6] != 1) {
    head_at = 12;
    for (size_t i = 10; i < 12; ++i)
      head_bytes |= static_cast<size_t>(static_cast<uint8_t>(bytes[i])) << (8 * (i - 8));
  }
  if (bytes.size() < head_at + head_bytes) return InvalidArgumentError("the .npy file is cut short");
  const std::string_view head = bytes.substr(head_at, head_bytes);
  std::string_view kind = EntryOf(head, "descr");
  if (kind.size() < 2 || kind.front() != '\'') {
    return InvalidArgumentError("the .npy file has a type that is not a plain number");
  }
  kind = kind.substr(1, kind.find('\'', 1) - 1);
  static const std::map<std::string, std::string, std::less<>> kKinds = {
      {"<f2", "FP16"},  {"<f4", "FP32"},   {"<f8", "FP64"},   {"|b1", "BOOL"},
      {"|i1", "INT8"},  {"<i2", "INT16"},  {"<i4", "INT32"},  {"<i8", "INT64"},
      {"|u1", "UINT8"}, {"<u2", "UINT16"}, {"<u4", "UINT32"}, {"<u8", "UINT64"}};
  const auto datatype = kKinds.find(kind);
  if (datatype == kKinds.end())
    return InvalidArgumentError("the .npy file has the unsupported type " + std::string(kind));
  if (!EntryOf(head, "fortran_order").starts_with("False")) {
    return InvalidArgumentError("the .npy file is in Fortran order; save numpy.ascontiguousarray(...)");
  }
  Tensor tensor;
  tensor.datatype = datatype->second;
  std::string_view shape = EntryOf(head, "shape");
  if (!shape.starts_with('(')) return InvalidArgumentError("the .npy file has no shape");
  shape = shape.substr(1, shape.find(')') - 1);
  while (true) {
    shape.remove_prefix(std::min(shape.find_first_of(kDigits), shape.size()));
    if (shape.empty()) break;
    const std::string_view text = shape.substr(0, shape.find_first_not_of(kDigits));
    shape.remove_prefix(text.size());
    int64_t dimension = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), dimension).ec != std::errc())
      return InvalidArgumentError("the .npy file has a dimension of " + std::string(text) +
                                  ", which is too large");
    tensor.shape.push_back(dimension);
  }
  BRAID_ASSIGN_OR_RETURN(const size_t count, ElementCount(tensor.shape));
  BRAID_ASSIGN_OR_RETURN(const size_t width, ElementBytes(tensor.datatype));
  if (bytes.size() - head_at - head_bytes != count * width)
    return InvalidArgumentError("the .npy file is cut short");
  tensor.data = bytes.substr(head_at + head_bytes);
  return tensor;
}

}  // namespace braid::load
