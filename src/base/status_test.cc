#include "base/status.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

Result<int> Half(int x) {
  if (x % 2 != 0) return InvalidArgumentError("odd");
  return x / 2;
}

Status Quarter(int x, int* out) {
  BRAID_ASSIGN_OR_RETURN(int half, Half(x));
  BRAID_ASSIGN_OR_RETURN(*out, Half(half));
  return OkStatus();
}

TEST(Status, CarriesCodeAndMessage) {
  Status status = NotFoundError("no such model");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(status.ToString(), "Not found: no such model");
  EXPECT_EQ(status.WithPrefix("load: ").message(), "load: no such model");
  EXPECT_EQ(OkStatus().ToString(), "OK");
}

TEST(Result, ReturnsEarlyWithTheFirstError) {
  int out = 0;
  EXPECT_TRUE(Quarter(8, &out).ok());
  EXPECT_EQ(out, 2);
  EXPECT_EQ(Quarter(6, &out), InvalidArgumentError("odd"));
}

}  // namespace
}  // namespace braid
