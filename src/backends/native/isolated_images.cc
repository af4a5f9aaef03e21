#include "backends/native/isolated_images.h"

#include <cstring>
#include <utility>
#include <vector>

#include "serving/faults.h"

namespace braid {
namespace {

// A call has two inputs: the encoded bytes, in a tensor named like the image in error texts, and the target.
// The output is the pixels, of shape [height, width, channels].
Tensor TargetTensor(const ImageTarget& target) {
  const std::vector<int64_t> numbers = {target.height.min, target.height.max, target.width.min,
                                        target.width.max, target.gray ? 1 : 0};
  return {"target",
          DataType::kInt64,
          {static_cast<int64_t>(numbers.size())},
          CopyToHeap(std::as_bytes(std::span(numbers)))};
}

Result<ImageTarget> ReadTarget(const Tensor& tensor) {
  int64_t numbers[5];
  if (tensor.data.size() != sizeof numbers) return InvalidArgumentError("malformed image target");
  std::memcpy(numbers, tensor.data.data(), sizeof numbers);
  ImageTarget target;
  target.height = {numbers[0], numbers[1]};
  target.width = {numbers[2], numbers[3]};
  target.gray = numbers[4] != 0;
  return target;
}

class IsolatedImage final : public DecodedImage {
 public:
  IsolatedImage(Buffer pixels, ImageSize size) : pixels_(std::move(pixels)), size_(size) {}

  ImageSize size() const override { return size_; }
  Status Write(uint8_t* pixels) const override {
    std::memcpy(pixels, pixels_.data(), pixels_.size());
    return OkStatus();
  }

 private:
  const Buffer pixels_;
  const ImageSize size_;
};

}  // namespace

IsolatedImageCodec::IsolatedImageCodec(NativeWorkers& workers, std::string library, uint32_t most_images)
    : workers_(workers), library_(std::move(library)), most_images_(most_images) {}

IsolatedImageCodec::~IsolatedImageCodec() = default;

Result<NativeFunction*> IsolatedImageCodec::Worker() {
  MutexLock lock(mutex_);
  if (function_) return function_.get();
  NativeTask task;
  task.kind = NativeTask::Kind::kImages;
  task.library_path = library_;
  task.most_calls = most_images_;
  BRAID_ASSIGN_OR_RETURN(function_, NativeFunction::Load(workers_, "images", task));
  return function_.get();
}

std::optional<InstanceReport> IsolatedImageCodec::report() const {
  MutexLock lock(mutex_);
  if (!function_) return std::nullopt;
  return function_->report();
}

Result<std::unique_ptr<DecodedImage>> IsolatedImageCodec::Decode(std::string_view encoded,
                                                                 const ImageTarget& target,
                                                                 const std::string& name) {
  const auto failed = [&](const std::string& why) {
    return FaultError(Fault::kInternalError, "images cannot be decoded: " + why + ", " + name);
  };
  auto worker = Worker();
  if (!worker.ok()) return failed(worker.status().message());
  BRAID_ASSIGN_OR_RETURN(Buffer image, (*worker)->input_allocator().Allocate(encoded.size()));
  std::memcpy(image.mutable_data(), encoded.data(), encoded.size());
  std::vector<Tensor> inputs;
  inputs.push_back({name, DataType::kUint8, {static_cast<int64_t>(encoded.size())}, std::move(image)});
  inputs.push_back(TargetTensor(target));
  auto outputs = (*worker)->Call(std::move(inputs));
  if (!outputs.ok()) {
    // A fault is an error of the image; other errors are the worker's.
    return outputs.status().fault() != Fault{} ? outputs.status() : failed(outputs.status().message());
  }
  if (outputs->size() != 1) return failed("the worker returned no pixels");
  Tensor& pixels = outputs->front();
  if (pixels.type != DataType::kUint8 || pixels.shape.size() != 3 || pixels.shape[2] != target.channels())
    return failed("the worker returned no pixels");
  const ImageSize size{pixels.shape[1], pixels.shape[0]};
  if (size.width <= 0 || size.height <= 0 || target.SizeFor(size) != size)
    return failed("the worker returned an image of the wrong size");
  return std::unique_ptr<DecodedImage>(std::make_unique<IsolatedImage>(std::move(pixels.data), size));
}

FunctionModel::Function ImageFunction(const std::string& library, BufferAllocator& memory) {
  return [codec = std::make_shared<OpenCvCodec>(library),
          &memory](const std::vector<Tensor>& inputs) -> Result<std::vector<Tensor>> {
    if (inputs.size() != 2) return InvalidArgumentError("expected an image and its target");
    BRAID_ASSIGN_OR_RETURN(const ImageTarget target, ReadTarget(inputs[1]));
    BRAID_ASSIGN_OR_RETURN(const auto image, codec->Decode(inputs[0].data.text(), target, inputs[0].name));
    Tensor pixels{
        "pixels", DataType::kUint8, {image->size().height, image->size().width, target.channels()}, {}};
    const auto bytes = ByteSize(pixels.type, pixels.shape);
    if (!bytes) return FaultError(Fault::kInvalidShape, "an image of " + ShapeToString(pixels.shape));
    BRAID_ASSIGN_OR_RETURN(pixels.data, memory.Allocate(*bytes));
    BRAID_RETURN_IF_ERROR(image->Write(reinterpret_cast<uint8_t*>(pixels.data.mutable_data())));
    std::vector<Tensor> outputs;
    outputs.push_back(std::move(pixels));
    return outputs;
  };
}

}  // namespace braid
