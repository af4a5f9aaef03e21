#include "tensor/shared_bytes.h"

#include <gtest/gtest.h>

#include "tensor/bytes_elements.h"
#include "tensor/testing/restless_bytes.h"

namespace braid {
namespace {

constexpr size_t kSize = 5 * 4000;

TEST(OutOfReach, CopiesWhatOthersCanChangeAndNothingElse) {
  const Buffer own = CopyToHeap(std::as_bytes(std::span("abc", 3)));
  EXPECT_EQ(OutOfReach(own)->data(), own.data());
  EXPECT_TRUE(OutOfReach(Buffer())->empty());
  const Buffer restless = RestlessBytes(OneElement(kSize), ManyElements(kSize));
  const Buffer still = OutOfReach(restless).value();
  EXPECT_NE(still.data(), restless.data());
  const std::string before(still.text());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(still.text(), before);
  EXPECT_EQ(OutOfReach(restless.Slice(5, 10))->size(), 10u);
}

TEST(BytesElements, StayWithinBytesThatChange) {
  const Buffer restless = RestlessBytes(OneElement(kSize), ManyElements(kSize));
  const char* const end = restless.text().data() + kSize;
  for (int i = 0; i < 1000; ++i) {
    BytesElements elements(restless.text());
    while (elements.Next()) {
      ASSERT_LE(elements.value().data(), end);
      ASSERT_LE(elements.value().size(), static_cast<size_t>(end - elements.value().data()));
    }
  }
}

}  // namespace
}  // namespace braid
