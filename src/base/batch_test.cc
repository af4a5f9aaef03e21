#include "base/batch.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace braid {
namespace {

struct Counted final : Batch::Work {
  void AtEnd() noexcept override {
    ++ends;
    deferred_within = Batch::Defer(other);
  }
  int ends = 0;
  bool deferred_within = false;
  std::shared_ptr<Counted> other;
};

TEST(Batch, EndsEachWorkOnce) {
  const auto one = std::make_shared<Counted>();
  const auto other = std::make_shared<Counted>();
  EXPECT_FALSE(Batch::Defer(one));
  {
    const Batch batch;
    EXPECT_TRUE(Batch::Defer(one));
    EXPECT_TRUE(Batch::Defer(other));
    EXPECT_TRUE(Batch::Defer(one));
    EXPECT_EQ(one->ends, 0);
  }
  EXPECT_EQ(one->ends, 1);
  EXPECT_EQ(other->ends, 1);
  EXPECT_FALSE(Batch::Defer(one));
}

TEST(Batch, EndsWorkInItsOrder) {
  struct Numbered final : Batch::Work {
    Numbered(int number, std::vector<int>& ended) : number(number), ended(ended) {}
    void AtEnd() noexcept override { ended.push_back(number); }
    const int number;
    std::vector<int>& ended;
  };
  std::vector<int> ended;
  {
    const Batch batch;
    for (int number = 0; number < 3; ++number) Batch::Defer(std::make_shared<Numbered>(number, ended));
  }
  EXPECT_EQ(ended, (std::vector<int>{0, 1, 2}));
}

TEST(Batch, WhatEndsDefersNothing) {
  const auto work = std::make_shared<Counted>();
  work->other = std::make_shared<Counted>();
  {
    const Batch batch;
    EXPECT_TRUE(Batch::Defer(work));
  }
  EXPECT_EQ(work->ends, 1);
  EXPECT_FALSE(work->deferred_within);
}

TEST(Batch, IsOfItsThreadAndHasAnEnd) {
  const Batch batch;
  const auto work = std::make_shared<Counted>();
  std::thread([&] { EXPECT_FALSE(Batch::Defer(work)); }).join();
  std::vector<std::shared_ptr<Counted>> many;
  for (int i = 0; i < 16; ++i) {
    many.push_back(std::make_shared<Counted>());
    EXPECT_TRUE(Batch::Defer(many.back()));
  }
  EXPECT_FALSE(Batch::Defer(work));
  EXPECT_TRUE(Batch::Defer(many.front()));
}

}  // namespace
}  // namespace braid
