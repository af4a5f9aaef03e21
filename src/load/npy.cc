#include "load/npy.h"

#include <charconv>
#include <cstring>
#include <map>
#include <regex>

#include "load/elements.h"

namespace braid::load {

Result<Tensor> ReadNpy(std::string_view bytes) {
  constexpr std::string_view kMagic("\x93NUMPY", 6);
  if (!bytes.starts_with(kMagic) || bytes.size() < 12)
    return InvalidArgumentError("no file of numpy's (.npy)");
  size_t head_at = 10;
  size_t head_bytes = static_cast<uint8_t>(bytes[8]) | static_cast<size_t>(static_cast<uint8_t>(bytes[9]))
                                                           << 8;
  if (bytes[6] != 1) {
    head_at = 12;
    for (size_t i = 10; i < 12; ++i)
      head_bytes |= static_cast<size_t>(static_cast<uint8_t>(bytes[i])) << (8 * (i - 8));
  }
  if (bytes.size() < head_at + head_bytes) return InvalidArgumentError("the .npy file is cut short");
  const std::string head(bytes.substr(head_at, head_bytes));
  const std::regex description(R"('descr':\s*'([^']*)')");
  const std::regex order(R"('fortran_order':\s*(True|False))");
  const std::regex dimensions(R"('shape':\s*\(([^)]*)\))");
  std::smatch found;
  if (!std::regex_search(head, found, description)) {
    return InvalidArgumentError("the .npy file has a type that is no plain number");
  }
  const std::string kind = found[1];
  static const std::map<std::string, std::string> kKinds = {
      {"<f2", "FP16"},  {"<f4", "FP32"},   {"<f8", "FP64"},   {"|b1", "BOOL"},
      {"|i1", "INT8"},  {"<i2", "INT16"},  {"<i4", "INT32"},  {"<i8", "INT64"},
      {"|u1", "UINT8"}, {"<u2", "UINT16"}, {"<u4", "UINT32"}, {"<u8", "UINT64"}};
  const auto datatype = kKinds.find(kind);
  if (datatype == kKinds.end())
    return InvalidArgumentError("the .npy file has numpy's type " + kind + ", which cannot be sent");
  if (!std::regex_search(head, found, order) || found[1] != "False") {
    return InvalidArgumentError("the .npy file is in Fortran's order; save numpy.ascontiguousarray(...)");
  }
  Tensor tensor;
  tensor.datatype = datatype->second;
  if (!std::regex_search(head, found, dimensions)) return InvalidArgumentError("the .npy file has no shape");
  const std::string list = found[1];
  const std::regex number("[0-9]+");
  for (auto it = std::sregex_iterator(list.begin(), list.end(), number); it != std::sregex_iterator(); ++it) {
    const std::string text = it->str();
    int64_t dimension = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), dimension).ec != std::errc())
      return InvalidArgumentError("the .npy file has a dimension of " + text + ", which is too large");
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
