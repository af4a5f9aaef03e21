#include "protocols/access/rights.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

constexpr std::optional<std::string_view> kNone;

TEST(Rights, AreWhatARuleAllows) {
  const auto rights = Rights::Parse(R"({"rules": [
    {"identities": ["anonymous"], "apis": ["health"]},
    {"identities": ["alice", "team-*"], "apis": ["inference", "metadata"], "models": ["resnet*", "add?"]},
    {"identities": ["bob"], "apis": ["statistics"], "models": ["*"]},
    {"identities": ["*"], "apis": ["logging"]},
    {"identities": ["operator"], "apis": ["*"]}
  ]})");
  ASSERT_TRUE(rights.ok()) << rights.status();
  const Rights& now = *rights;
  EXPECT_TRUE(now.Allow("anonymous", {Api::kHealth, kNone}));
  EXPECT_TRUE(now.Allow("anonymous", {Api::kHealth, "m"}));
  EXPECT_FALSE(now.Allow("alice", {Api::kHealth, kNone}));
  for (const char* who : {"alice", "team-", "team-a"}) {
    EXPECT_TRUE(now.Allow(who, {Api::kInference, kNone})) << who;
    EXPECT_TRUE(now.Allow(who, {Api::kInference, "resnet50"})) << who;
    EXPECT_TRUE(now.Allow(who, {Api::kMetadata, "add1"})) << who;
    EXPECT_FALSE(now.Allow(who, {Api::kMetadata, "add"})) << who;
    EXPECT_FALSE(now.Allow(who, {Api::kInference, "bert"})) << who;
    EXPECT_FALSE(now.Allow(who, {Api::kInference, ""})) << who;
    EXPECT_FALSE(now.Allow(who, {Api::kModelRepository, "resnet50"})) << who;
  }
  EXPECT_FALSE(now.Allow("alic", {Api::kInference, kNone}));
  EXPECT_FALSE(now.Allow("team", {Api::kInference, kNone}));
  EXPECT_TRUE(now.Allow("bob", {Api::kStatistics, ""}));
  EXPECT_TRUE(now.Allow("alice", {Api::kLogging, kNone}));
  EXPECT_FALSE(now.Allow("anonymous", {Api::kLogging, kNone}));
  for (int api = 0; api < kApiCount; ++api) {
    EXPECT_TRUE(now.Allow("operator", {static_cast<Api>(api), ""}));
    EXPECT_TRUE(now.Allow("operator", {static_cast<Api>(api), "bert"}));
  }
}

TEST(Rights, WithoutAPolicyAreForAllThatAreKnown) {
  const Rights rights = Rights::ForAllKnown();
  EXPECT_TRUE(rights.Allow("alice", {Api::kModelRepository, ""}));
  EXPECT_TRUE(rights.Allow("anonymous", {Api::kHealth, kNone}));
  EXPECT_FALSE(rights.Allow("anonymous", {Api::kMetadata, kNone}));
}

TEST(Rights, FaultsNameTheirPlace) {
  const auto fault = [](std::string_view json) { return Rights::Parse(json).status().message(); };
  EXPECT_EQ(Rights::Parse(R"({"rules": []})").value().Allow("a", {Api::kHealth, kNone}), false);
  EXPECT_NE(fault("{").find("line 1"), std::string::npos) << fault("{");
  EXPECT_NE(fault("{}").find("/rules: "), std::string::npos) << fault("{}");
  EXPECT_NE(fault(R"({"rules": [], "rule": []})").find("/rule: "), std::string::npos);
  EXPECT_EQ(fault(R"({"rules": [{"identities": ["a"], "apis": ["infer"]}]})"),
            "/rules/0/apis/0: unknown API 'infer'; expected one of health, metadata, inference, "
            "shared-memory, model-config, model-repository, statistics, trace, logging, reflection, metrics, "
            "or *");
  for (const char* rule :
       {R"({"apis": ["*"]})", R"({"identities": ["a"]})", R"({"identities": [], "apis": ["*"]})",
        R"({"identities": ["a"], "apis": []})", R"({"identities": ["a"], "apis": ["*"], "models": []})",
        R"({"identities": ["a"], "apis": ["*"], "models": [1]})", R"({"identities": [""], "apis": ["*"]})",
        R"({"identities": "a", "apis": ["*"]})", R"({"identities": ["a"], "apis": ["*"], "model": ["m"]})",
        R"({"identities": ["a"], "identities": ["b"], "apis": ["*"]})", "1"}) {
    const std::string text = fault(std::string(R"({"rules": [)") + rule + "]}");
    EXPECT_TRUE(text.starts_with("/rules/0")) << rule << ": " << text;
  }
}

}  // namespace
}  // namespace braid
