#include "backends/native/isolated_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/native/testing/test_workers.h"
#include "base/testing/places.h"
#include "images/testing/pictures.h"
#include "serving/faults.h"

namespace braid {
namespace {

using ::testing::HasSubstr;

ImageTarget Target(DimensionRange height, DimensionRange width, bool gray = false) {
  ImageTarget target;
  target.height = height;
  target.width = width;
  target.gray = gray;
  return target;
}

std::string Picture() {
  return Png(3, 2, 3, {10, 20, 30, 40, 50, 60, 70, 80, 90, 9, 8, 7, 6, 5, 4, 3, 2, 1});
}

class IsolatedImages : public ::testing::Test {
 protected:
  // Returns the size and the pixels of a decoded image.
  static std::pair<ImageSize, std::vector<uint8_t>> Pixels(ImageCodec& codec, const std::string& image,
                                                           const ImageTarget& target) {
    auto decoded = codec.Decode(image, target, "image 0");
    EXPECT_TRUE(decoded.ok()) << decoded.status();
    if (!decoded.ok()) return {};
    const ImageSize size = (*decoded)->size();
    std::vector<uint8_t> pixels(static_cast<size_t>(size.width * size.height * target.channels()));
    EXPECT_EQ((*decoded)->Write(pixels.data()), OkStatus());
    return {size, pixels};
  }
  Status Refusal(const std::string& fault) {
    IsolatedImageCodec codec(test_workers_.Make({test_places::kNativeWorker, fault}),
                             test_places::kOpenCvLibrary, 1);
    return codec.Decode(Picture(), Target({}, {}), "image 7").status();
  }

  const std::unique_ptr<Logger> log_ = std::move(Logger::Create({})).value();
  TestWorkers test_workers_{*log_};
  NativeWorkers& workers_ = test_workers_.Make();
};

TEST_F(IsolatedImages, AreDecodedAsInsideTheServer) {
  OpenCvCodec inside(test_places::kOpenCvLibrary);
  IsolatedImageCodec codec(workers_, test_places::kOpenCvLibrary, 2);
  for (const std::string& image : {Picture(), std::string(kJpeg)}) {
    for (const ImageTarget& target : {Target({1, -1}, {1, -1}), Target({5, 5}, {4, 4}),
                                      Target({1, -1}, {2, 2}, true), Target({300, 300}, {400, 400})}) {
      EXPECT_EQ(Pixels(codec, image, target), Pixels(inside, image, target));
    }
  }
}

TEST_F(IsolatedImages, WhatIsNoImageIsSaid) {
  IsolatedImageCodec codec(workers_, test_places::kOpenCvLibrary, 1);
  EXPECT_EQ(codec.Decode("no image", Target({}, {}), "image 3; input name: b").status(),
            FaultError(Fault::kImageParsingFailed, "image 3; input name: b"));
  EXPECT_EQ(Pixels(codec, Picture(), Target({2, 2}, {3, 3})).first, (ImageSize{3, 2}));
}

TEST_F(IsolatedImages, WithoutALibraryThereAreNone) {
  IsolatedImageCodec codec(workers_, "/nowhere/libnone.so", 1);
  const Status status = codec.Decode(Picture(), Target({}, {}), "image 0").status();
  EXPECT_EQ(status.fault(), Fault::kInternalError);
  EXPECT_THAT(status.message(), HasSubstr("images cannot be decoded: /nowhere/libnone.so"));
}

TEST_F(IsolatedImages, AWorkerThatDiesOrLiesFailsTheImage) {
  const Status died = Refusal("death");
  EXPECT_EQ(died.fault(), Fault::kInternalError);
  EXPECT_THAT(died.message(), HasSubstr("images cannot be decoded: Stub process 'images' is not healthy."));
  EXPECT_THAT(died.message(), HasSubstr(", image 7"));
  EXPECT_THAT(Refusal("none").message(), HasSubstr("the worker returned no pixels, image 7"));
  EXPECT_THAT(Refusal("size").message(), HasSubstr("images cannot be decoded: "));
}

}  // namespace
}  // namespace braid
