// Request data: generated from a model's metadata, or read from a data file in perf_analyzer's format or from
// a folder.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "load/client.h"
#include "load/elements.h"
#include "load/tensor.h"

namespace braid::load {

using Shapes = std::map<std::string, std::vector<int64_t>>;

// How values are generated and combined.
struct DataOptions {
  int64_t batch = 1;  // samples per request; more than 1 only for models with batches
  Shapes shapes;      // of inputs, without the batch; for dimensions that the metadata leaves open
  FillOptions fill;
  std::function<void(const std::string&)> note;  // receives each assumption; may be empty
};

// Returns a function that writes each note once to standard error, prefixed with the program's name.
std::function<void(const std::string&)> NotesOf(const std::string& program);

// The tensors of one request, and the expected outputs (none: not compared).
struct DataStep {
  std::vector<Tensor> inputs;
  std::vector<Tensor> expected;
};

// Streams of steps. A sequence sends the steps of one stream in order; requests without sequences cycle
// through all steps.
struct DataSet {
  std::vector<std::vector<DataStep>> streams;
};

// Whether a model batches requests along a first dimension, which its metadata then shows as -1.
bool HasBatches(const ModelInfo& model);

// Parses "NAME:1,2,3".
Result<std::pair<std::string, std::vector<int64_t>>> ParseShape(std::string_view text);

// Parses "NAME:FP32" and sets the datatype of an input or output without one. Errors: an unknown tensor or
// datatype; the metadata has a different datatype.
Status SetDatatype(std::string_view text, ModelInfo& model);

// Returns the shape of a sample, without a batch, from --shape and the metadata. A dimension that both leave
// open becomes 1, which is noted.
std::vector<int64_t> ShapeToMake(const ModelInfo& model, const TensorInfo& info, const DataOptions& options);

// Generates values for each input that is not optional. Errors: an unknown datatype; a batch for a model
// without batches.
Result<DataStep> MakeStep(const ModelInfo& model, const DataOptions& options, std::mt19937_64& random);

// Converts JSON to a tensor of one input: a list (of any depth), one value, {"content": ..., "shape": ...},
// or {"b64": "..."}. The value is one sample; the batch dimension is prepended.
Result<Tensor> TensorFromJson(const ModelInfo& model, const TensorInfo& info, const DataOptions& options,
                              const Json& value);

// Converts bytes in wire format to a tensor of one input. Their number determines an open dimension.
Result<Tensor> TensorFromBytes(const ModelInfo& model, const TensorInfo& info, const DataOptions& options,
                               std::string bytes);

// Parses {"data": [...], "validation_data": [...]}. `name` is for errors.
Result<DataSet> ReadDataFile(const ModelInfo& model, const DataOptions& options, const std::string& text,
                             const std::string& name);

// Reads a file for each input, with the input's name and its bytes in wire format, and for each output to
// compare. For a BYTES input with one element the file is the element.
Result<DataSet> ReadDataFolder(const ModelInfo& model, const DataOptions& options, const std::string& folder);

Result<std::string> ReadFile(const std::string& path);

// Errors: the text is not base64.
Result<std::string> DecodeBase64(std::string_view text);

}  // namespace braid::load
