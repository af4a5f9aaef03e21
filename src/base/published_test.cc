#include "base/published.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace braid {
namespace {

TEST(Published, AReaderSeesWhatWasSetLast) {
  Published<int> published(std::make_shared<const int>(1));
  Published<int>::Reader reader(published);
  EXPECT_EQ(*reader.Get(), 1);
  const auto before = reader.Get();
  published.Set(std::make_shared<const int>(2));
  EXPECT_EQ(*before, 1);
  EXPECT_EQ(*reader.Get(), 2);
  EXPECT_EQ(reader.generation(), published.generation());
  EXPECT_EQ(*published.Get(), 2);
}

TEST(Published, ReadersNeverGoBackWhileItIsReplaced) {
  constexpr int kLast = 20000;
  Published<int> published(std::make_shared<const int>(0));
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      Published<int>::Reader reader(published);
      for (int seen = 0; seen < kLast;) {
        const int now = *reader.Get();
        ASSERT_GE(now, seen);
        seen = now;
      }
    });
  }
  for (int i = 1; i <= kLast; ++i) published.Set(std::make_shared<const int>(i));
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace braid
