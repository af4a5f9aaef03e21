#include "images/image_size.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "images/testing/pictures.h"

namespace braid {
namespace {

using std::string_literals::operator""s;
using Size = std::optional<ImageSize>;

TEST(ImageSize, IsReadFromEachFormat) {
  EXPECT_EQ(ReadImageSize(Png(7, 5, 3, std::vector<uint8_t>(105))), Size({7, 5}));
  EXPECT_EQ(ReadImageSize(kJpeg), Size({10, 6}));
  EXPECT_EQ(ReadImageSize(kLossyWebp), Size({10, 6}));
  EXPECT_EQ(ReadImageSize(kWebp), Size({10, 6}));
  const std::string extended = "RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x0f\x27\0\x01\0\0"s;
  EXPECT_EQ(ReadImageSize(extended), Size({10000, 2}));
  const std::string bmp = "BM"s + std::string(12, '\0') + "\x28\0\0\0\x03\0\0\0\xfe\xff\xff\xff"s;
  EXPECT_EQ(ReadImageSize(bmp), Size({3, 2}));
  const std::string old_bmp = "BM"s + std::string(12, '\0') + "\x0c\0\0\0\x03\0\x02\0"s;
  EXPECT_EQ(ReadImageSize(old_bmp), Size({3, 2}));
}

TEST(ImageSize, OfJpegStandsBehindOtherSegments) {
  // A comment that looks like a frame, fill bytes, and garbage between segments.
  const std::string comment = "\xff\xfe\x00\x0b\xff\xc0\x00\x11\x08\x00\x01\x00\x01"s;
  const std::string jpeg = "\xff\xd8"s + comment + "\xff\xff\xff\xd0 garbage" + std::string(kJpeg.substr(2));
  EXPECT_EQ(ReadImageSize(jpeg), Size({10, 6}));
}

TEST(ImageSize, ThatIsMissingOrZeroIsNone) {
  EXPECT_EQ(ReadImageSize(""), std::nullopt);
  EXPECT_EQ(ReadImageSize("GIF89a"), std::nullopt);
  EXPECT_EQ(ReadImageSize(Png(0, 5, 3, {})), std::nullopt);
  EXPECT_EQ(ReadImageSize(std::string("\xff\xd8\xff\xda\x00\x02", 6)), std::nullopt);
  EXPECT_EQ(ReadImageSize(std::string("\xff\xd8\xff\xe0\x00\x00", 6)), std::nullopt);
  for (const std::string& whole :
       {Png(7, 5, 3, std::vector<uint8_t>(105)), std::string(kJpeg), std::string(kWebp)}) {
    for (size_t size = 0; size < 20; ++size)
      EXPECT_EQ(ReadImageSize(whole.substr(0, size)), std::nullopt) << size;
  }
}

TEST(ImageSize, AnyBytesAreRead) {
  std::mt19937 random(7);
  const std::string wholes[] = {Png(7, 5, 3, std::vector<uint8_t>(105)), std::string(kJpeg),
                                std::string(kWebp), std::string(kLossyWebp)};
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = wholes[i % 4];
    bytes.resize(random() % bytes.size());
    for (int change = 0; change < 4 && !bytes.empty(); ++change) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const Size size = ReadImageSize(bytes);
    ASSERT_TRUE(!size || (size->width > 0 && size->height > 0));
  }
}

}  // namespace
}  // namespace braid
