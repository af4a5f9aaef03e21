// What requests are made of: values from the metadata of a model, from a data file in perf_analyzer's format, or from a folder.
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

// How values are made and put together.
struct DataOptions {
  int64_t batch = 1;  // samples of a request; more than 1 only for models with batches
  Shapes shapes;      // of inputs, without the batch: where the metadata leaves a dimension open
  FillOptions fill;
  std::function<void(const std::string&)> note;  // hears of what was assumed; empty: nothing does
};

// Writes each note once to standard error, behind the program's name.
std::function<void(const std::string&)> NotesOf(const std::string& program);

// One request's tensors, and the outputs that its answer has to have (none: not looked at).
struct DataStep {
  std::vector<Tensor> inputs;
  std::vector<Tensor> expected;
};

// Streams of steps: a stream is what one sequence sends, step after step. Requests without sequences take all steps in turn.
struct DataSet {
  std::vector<std::vector<DataStep>> streams;
};

// Whether a model puts requests together along a first dimension, which its metadata then shows as -1.
bool HasBatches(const ModelInfo& model);

// Reads "NAME:1,2,3".
Result<std::pair<std::string, std::vector<int64_t>>> ParseShape(std::string_view text);

// Reads "NAME:FP32": the datatype of an input or output whose metadata has none. Errors: no such tensor or datatype; the metadata
// has another one.
Status SetDatatype(std::string_view text, ModelInfo& model);

// The shape that a sample has by --shape and metadata, without a batch. Where both leave a dimension open it is 1, which is noted.
std::vector<int64_t> ShapeToMake(const ModelInfo& model, const TensorInfo& info, const DataOptions& options);

// Values for each input that is not optional. Errors: a datatype that is not known, a batch that the model does not have.
Result<DataStep> MakeStep(const ModelInfo& model, const DataOptions& options, std::mt19937_64& random);

// A tensor of one input from JSON: a list (of any depth), one value, or {"content": ..., "shape": ...}, {"b64": "..."}.
// The value is a sample, to which the batch is put in front.
Result<Tensor> TensorFromJson(const ModelInfo& model, const TensorInfo& info, const DataOptions& options,
                              const Json& value);

// A tensor of one input from its bytes as on the wire; their number says the size of a dimension that is open.
Result<Tensor> TensorFromBytes(const ModelInfo& model, const TensorInfo& info, const DataOptions& options,
                               std::string bytes);

// Reads {"data": [...], "validation_data": [...]}. `name` is for errors.
Result<DataSet> ReadDataFile(const ModelInfo& model, const DataOptions& options, const std::string& text,
                             const std::string& name);

// A file for each input, named as it, with its bytes as on the wire; and for each output that is to be compared. Of an input of BYTES
// with one element the file is the element.
Result<DataSet> ReadDataFolder(const ModelInfo& model, const DataOptions& options, const std::string& folder);

Result<std::string> ReadFile(const std::string& path);

// Errors: no base64.
Result<std::string> DecodeBase64(std::string_view text);

}  // namespace braid::load
