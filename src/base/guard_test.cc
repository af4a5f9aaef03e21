#include "base/guard.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>

namespace braid {
namespace {

// Like `operator new` without memory.
void FailAllocation() {
  for (;;) std::get_new_handler()();
}

struct InDestructor {
  Status& status;
  ~InDestructor() { status = UnwindingStatus(); }
};

TEST(GuardTest, PassesOnWhatTheWorkReturns) {
  EXPECT_EQ(Guarded([] {}), OkStatus());
  EXPECT_EQ(Guarded([] { return NotFoundError("no such thing"); }), NotFoundError("no such thing"));
}

TEST(GuardTest, ExceptionsAreInternal) {
  EXPECT_EQ(Guarded([] { throw std::runtime_error("it broke"); }),
            InternalError("internal server error: it broke"));
  EXPECT_EQ(Guarded([] { throw 7; }), InternalError("internal server error"));
}

TEST(GuardTest, MemoryThatCannotBeHadIsResourceExhausted) {
  const auto work = [] { throw std::bad_alloc(); };
  EXPECT_EQ(Guarded(work), ResourceExhaustedError("out of memory"));
}

TEST(GuardTest, DestructorsLearnWhatUnwindsTheStack) {
  InstallAllocationHandler();
  Status seen;
  (void)Guarded([&] {
    InDestructor end{seen};
    FailAllocation();
  });
  EXPECT_EQ(seen, OutOfMemory());
  // The thread's note of the failure ends with the exception.
  (void)Guarded([&] {
    InDestructor end{seen};
    throw std::runtime_error("it broke");
  });
  EXPECT_EQ(seen, InternalError("internal server error"));
  std::set_new_handler(nullptr);
}

TEST(GuardTest, ARetryingAllocationIsTriedAgain) {
  InstallAllocationHandler();
  {
    const RetryingAllocation retrying;
    // The handler returns, so that `operator new` retries.
    for (int i = 0; i < 3; ++i) EXPECT_NO_THROW(std::get_new_handler()());
  }
  EXPECT_THROW(std::get_new_handler()(), std::bad_alloc);
  std::set_new_handler(nullptr);
}

TEST(GuardTest, ReportsOneLine) {
  testing::internal::CaptureStderr();
  ReportFault("brd-x", InternalError("one\nE1122 forged"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "braid: brd-x: one E1122 forged\n");
  testing::internal::CaptureStderr();
  GuardedOrReport("brd-x", [] { throw std::runtime_error(std::string(5000, 'a')); });
  const std::string line = testing::internal::GetCapturedStderr();
  EXPECT_EQ(line.size(), 511u);
  EXPECT_EQ(line.back(), '\n');
}

}  // namespace
}  // namespace braid
