#include "config/warmup.h"

#include <cstring>
#include <map>
#include <random>
#include <string>

#include "tensor/bytes_elements.h"

namespace braid {
namespace {

using inference::ModelWarmup;

// The limit for one input of a sample, so that a mistake in its dimensions does not exhaust the memory.
constexpr size_t kMaxInputBytes = size_t{4} << 30;
constexpr uint32_t kMaxRandomLength = 32;

class SampleMaker {
 public:
  SampleMaker(const inference::ModelConfig& config, const ModelWarmup& sample, const Folder& folder)
      : config_(config), sample_(sample), folder_(folder) {}

  Result<WarmupSample> Make() {
    WarmupSample made;
    made.name = sample_.name();
    made.count = sample_.count() == 0 ? 1 : sample_.count();
    made.batch_size = sample_.batch_size();
    const bool batching = config_.max_batch_size() > 0;
    if (batching ? made.batch_size > config_.max_batch_size() : made.batch_size != 1) {
      return Fault("batch_size " + std::to_string(made.batch_size) + " is not allowed, max_batch_size is " +
                   std::to_string(config_.max_batch_size()));
    }
    // Maps are unordered; sort the inputs, so that requests have a fixed order.
    const std::map<std::string, ModelWarmup::Input> inputs(sample_.inputs().begin(), sample_.inputs().end());
    for (const auto& [name, input] : inputs) {
      BRAID_ASSIGN_OR_RETURN(Tensor tensor, MakeInput(name, input, batching));
      made.inputs.push_back(std::move(tensor));
    }
    return made;
  }

 private:
  Status Fault(const std::string& what) const {
    return InvalidArgumentError("model '" + config_.name() + "', warmup sample '" + sample_.name() +
                                "': " + what);
  }

  Result<Tensor> MakeInput(const std::string& name, const ModelWarmup::Input& input, bool batching) {
    Tensor tensor;
    tensor.name = name;
    if (input.data_type() == inference::TYPE_INVALID || !inference::DataType_IsValid(input.data_type())) {
      return Fault("input '" + name + "' must specify 'data_type'");
    }
    tensor.type = static_cast<DataType>(input.data_type());
    if (batching) tensor.shape.push_back(sample_.batch_size());
    for (int64_t dim : input.dims()) {
      if (dim < 0) return Fault("input '" + name + "' has a variable dimension, all dims must be fixed");
      tensor.shape.push_back(dim);
    }
    const auto elements = ElementCount(tensor.shape);
    const size_t least = tensor.type == DataType::kBytes ? sizeof(uint32_t) : ElementSize(tensor.type);
    if (!elements || static_cast<uint64_t>(*elements) > kMaxInputBytes / least) {
      return Fault("input '" + name + "' of shape " + ShapeToString(tensor.shape) + " is too large");
    }
    const auto count = static_cast<size_t>(*elements);
    std::string bytes;
    switch (input.input_data_type_case()) {
      case ModelWarmup::Input::kRandomData:
        bytes = Random(tensor.type, count);
        break;
      case ModelWarmup::Input::kInputDataFile: {
        BRAID_ASSIGN_OR_RETURN(bytes, ReadData(name, input, tensor.type, count));
        break;
      }
      default:
        // Zero bits are 0 in every numeric type, and an empty string.
        bytes.assign(count * least, '\0');
    }
    tensor.data = CopyToHeap({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
    return tensor;
  }

  std::string Random(DataType type, size_t count) {
    std::string bytes;
    if (type == DataType::kBytes) {
      for (size_t i = 0; i < count; ++i) {
        const auto length = static_cast<uint32_t>(random_() % (kMaxRandomLength + 1));
        bytes.append(reinterpret_cast<const char*>(&length), sizeof(length));
        for (uint32_t k = 0; k < length; ++k) bytes.push_back(static_cast<char>('a' + random_() % 26));
      }
      return bytes;
    }
    bytes.resize(count * ElementSize(type));
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<char>(type == DataType::kBool ? random_() % 2 : random_());
    }
    if (type == DataType::kFp32 || type == DataType::kFp64) FillReal(type, count, bytes);
    return bytes;
  }

  // Random numbers in [0, 1), because random bits could be NaN or infinity.
  void FillReal(DataType type, size_t count, std::string& bytes) {
    std::uniform_real_distribution<double> unit(0, 1);
    for (size_t i = 0; i < count; ++i) {
      const double value = unit(random_);
      const auto single = static_cast<float>(value);
      if (type == DataType::kFp32) {
        std::memcpy(bytes.data() + i * sizeof(single), &single, sizeof(single));
      } else {
        std::memcpy(bytes.data() + i * sizeof(value), &value, sizeof(value));
      }
    }
  }

  // Reads a file, which has the whole batch or one row that is repeated for each.
  Result<std::string> ReadData(const std::string& name, const ModelWarmup::Input& input, DataType type,
                               size_t count) {
    const std::string& file = input.input_data_file();
    if (!IsPlainRelativePath(file)) {
      return Fault("input '" + name + "': 'input_data_file' must stay within the model's warmup folder");
    }
    auto data = folder_.ReadFile("warmup/" + file, kMaxInputBytes);
    if (!data.ok()) {
      return Fault("input '" + name + "': cannot read 'warmup/" + file + "': " + data.status().message());
    }
    size_t held = 0;
    if (type == DataType::kBytes) {
      BytesElements elements(*data);
      while (elements.Next()) ++held;
      if (elements.truncation() != BytesElements::Truncation::kNone) held = count + 1;
    } else {
      held = data->size() % ElementSize(type) == 0 ? data->size() / ElementSize(type) : count + 1;
    }
    if (held == count) return std::move(*data);
    const auto rows = static_cast<size_t>(sample_.batch_size());
    if (rows > 1 && held * rows == count) {
      std::string all;
      all.reserve(data->size() * rows);
      for (size_t i = 0; i < rows; ++i) all += *data;
      return all;
    }
    return Fault("input '" + name + "': 'warmup/" + file + "' must hold " + std::to_string(count) +
                 " elements of " + std::string(ConfigName(type)) + ", got " + std::to_string(data->size()) +
                 " bytes");
  }

  const inference::ModelConfig& config_;
  const ModelWarmup& sample_;
  const Folder& folder_;
  std::mt19937_64 random_{20260101};
};

}  // namespace

Result<std::vector<WarmupSample>> MakeWarmupSamples(const inference::ModelConfig& config,
                                                    const Folder& model_folder) {
  std::vector<WarmupSample> samples;
  for (const ModelWarmup& sample : config.model_warmup()) {
    if (sample.batch_size() == 0) continue;
    BRAID_ASSIGN_OR_RETURN(WarmupSample made, SampleMaker(config, sample, model_folder).Make());
    samples.push_back(std::move(made));
  }
  return samples;
}

}  // namespace braid
