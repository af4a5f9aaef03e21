// Tensors and requests as the clients of this folder speak of them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "load/pieces.h"

namespace braid::load {

// Where in a registered region of shared memory a tensor lies.
struct SharedPlace {
  std::string region;
  size_t byte_size = 0;
  size_t offset = 0;
};

struct Tensor {
  std::string name;
  std::string datatype;  // as KServe v2 writes it: FP32, BYTES, ...
  std::vector<int64_t> shape;
  std::string data;  // as on the wire: little endian; elements of BYTES are preceded by their length
};

using Parameter = std::variant<bool, int64_t, double, std::string>;
using Parameters = std::map<std::string, Parameter>;

// An output that is asked for by name, perhaps to be put into shared memory.
struct RequestedOutput {
  std::string name;
  SharedPlace place;  // region "": in the response
};

struct InferRequest {
  std::string model;
  std::string version;  // "": the server's choice
  std::string id;
  Parameters parameters;
  std::vector<Tensor> inputs;
  std::vector<SharedPlace> input_places;  // one for each input, or none: data in the request
  std::vector<RequestedOutput> outputs;   // none: all that there are
};

// An output of a response, where it lies.
struct OutputView {
  std::string name;
  std::string datatype;
  std::vector<int64_t> shape;
  Pieces data;  // none where the output lies in shared memory
};

struct InferResponse {
  std::string model;
  std::string version;
  std::string id;
  Parameters parameters;
  std::vector<OutputView> outputs;

  // The response is the last one of a decoupled model's (the parameter triton_final_response).
  bool final() const {
    const auto found = parameters.find("triton_final_response");
    const bool* is = found == parameters.end() ? nullptr : std::get_if<bool>(&found->second);
    return is != nullptr && *is;
  }
};

// "[1,3,-1]".
std::string ShapeText(const std::vector<int64_t>& shape);

}  // namespace braid::load
