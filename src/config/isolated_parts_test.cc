#include "config/isolated_parts.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

TEST(IsolatedParts, AreReadFromTheirNames) {
  EXPECT_EQ(ParseIsolatedParts("").value(), IsolatedParts{});
  EXPECT_EQ(ParseIsolatedParts("openvino").value(), IsolatedParts{.openvino = true});
  EXPECT_EQ(ParseIsolatedParts("images,openvino,images").value(),
            (IsolatedParts{.openvino = true, .images = true}));
  EXPECT_EQ(ParseIsolatedParts("custom-nodes").value(), IsolatedParts{.custom_nodes = true});
  EXPECT_EQ(ParseIsolatedParts("calculators").value(), IsolatedParts{.calculators = true});
  EXPECT_EQ(NamesOf({}), "");
  EXPECT_EQ(NamesOf({.openvino = true, .images = true}), "openvino,images");
}

TEST(IsolatedParts, WhatCannotBeIsolatedIsSaid) {
  EXPECT_EQ(ParseIsolatedParts("openvino,gpu").status(),
            InvalidArgumentError("cannot isolate 'gpu'; expected any of "
                                 "openvino,custom-nodes,images,calculators"));
}

TEST(IsolatedParts, AModelSaysForItself) {
  inference::ModelConfig config;
  config.set_name("m");
  EXPECT_TRUE(IsIsolated(config, true).value());
  EXPECT_FALSE(IsIsolated(config, false).value());
  auto& value = *(*config.mutable_parameters())["ISOLATE"].mutable_string_value();
  value = "true";
  EXPECT_TRUE(IsIsolated(config, false).value());
  value = "false";
  EXPECT_FALSE(IsIsolated(config, true).value());
  value = "True";
  EXPECT_EQ(IsIsolated(config, true).status(),
            InvalidArgumentError("model 'm': parameter 'ISOLATE' is 'True', expected \"true\" or \"false\""));
}

}  // namespace
}  // namespace braid
