#include "images/encoded_images.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "images/image_size.h"
#include "images/image_target.h"
#include "images/pixels.h"
#include "serving/faults.h"
#include "tensor/bytes_elements.h"
#include "tensor/shared_bytes.h"

namespace braid {
namespace {

// Limits for one image, and for the tensors of one request. A file of some kilobytes can be a picture of
// gigabytes, and many small pictures can make a large input. No legitimate request needs more.
constexpr int64_t kMostPixels = int64_t{64} << 20;
constexpr uint64_t kMostBytes = uint64_t{2} << 30;
// The limit for requests whose images wait for a thread.
constexpr size_t kMostWaiting = 4096;

// The rest of a request's limits. Decoded images can be thousands of times as large as the bytes that the
// client sent.
struct Budget {
  explicit Budget(int64_t most) : most_pixels(most), pixels(most) {}

  const int64_t most_pixels;
  int64_t pixels;
  uint64_t bytes = kMostBytes;
};

bool IsOfImages(const ServableInfo& info, const Tensor& input) {
  if (input.type != DataType::kBytes) return false;
  const TensorSpec* spec = info.FindInput(input.name);
  if (spec == nullptr || spec->type == DataType::kBytes) return false;
  const size_t rank = spec->shape.size();
  return rank == 4 || (rank == 5 && info.kind == ServableKind::kPipeline);
}

// Returns the number of images in an input, from its shape.
Result<int64_t> CountOf(const Tensor& input, const DimensionRange& batch, const std::string& name) {
  if (input.shape.size() != 1) {
    return FaultError(Fault::kInvalidNoOfShapeDimensions,
                      "Expected number of dimensions of encoded images: 1; Actual: " +
                          std::to_string(input.shape.size()) + name);
  }
  const int64_t count = input.shape[0];
  if (count <= 0) {
    return FaultError(Fault::kInvalidShape, "Negative or zero dimension size is not acceptable: (" +
                                                std::to_string(count) + ")" + name);
  }
  if (count < batch.min || (batch.max >= 0 && count > batch.max)) {
    std::string expected = std::to_string(batch.min);
    if (batch.min != batch.max) expected.append("~").append(std::to_string(batch.max));
    return FaultError(Fault::kInvalidBatchSize,
                      "Expected: " + expected + "; Actual: " + std::to_string(count) + name);
  }
  return count;
}

// Returns the images of an input as strings, without reading them.
Result<std::vector<std::string_view>> Split(const Tensor& input, int64_t count, const std::string& name) {
  std::vector<std::string_view> images;
  BytesElements elements(input.data.text());
  while (elements.Next()) {
    const auto index = static_cast<int64_t>(images.size());
    if (index == count) {
      return FaultError(Fault::kInvalidValueCount,
                        "Expected: " + std::to_string(count) + " values; Actual: more" + name);
    }
    if (elements.value().empty()) {
      return FaultError(Fault::kBytesContentsEmpty, "image " + std::to_string(index) + name);
    }
    images.push_back(elements.value());
  }
  if (elements.truncated()) {
    return FaultError(Fault::kInvalidContentSize,
                      "the data ends inside image " + std::to_string(images.size()) + name);
  }
  if (images.size() != static_cast<uint64_t>(count)) {
    return FaultError(Fault::kInvalidValueCount, "Expected: " + std::to_string(count) + " values; Actual: " +
                                                     std::to_string(images.size()) + " values" + name);
  }
  return images;
}

class InputDecoder {
 public:
  InputDecoder(const TensorSpec& spec, ImageCodec& codec, BufferAllocator& allocator, Budget& budget)
      : spec_(spec),
        codec_(codec),
        allocator_(allocator),
        budget_(budget),
        name_("; input name: " + spec.name) {}

