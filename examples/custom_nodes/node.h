// Common code of the example nodes in C++: parameters, inputs by name, and outputs whose memory is freed
// after an error. No exception leaves the functions of the interface.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "custom_node_interface.h"

namespace node {

// The params of the node in config.json.
class Params {
 public:
  Params(const CustomNodeParam* params, int count) : params_(params), count_(count) {}

  std::string Text(const std::string& key, const std::string& otherwise) const {
    for (int i = 0; i < count_; ++i) {
      if (key == params_[i].key) return params_[i].value;
    }
    return otherwise;
  }
  double Number(const std::string& key, double otherwise) const {
    const std::string text = Text(key, "");
    return text.empty() ? otherwise : ToNumber(key, text);
  }
  // Returns numbers separated by commas.
  std::vector<double> Numbers(const std::string& key) const {
    std::vector<double> numbers;
    std::string rest = Text(key, "");
    while (!rest.empty()) {
      const size_t comma = rest.find(',');
      numbers.push_back(ToNumber(key, rest.substr(0, comma)));
      rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    }
    return numbers;
  }
  bool Flag(const std::string& key) const {
    const std::string text = Text(key, "false");
    if (text != "true" && text != "false")
      throw std::invalid_argument("param '" + key + "' is neither true nor false");
    return text == "true";
  }

 private:
  static double ToNumber(const std::string& key, const std::string& text) {
    char* end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0')
      throw std::invalid_argument("param '" + key + "' is no number: '" + text + "'");
    return number;
  }

  const CustomNodeParam* const params_;
  const int count_;
};

// Returns the input of this name, and checks its dimensions; 0 means any size.
inline const CustomNodeTensor& Input(const CustomNodeTensor* inputs, int count, const std::string& name,
                                     CustomNodeTensorPrecision precision, const std::vector<uint64_t>& dims) {
  for (int i = 0; i < count; ++i) {
    const CustomNodeTensor& input = inputs[i];
    if (name != input.name) continue;
    bool good = input.precision == precision && input.dimsCount == dims.size();
    for (size_t d = 0; good && d < dims.size(); ++d) good = dims[d] == 0 || dims[d] == input.dims[d];
    if (!good) throw std::invalid_argument("input '" + name + "' has another shape or precision");
    return input;
  }
  throw std::invalid_argument("input '" + name + "' is missing");
}

// Memory that the server frees through release(), which calls free().
template <class T>
T* Allocate(size_t count) {
  void* memory = std::calloc(count + 1, sizeof(T));
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<T*>(memory);
}

// An array of tensors or descriptions for the server; freed unless it is handed over.
template <class Item>
class Array {
 public:
  explicit Array(size_t count) : items_(Allocate<Item>(count)), count_(static_cast<int>(count)) {}
  ~Array() {
    if (items_ == nullptr) return;
    for (int i = 0; i < count_; ++i) {
      std::free(items_[i].dims);
      if constexpr (std::is_same_v<Item, CustomNodeTensor>) std::free(items_[i].data);
    }
    std::free(items_);
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  // Sets an item's name, which must live as long as the program, and its dimensions.
  Item& Set(int index, const char* name, CustomNodeTensorPrecision precision,
            const std::vector<uint64_t>& dims) {
    Item& item = items_[index];
    item.name = name;
    item.precision = precision;
    item.dims = Allocate<uint64_t>(dims.size());
    item.dimsCount = dims.size();
    for (size_t d = 0; d < dims.size(); ++d) item.dims[d] = dims[d];
    return item;
  }
  void Give(Item** items, int* count) {
    *items = items_;
    *count = count_;
    items_ = nullptr;
  }

 private:
  Item* items_;
  const int count_;
};

using Infos = Array<CustomNodeTensorInfo>;

class Outputs : public Array<CustomNodeTensor> {
 public:
  using Array::Array;

  // An output of zeros; returns the place for its values.
  template <class Number>
  Number* Add(int index, const char* name, CustomNodeTensorPrecision precision,
              const std::vector<uint64_t>& dims) {
    CustomNodeTensor& tensor = Set(index, name, precision, dims);
    uint64_t count = 1;
    for (uint64_t size : dims) count *= size;
    Number* numbers = Allocate<Number>(count);
    tensor.data = reinterpret_cast<uint8_t*>(numbers);
    tensor.dataBytes = count * sizeof(Number);
    return numbers;
  }
};

// Runs the body of a function of the interface. Returns 0, or 1 if it throws, and prints the reason to
// standard error.
template <class Body>
int Guarded(const char* node, Body&& body) {
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", node, error.what());
    return 1;
  }
}

}  // namespace node
