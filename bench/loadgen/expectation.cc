#include "expectation.h"

#include <cstring>
#include <functional>

namespace braid::bench {
namespace {

constexpr size_t kCompareEachBelow = size_t{64} * 1024;
constexpr uint64_t kCompareEvery = 16;

template <class T, class Operation>
std::string Combine(const std::string& left, const std::string& right, Operation operation) {
  std::string result(left.size(), '\0');
  for (size_t at = 0; at + sizeof(T) <= left.size(); at += sizeof(T)) {
    T a;
    T b;
    std::memcpy(&a, left.data() + at, sizeof(T));
    std::memcpy(&b, right.data() + at, sizeof(T));
    const T value = operation(a, b);
    std::memcpy(result.data() + at, &value, sizeof(T));
  }
  return result;
}

template <class T>
std::vector<std::string> SumAndDifference(const InputTensor& left, const InputTensor& right) {
  return {Combine<T>(left.data, right.data, std::plus<T>()),
          Combine<T>(left.data, right.data, std::minus<T>())};
}

Status CheckBytes(const OutputView& output, const std::string& expected) {
  size_t at = 0;
  for (std::string_view piece : output.data) {
    if (std::memcmp(piece.data(), expected.data() + at, piece.size()) != 0) {
      return InternalError("output " + output.name + " holds wrong data");
    }
    at += piece.size();
  }
  return OkStatus();
}

}  // namespace

Result<Expectation> Expectation::Make(Validation validation, const std::vector<InputTensor>& inputs,
                                      int every) {
  Expectation expectation;
  expectation.checks_ = validation != Validation::kNone;
  size_t request_bytes = 0;
  for (const InputTensor& input : inputs) request_bytes += input.data.size();
  if (every > 0) {
    expectation.every_ = static_cast<uint64_t>(every);
  } else {
    expectation.every_ = request_bytes < kCompareEachBelow ? 1 : kCompareEvery;
  }
  if (validation == Validation::kIdentity) {
    for (const InputTensor& input : inputs) expectation.data_.push_back(input.data);
  } else if (validation == Validation::kAddSub) {
    if (inputs.size() != 2 || inputs[0].datatype != inputs[1].datatype ||
        inputs[0].shape != inputs[1].shape) {
      return InvalidArgumentError("add_sub wants two inputs of one datatype and shape");
    }
    if (inputs[0].datatype == "FP32") {
      expectation.data_ = SumAndDifference<float>(inputs[0], inputs[1]);
    } else if (inputs[0].datatype == "FP64") {
      expectation.data_ = SumAndDifference<double>(inputs[0], inputs[1]);
    } else if (inputs[0].datatype == "INT32") {
      expectation.data_ = SumAndDifference<int32_t>(inputs[0], inputs[1]);
    } else if (inputs[0].datatype == "INT64") {
      expectation.data_ = SumAndDifference<int64_t>(inputs[0], inputs[1]);
    } else {
      return InvalidArgumentError("add_sub wants FP32, FP64, INT32 or INT64");
    }
  }
  return expectation;
}

Status Expectation::Check(const std::vector<OutputView>& outputs, uint64_t nth) const {
  if (!checks_) return OkStatus();
  if (outputs.size() != data_.size()) {
    return InternalError("expected " + std::to_string(data_.size()) + " outputs, got " +
                         std::to_string(outputs.size()));
  }
  for (size_t i = 0; i < data_.size(); ++i) {
    const std::string name = "OUTPUT" + std::to_string(i);
    const std::string graph_name = "output" + std::to_string(i);  // graphs have lower-case stream names
    const OutputView* output = nullptr;
    for (const OutputView& candidate : outputs) {
      if (candidate.name == name || candidate.name == graph_name) output = &candidate;
    }
    if (output == nullptr) return InternalError("the response lacks output " + name);
    if (const size_t size = load::PiecesSize(output->data); size != data_[i].size()) {
      return InternalError("output " + name + " has " + std::to_string(size) + " bytes instead of " +
                           std::to_string(data_[i].size()));
    }
    if (nth % every_ == 0) BRAID_RETURN_IF_ERROR(CheckBytes(*output, data_[i]));
  }
  return OkStatus();
}

}  // namespace braid::bench
