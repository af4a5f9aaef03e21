#include "ipc/private_view.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

namespace braid {
namespace {

const auto kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));

class PrivateViewTest : public testing::Test {
 protected:
  PrivateViewTest() { std::memset(segment_->base(), 1, segment_->size()); }

  std::unique_ptr<PrivateView> Map(uint64_t offset, size_t size) {
    return PrivateView::Map(*segment_, offset, size).value();
  }
  static std::span<const std::byte> All(const PrivateView& view) { return {view.data(), view.size()}; }

  std::shared_ptr<Segment> segment_ = Segment::Create(1, 1024 * kPage).value();
};

TEST_F(PrivateViewTest, KeepsWhatIsWritten) {
  auto view = Map(0, segment_->size());
  EXPECT_EQ(view->data()[5 * kPage], std::byte{1});
  view->data()[5 * kPage] = std::byte{2};
  EXPECT_EQ(segment_->base()[5 * kPage], std::byte{1});
  EXPECT_EQ(Map(0, segment_->size())->data()[5 * kPage], std::byte{1}) << "each view starts afresh";
}

TEST_F(PrivateViewTest, MayBeginAndEndInsideOfPages) {
  segment_->base()[kPage + 100] = std::byte{7};
  segment_->base()[kPage + 100 + 2 * kPage] = std::byte{8};
  auto view = Map(kPage + 100, 2 * kPage + 1);
  EXPECT_EQ(view->data()[0], std::byte{7});
  EXPECT_EQ(view->data()[view->size() - 1], std::byte{8});
  EXPECT_TRUE(view->Unchanged(All(*view)));
  view->data()[view->size() - 1] = std::byte{9};
  EXPECT_FALSE(view->Unchanged(All(*view)));
  EXPECT_EQ(segment_->base()[3 * kPage + 100], std::byte{8});
}

TEST_F(PrivateViewTest, KnowsWhichPagesWereWrittenTo) {
  auto view = Map(0, segment_->size());
  EXPECT_TRUE(view->Unchanged(All(*view))) << "before it was looked at";
  int sum = 0;
  for (size_t at = 0; at < view->size(); at += kPage) sum += static_cast<int>(view->data()[at]);
  EXPECT_EQ(sum, 1024);
  EXPECT_TRUE(view->Unchanged(All(*view))) << "after it was read";
  view->data()[1023 * kPage] = std::byte{1};
  EXPECT_FALSE(view->Unchanged(All(*view))) << "though with what was there";
  EXPECT_TRUE(view->Unchanged(All(*view).first(1023 * kPage)));
  EXPECT_FALSE(view->Unchanged(All(*view).last(1)));
  EXPECT_TRUE(view->Unchanged({}));
}

TEST_F(PrivateViewTest, TellsTheSystemsRefusal) {
  auto view = PrivateView::Map(*segment_, 0, size_t{1} << 60);
  ASSERT_FALSE(view.ok());
  EXPECT_EQ(view.status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace braid