  // REQUIRES: `input` is one of `request`.
  Status Decode(const InferenceRequest& request, Tensor& input) {
    BRAID_ASSIGN_OR_RETURN(const ImageTarget target, ImageTargetOf(spec_));
    if (!HoldsPixels(spec_.type)) {
      return FaultError(Fault::kInvalidPrecision,
                        "images cannot have datatype " + std::string(WireName(spec_.type)) + name_);
    }
    BRAID_ASSIGN_OR_RETURN(const int64_t count, CountOf(input, target.batch, name_));
    BRAID_ASSIGN_OR_RETURN(input.data, OutOfReach(input.data));
    BRAID_ASSIGN_OR_RETURN(const std::vector<std::string_view> images, Split(input, count, name_));

    Tensor decoded{input.name, spec_.type, {}, {}};
    ImageSize size;         // the common size of all images
    size_t bytes_each = 0;  // the bytes of one image in the tensor
    std::vector<uint8_t> scratch;
    for (size_t i = 0; i < images.size(); ++i) {
      // The client has disconnected, or its timeout has passed.
      if (request.cancelled()) return CancelledError("Request cancelled before its images were decoded");
      BRAID_ASSIGN_OR_RETURN(const std::unique_ptr<DecodedImage> image, DecodeOne(images[i], i, target));
      const ImageSize wanted = image->size();
      if (i == 0) {
        size = wanted;
        decoded.shape = target.ShapeOf(count, size);
        BRAID_ASSIGN_OR_RETURN(decoded.data, Allocate(decoded.shape));
        bytes_each = decoded.data.size() / images.size();
      } else if (wanted != size) {
        return FaultError(
            Fault::kBinaryImagesResolutionMismatch,
            "image 0: " + Text(size) + "; image " + std::to_string(i) + ": " + Text(wanted) + name_);
      }
      std::byte* const to = decoded.data.mutable_data() + i * bytes_each;
      if (spec_.type == DataType::kUint8) {
        BRAID_RETURN_IF_ERROR(image->Write(reinterpret_cast<uint8_t*>(to)));
        continue;
      }
      scratch.resize(bytes_each / ElementSize(spec_.type));
      BRAID_RETURN_IF_ERROR(image->Write(scratch.data()));
      ConvertPixels(scratch.data(), scratch.size(), spec_.type, to);
    }
    input = std::move(decoded);
    return OkStatus();
  }

 private:
  static std::string Text(ImageSize size) {
    return std::to_string(size.width) + "x" + std::to_string(size.height);
  }

  Result<std::unique_ptr<DecodedImage>> DecodeOne(std::string_view encoded, size_t index,
                                                  const ImageTarget& target) {
    const std::string which = "image " + std::to_string(index) + name_;
    const std::optional<ImageSize> size = ReadImageSize(encoded);
    if (!size) return FaultError(Fault::kImageParsingFailed, which);
    // Neither side has more than 32 bits, so the product fits.
    if (size->width > kMostPixels / size->height) {
      return FaultError(Fault::kImageParsingFailed, "more than " + std::to_string(kMostPixels) +
                                                        " pixels: " + Text(*size) + ", " + which);
    }
    const int64_t pixels = size->width * size->height;
    if (pixels > budget_.pixels) {
      return FaultError(Fault::kImageParsingFailed, "the images of the request exceed " +
                                                        std::to_string(budget_.most_pixels) +
                                                        " pixels (--image-max-pixels) with " + which);
    }
    budget_.pixels -= pixels;
    return codec_.Decode(encoded, target, which);
  }

  Result<Buffer> Allocate(const Shape& shape) {
    const std::optional<size_t> bytes = ByteSize(spec_.type, shape);
    if (!bytes || *bytes > budget_.bytes) {
      return FaultError(Fault::kInvalidShape,
                        "images of shape " + ShapeToString(shape) + " take more than " +
                            std::to_string(kMostBytes) + " bytes" +
                            (budget_.bytes < kMostBytes ? " with those of other inputs" : "") + name_);
    }
    budget_.bytes -= *bytes;
    return allocator_.Allocate(*bytes);
  }

  const TensorSpec& spec_;
  ImageCodec& codec_;
  BufferAllocator& allocator_;
  Budget& budget_;
  const std::string name_;  // the end of error texts
};

}  // namespace

bool HasEncodedImages(const ServableInfo& info, const InferenceRequest& request) {
  return std::any_of(request.inputs.begin(), request.inputs.end(),
                     [&](const Tensor& input) { return IsOfImages(info, input); });
}

ImageDecoder::ImageDecoder(Options options)
    : most_pixels_(options.most_pixels),
      codec_(options.codec ? std::move(options.codec) : std::make_shared<OpenCvCodec>("")),
      threads_({.name = "brd-image", .most = options.most_threads}) {}

Status ImageDecoder::Decode(const ServableInfo& info, InferenceRequest& request) {
  HeapAllocator heap;
  BufferAllocator& allocator = request.servable == nullptr ? heap : request.servable->get().input_allocator();
  Budget budget(most_pixels_);
  for (Tensor& input : request.inputs) {
    if (!IsOfImages(info, input)) continue;
    BRAID_RETURN_IF_ERROR(
        InputDecoder(*info.FindInput(input.name), *codec_, allocator, budget).Decode(request, input));
  }
  return OkStatus();
}

void ImageDecoder::DecodeThen(std::unique_ptr<InferenceRequest> request,
                              std::function<void(std::unique_ptr<InferenceRequest>, Status)> next) {
  if (threads_.waiting() >= kMostWaiting) {
    next(std::move(request), UnavailableError("too many requests wait for their images to be decoded"));
    return;
  }
  // In a shared pointer, because the work must be copyable.
  auto shared = std::make_shared<std::unique_ptr<InferenceRequest>>(std::move(request));
  threads_.Run([this, shared, next = std::move(next)] {
    std::unique_ptr<InferenceRequest> request = std::move(*shared);
    Status status = Decode(request->servable->get().info(), *request);
    next(std::move(request), std::move(status));
  });
}

}  // namespace braid
