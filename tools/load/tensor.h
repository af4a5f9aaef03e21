// Tensors and requests of the clients in this folder.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "load/pieces.h"

namespace braid::load {

// The place of a tensor in a registered shared memory region.
struct SharedPlace {
  std::string region;
  size_t byte_size = 0;
  size_t offset = 0;
};

struct Tensor {
  std::string name;
  std::string datatype;  // as in KServe v2: FP32, BYTES, ...
  std::vector<int64_t> shape;
  std::string data;  // wire format: little endian; each BYTES element is preceded by its length
};

using Parameter = std::variant<bool, int64_t, double, std::string>;
using Parameters = std::map<std::string, Parameter>;

// A requested output, with its place in shared memory if it has one.
struct RequestedOutput {
  std::string name;
  SharedPlace place;  // region "": in the response
};

struct InferRequest {
  std::string model;
  std::string version;  // "": the server chooses
  std::string id;
  Parameters parameters;
  std::vector<Tensor> inputs;
  std::vector<SharedPlace> input_places;  // one for each input; empty: data in the request
  std::vector<RequestedOutput> outputs;   // empty: all outputs
};

// An output of a response; its data is not copied.
struct OutputView {
  std::string name;
  std::string datatype;
  std::vector<int64_t> shape;
  Pieces data;  // empty if the output is in shared memory
};

struct InferResponse {
  std::string model;
  std::string version;
  std::string id;
  Parameters parameters;
  std::vector<OutputView> outputs;
  int64_t tokens = 0;  // of a chat completion, in its last response

  // Whether this is the last response of a decoupled model (the parameter triton_final_response).
  bool final() const {
    const auto found = parameters.find("triton_final_response");
    const bool* is = found == parameters.end() ? nullptr : std::get_if<bool>(&found->second);
    return is != nullptr && *is;
  }
};

// Returns "[1,3,-1]".
std::string ShapeText(const std::vector<int64_t>& shape);

}  // namespace braid::load
