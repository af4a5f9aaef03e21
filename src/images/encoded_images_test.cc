#include "images/encoded_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <future>

#include "base/testing/places.h"
#include "images/testing/pictures.h"
#include "serving/faults.h"
#include "tensor/testing/restless_bytes.h"

namespace braid {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

ServableInfo Info(DataType type, Shape shape, std::string layout = "NHWC",
                  ServableKind kind = ServableKind::kModel) {
  ServableInfo info;
  info.kind = kind;
  info.dialect = Dialect::kOvms;
  TensorSpec& spec = info.inputs.emplace_back();
  spec.name = "b";
  spec.type = type;
  spec.shape = std::move(shape);
  spec.layout = std::move(layout);
  return info;
}

Tensor Encoded(const std::vector<std::string>& images) {
  std::string data;
  for (const std::string& image : images) {
    const auto size = static_cast<uint32_t>(image.size());
    data.append(reinterpret_cast<const char*>(&size), sizeof(size)).append(image);
  }
  Tensor tensor{"b", DataType::kBytes, {static_cast<int64_t>(images.size())}, {}};
  tensor.data = CopyToHeap(std::as_bytes(std::span(data)));
  return tensor;
}

Result<Tensor> DecodeTensor(const ServableInfo& info, Tensor input) {
  InferenceRequest request;
  request.inputs.push_back(std::move(input));
  EXPECT_TRUE(HasEncodedImages(info, request));
  BRAID_RETURN_IF_ERROR(ImageDecoder({.codec = std::make_shared<OpenCvCodec>(test_places::kOpenCvLibrary)})
                            .Decode(info, request));
  EXPECT_FALSE(HasEncodedImages(info, request));
  return request.inputs[0];
}
Result<Tensor> Decode(const ServableInfo& info, const std::vector<std::string>& images) {
  return DecodeTensor(info, Encoded(images));
}

template <class Number>
std::vector<Number> Values(const Tensor& tensor) {
  std::vector<Number> values(tensor.data.size() / sizeof(Number));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

// Two adjacent pixels, each as red, green, blue.
std::string TwoPixels() { return Png(2, 1, 3, {10, 20, 30, 110, 120, 130}); }

// The bytes alternate between a picture and a truncated one that claims the same size.
TEST(EncodedImages, ThatChangeMeanwhileAreDecodedOrRefused) {
  const std::string whole(Encoded({TwoPixels()}).data.text());
  std::string cut = whole;
  cut[0] = static_cast<char>(cut[0] - 20);
  cut[24] = '\x7f';  // a byte of its height
  const Buffer restless = RestlessBytes(whole, cut);
  for (int i = 0; i < 500; ++i) {
    const auto decoded =
        DecodeTensor(Info(DataType::kUint8, {-1, -1, -1, 3}), {"b", DataType::kBytes, {1}, restless});
    if (!decoded.ok()) continue;
    ASSERT_THAT(decoded->shape, ElementsAre(1, 1, 2, 3));
  }
}

TEST(EncodedImages, AreBytesForInputsOfImages) {
  const auto has = [](const ServableInfo& info, Tensor input) {
    InferenceRequest request;
    request.inputs.push_back(std::move(input));
    return HasEncodedImages(info, request);
  };
  EXPECT_TRUE(has(Info(DataType::kUint8, {1, 2, 2, 3}), Encoded({"x"})));
  EXPECT_FALSE(has(Info(DataType::kBytes, {1, 2, 2, 3}), Encoded({"x"})));
  EXPECT_FALSE(has(Info(DataType::kUint8, {1, 2, 3}), Encoded({"x"})));
  EXPECT_FALSE(has(Info(DataType::kUint8, {1, 1, 2, 2, 3}), Encoded({"x"})));
  EXPECT_TRUE(has(Info(DataType::kUint8, {1, 1, 2, 2, 3}, "", ServableKind::kPipeline), Encoded({"x"})));
  Tensor numbers{"b", DataType::kUint8, {1, 2, 2, 3}, {}};
  EXPECT_FALSE(has(Info(DataType::kUint8, {1, 2, 2, 3}), numbers));
  Tensor other = Encoded({"x"});
  other.name = "other";
  EXPECT_FALSE(has(Info(DataType::kUint8, {1, 2, 2, 3}), other));
}

TEST(EncodedImages, BecomeBlueGreenRed) {
  const auto decoded = Decode(Info(DataType::kUint8, {1, 1, 2, 3}), {TwoPixels()});
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->name, "b");
  EXPECT_EQ(decoded->type, DataType::kUint8);
  EXPECT_THAT(decoded->shape, ElementsAre(1, 1, 2, 3));
  EXPECT_THAT(Values<uint8_t>(*decoded), ElementsAre(30, 20, 10, 130, 120, 110));
}

TEST(EncodedImages, HaveThePrecisionOfTheInput) {
  EXPECT_THAT(Values<float>(*Decode(Info(DataType::kFp32, {1, 1, 2, 3}), {TwoPixels()})),
              ElementsAre(30, 20, 10, 130, 120, 110));
  EXPECT_THAT(Values<double>(*Decode(Info(DataType::kFp64, {1, 1, 2, 3}), {TwoPixels()})),
              ElementsAre(30, 20, 10, 130, 120, 110));
  EXPECT_THAT(Values<int32_t>(*Decode(Info(DataType::kInt32, {1, 1, 2, 3}), {TwoPixels()})),
              ElementsAre(30, 20, 10, 130, 120, 110));
  EXPECT_THAT(Values<uint16_t>(*Decode(Info(DataType::kFp16, {1, 1, 2, 3}), {TwoPixels()})),
              ElementsAre(0x4f80, 0x4d00, 0x4900, 0x5810, 0x5780, 0x56e0));
  EXPECT_EQ(Decode(Info(DataType::kBool, {1, 1, 2, 3}), {TwoPixels()}).status(),
            FaultError(Fault::kInvalidPrecision, "images cannot have datatype BOOL; input name: b"));
}

TEST(EncodedImages, AreGrayForOneChannel) {
  const auto gray = Decode(Info(DataType::kUint8, {1, 1, 3, 1}), {Png(3, 1, 1, {0, 100, 255})});
  ASSERT_TRUE(gray.ok()) << gray.status();
  EXPECT_THAT(Values<uint8_t>(*gray), ElementsAre(0, 100, 255));
  const auto coloured = Decode(Info(DataType::kUint8, {1, 1, 1, 1}), {Png(1, 1, 3, {50, 50, 50})});
  EXPECT_THAT(Values<uint8_t>(*coloured), ElementsAre(50));
  const auto from_gray = Decode(Info(DataType::kUint8, {1, 1, 1, 3}), {Png(1, 1, 1, {77})});
  EXPECT_THAT(Values<uint8_t>(*from_gray), ElementsAre(77, 77, 77));
  const auto alpha = Decode(Info(DataType::kUint8, {1, 1, 1, 3}), {Png(1, 1, 4, {1, 2, 3, 128})});
  EXPECT_THAT(Values<uint8_t>(*alpha), ElementsAre(3, 2, 1));
}

TEST(EncodedImages, AreResizedBilinearly) {
  const auto wide = Decode(Info(DataType::kUint8, {1, 1, 4, 1}), {Png(2, 1, 1, {0, 100})});
  ASSERT_TRUE(wide.ok()) << wide.status();
  EXPECT_THAT(Values<uint8_t>(*wide), ElementsAre(0, 25, 75, 100));
  const auto high = Decode(Info(DataType::kFp32, {1, 2, 1, 1}), {Png(1, 4, 1, {0, 10, 20, 40})});
  EXPECT_THAT(Values<float>(*high), ElementsAre(5, 30));
}

TEST(EncodedImages, OfRangesGetTheNearestSize) {
  ServableInfo info = Info(DataType::kUint8, {1, -1, -1, 1});
  info.inputs[0].ranges = {{1, 1}, {2, 4}, {1, 2}, {1, 1}};
  const auto decoded = Decode(info, {Png(4, 1, 1, {7, 7, 7, 7})});
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_THAT(decoded->shape, ElementsAre(1, 2, 2, 1));
  EXPECT_THAT(Values<uint8_t>(*decoded), Each(7));
}

TEST(EncodedImages, OfAnySizeAreOfOneSize) {
  const ServableInfo info = Info(DataType::kUint8, {-1, -1, -1, 1});
  const auto two = Decode(info, {Png(2, 1, 1, {1, 2}), Png(2, 1, 1, {3, 4})});
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_THAT(two->shape, ElementsAre(2, 1, 2, 1));
  EXPECT_THAT(Values<uint8_t>(*two), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(Decode(info, {Png(2, 1, 1, {1, 2}), Png(1, 2, 1, {3, 4})}).status(),
            FaultError(Fault::kBinaryImagesResolutionMismatch, "image 0: 2x1; image 1: 1x2; input name: b"));
}

TEST(EncodedImages, OfAPipelineThatDemultipliesAreABatchEach) {
  const ServableInfo info = Info(DataType::kUint8, {-1, 1, 1, 2, 1}, "N?HWC", ServableKind::kPipeline);
  const auto decoded = Decode(info, {Png(2, 1, 1, {1, 2}), Png(2, 1, 1, {3, 4}), Png(2, 1, 1, {5, 6})});
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_THAT(decoded->shape, ElementsAre(3, 1, 1, 2, 1));
  EXPECT_THAT(Values<uint8_t>(*decoded), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(EncodedImages, MayBeJpegOrWebp) {
  const auto jpeg = Decode(Info(DataType::kUint8, {1, -1, -1, 3}), {std::string(kJpeg)});
  ASSERT_TRUE(jpeg.ok()) << jpeg.status();
  EXPECT_THAT(jpeg->shape, ElementsAre(1, 6, 10, 3));
  const auto values = Values<uint8_t>(*jpeg);
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(values[i], (i % 3 == 0 ? 200 : i % 3 == 1 ? 100 : 50), 3);
  const auto webp = Decode(Info(DataType::kUint8, {1, 1, 1, 3}), {std::string(kWebp)});
  ASSERT_TRUE(webp.ok()) << webp.status();
  EXPECT_THAT(Values<uint8_t>(*webp), ElementsAre(200, 100, 50));
}

TEST(EncodedImages, ThatCannotBeReadAreNamed) {
  const ServableInfo info = Info(DataType::kUint8, {-1, 1, 2, 3});
  EXPECT_EQ(Decode(info, {TwoPixels(), "no image"}).status(),
            FaultError(Fault::kImageParsingFailed, "image 1; input name: b"));
  std::string broken = TwoPixels();
  broken[broken.size() - 20] ^= 1;
  EXPECT_EQ(Decode(info, {broken}).status(),
            FaultError(Fault::kImageParsingFailed, "image 0; input name: b"));
  EXPECT_EQ(Decode(info, {TwoPixels(), ""}).status(),
            FaultError(Fault::kBytesContentsEmpty, "image 1; input name: b"));
}

TEST(EncodedImages, ThatWouldBeTooLargeAreNotDecoded) {
  const ServableInfo info = Info(DataType::kUint8, {-1, -1, -1, 3});
  EXPECT_EQ(Decode(info, {Png(100000, 100000, 3, {})}).status(),
            FaultError(Fault::kImageParsingFailed,
                       "more than 67108864 pixels: 100000x100000, image 0; input name: b"));
  EXPECT_FALSE(Decode(info, {Png(0xffffffff, 0xffffffff, 3, {})}).ok());
  EXPECT_EQ(Decode(Info(DataType::kFp32, {-1, 40000, 40000, 3}), {TwoPixels()}).status(),
            FaultError(Fault::kInvalidShape,
                       "images of shape [1,40000,40000,3] take more than 2147483648 bytes; input name: b"));
}

// A limit for the sum, however small each image is.
class TotalOfPixels : public ::testing::Test {
 protected:
  static Status Decode(std::vector<std::vector<std::string>> inputs) {
    ServableInfo info = Info(DataType::kUint8, {-1, -1, -1, 1});
    InferenceRequest request;
    for (const auto& images : inputs) {
      if (!request.inputs.empty()) info.inputs.push_back(info.inputs[0]);
      request.inputs.push_back(Encoded(images));
      info.inputs.back().name = request.inputs.back().name =
          std::string(1, static_cast<char>('a' + request.inputs.size()));
    }
    return ImageDecoder(
               {.most_pixels = 8, .codec = std::make_shared<OpenCvCodec>(test_places::kOpenCvLibrary)})
        .Decode(info, request);
  }
  const std::string four_ = Png(2, 2, 1, {1, 2, 3, 4});
};

TEST_F(TotalOfPixels, IsOfAllImagesOfARequest) {
  EXPECT_TRUE(Decode({{four_, four_}}).ok());
  EXPECT_TRUE(Decode({{four_}, {four_}}).ok());
  EXPECT_EQ(Decode({{four_, four_, four_}}),
            FaultError(Fault::kImageParsingFailed,
                       "the images of the request exceed 8 pixels (--image-max-pixels) with image "
                       "2; input name: b"));
  EXPECT_EQ(Decode({{four_}, {four_, four_}}),
            FaultError(Fault::kImageParsingFailed,
                       "the images of the request exceed 8 pixels (--image-max-pixels) with image "
                       "1; input name: c"));
  // According to its header; it is not decoded.
  EXPECT_EQ(Decode({{Png(3, 3, 1, {})}}).message(),
            "Image parsing failed - the images of the request exceed 8 pixels "
            "(--image-max-pixels) with image 0; input name: b");
}

TEST(EncodedImages, OfAllInputsTakeSoMuchMemoryTogether) {
  ServableInfo info = Info(DataType::kFp64, {1, 1, 1, 1});
  // 2 GiB, which would be allowed alone.
  info.inputs.push_back(Info(DataType::kFp64, {1, 16384, 16384, 1}).inputs[0]);
  info.inputs[1].name = "c";
  InferenceRequest request;
  request.inputs = {Encoded({Png(1, 1, 1, {7})}), Encoded({Png(1, 1, 1, {7})})};
  request.inputs[1].name = "c";
  EXPECT_EQ(
      ImageDecoder({.codec = std::make_shared<OpenCvCodec>(test_places::kOpenCvLibrary)})
          .Decode(info, request),
      FaultError(
          Fault::kInvalidShape,
          "images of shape [1,16384,16384,1] take more than 2147483648 bytes with those of other inputs; "
          "input name: c"));
}

TEST(EncodedImages, OfAWrongNumberAreRefused) {
  const ServableInfo info = Info(DataType::kUint8, {1, 1, 2, 3});
  EXPECT_EQ(Decode(info, {TwoPixels(), TwoPixels()}).status(),
            FaultError(Fault::kInvalidBatchSize, "Expected: 1; Actual: 2; input name: b"));
  EXPECT_EQ(Decode(info, std::vector<std::string>{}).status(),
            FaultError(Fault::kInvalidShape,
                       "Negative or zero dimension size is not acceptable: (0); input name: b"));
  ServableInfo ranges = Info(DataType::kUint8, {-1, 1, 2, 3});
  ranges.inputs[0].ranges = {{2, 4}, {1, 1}, {2, 2}, {3, 3}};
  EXPECT_EQ(Decode(ranges, {TwoPixels()}).status(),
            FaultError(Fault::kInvalidBatchSize, "Expected: 2~4; Actual: 1; input name: b"));
  Tensor two = Encoded({TwoPixels(), TwoPixels()});
  two.shape = {1};
  EXPECT_EQ(DecodeTensor(info, two).status(),
            FaultError(Fault::kInvalidValueCount, "Expected: 1 values; Actual: more; input name: b"));
  Tensor images = Encoded({TwoPixels()});
  images.shape = {2};
  EXPECT_EQ(DecodeTensor(Info(DataType::kUint8, {-1, 1, 2, 3}), images).status(),
            FaultError(Fault::kInvalidValueCount, "Expected: 2 values; Actual: 1 values; input name: b"));
  images.shape = {1, 1};
  EXPECT_EQ(DecodeTensor(info, images).status(),
            FaultError(Fault::kInvalidNoOfShapeDimensions,
                       "Expected number of dimensions of encoded images: 1; Actual: 2; input name: b"));
  images.shape = {1};
  images.data = images.data.Slice(0, images.data.size() - 1);
  EXPECT_EQ(DecodeTensor(info, images).status(),
            FaultError(Fault::kInvalidContentSize, "the data ends inside image 0; input name: b"));
}

TEST(EncodedImages, OfOtherLayoutsAreRefused) {
  EXPECT_EQ(Decode(Info(DataType::kUint8, {1, 3, 1, 2}, "NCHW"), {TwoPixels()}).status(),
            FaultError(Fault::kUnsupportedLayout, "layout: NCHW; input name: b"));
}

// A servable that allocates memory and counts the allocations.
class Images final : public Servable {
 public:
  using Servable::Servable;
  BufferAllocator& input_allocator() override { return allocator; }
  void Infer(std::unique_ptr<InferenceRequest>) override {}
  Readiness readiness() const override { return {}; }
  void Stop(int64_t) override {}

  struct Counting final : public BufferAllocator {
    Result<Buffer> Allocate(size_t size) override {
      ++allocations;
      if (on_allocate) on_allocate();
      return heap.Allocate(size);
    }
    HeapAllocator heap;
    int allocations = 0;
    std::function<void()> on_allocate;
  } allocator;
};

class Sink final : public ResponseSink {
 public:
  void Respond(std::optional<InferenceResponse> response, bool) override {
    answer.set_value(response ? response->status : OkStatus());
  }
  std::promise<Status> answer;
};

class DecodeThen : public ::testing::Test {
 protected:
  std::unique_ptr<InferenceRequest> Request(Tensor input) {
    auto request = std::make_unique<InferenceRequest>();
    request->inputs.push_back(std::move(input));
    request->servable = ServableHandle::Enter(servable_);
    request->cancellation = std::make_shared<Cancellation>();
    request->sink = &sink_;
    return request;
  }

  const std::shared_ptr<Images> servable_ = std::make_shared<Images>(Info(DataType::kUint8, {1, 1, 2, 3}));
  Sink sink_;
  ImageDecoder decoder_{{.codec = std::make_shared<OpenCvCodec>(test_places::kOpenCvLibrary)}};
};

TEST_F(DecodeThen, GoesOnWithTheDecodedRequestInTheServablesMemory) {
  std::promise<std::vector<uint8_t>> decoded;
  decoder_.DecodeThen(Request(Encoded({TwoPixels()})),
                      [&](std::unique_ptr<InferenceRequest> request, const Status& status) {
                        EXPECT_TRUE(status.ok()) << status;
                        auto values = Values<uint8_t>(request->inputs[0]);
                        request->Respond(InferenceResponse(), true);
                        request.reset();
                        decoded.set_value(std::move(values));
                      });
  EXPECT_THAT(decoded.get_future().get(), ElementsAre(30, 20, 10, 130, 120, 110));
  EXPECT_EQ(servable_->allocator.allocations, 1);
}

// Refuses the request with the given status.
void Refuse(std::unique_ptr<InferenceRequest> request, Status status) { request->Refuse(std::move(status)); }

TEST_F(DecodeThen, TellsWhatCannotBeDecoded) {
  decoder_.DecodeThen(Request(Encoded({"x"})), Refuse);
  EXPECT_EQ(sink_.answer.get_future().get(),
            FaultError(Fault::kImageParsingFailed, "image 0; input name: b"));
}

TEST_F(DecodeThen, TellsWhatIsCancelled) {
  auto request = Request(Encoded({TwoPixels()}));
  request->cancellation->Cancel();
  decoder_.DecodeThen(std::move(request), Refuse);
  EXPECT_EQ(sink_.answer.get_future().get().code(), StatusCode::kCancelled);
}

// The second image would be refused if it were checked.
TEST_F(DecodeThen, LooksWhetherItIsCancelledBeforeEachImage) {
  const auto servable = std::make_shared<Images>(Info(DataType::kUint8, {-1, 1, 2, 3}));
  auto request = Request(Encoded({TwoPixels(), "no image"}));
  request->servable = ServableHandle::Enter(servable);
  // After the first image, when the shape of all images is known.
  servable->allocator.on_allocate = [cancellation = request->cancellation] { cancellation->Cancel(); };
  decoder_.DecodeThen(std::move(request), Refuse);
  EXPECT_EQ(sink_.answer.get_future().get().code(), StatusCode::kCancelled);
  EXPECT_EQ(servable->allocator.allocations, 1);
}

}  // namespace
}  // namespace braid
