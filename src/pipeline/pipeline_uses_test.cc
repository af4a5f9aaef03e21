// The servables that pipelines and ensembles use, and the refusal of cycles.
#include "pipeline/testing/pipeline_fixture.h"
#include "serving/uses.h"

namespace braid {
namespace {

class PipelineUsesTest : public PipelineFixture {
 protected:
  PipelineUsesTest() { AddPlus("m", {-1}, 1); }

  // "p", IN -> `model` -> OUT.
  static OvmsPipelineConfig Over(const std::string& model, const std::string& in, const std::string& out) {
    return Entry({"IN"}, {"OUT=a/y"}, {Dl("a", model, {in + "=request/IN"}, {out + "=y"})});
  }
};

TEST_F(PipelineUsesTest, GoesThroughPipelinesAndEnsembles) {
  Serve(Over("m", "IN", "OUT"));
  EnsembleFixture::Serve(StepText("p", "X", "Y"));
  for (const char* name : {"e", "p", "m"}) EXPECT_TRUE(LeadsTo(catalog_, "e", name)) << name;
  for (const char* name : {"p", "m"}) EXPECT_TRUE(LeadsTo(catalog_, "p", name)) << name;
  EXPECT_FALSE(LeadsTo(catalog_, "p", "e"));
  EXPECT_FALSE(LeadsTo(catalog_, "m", "p"));
  EXPECT_FALSE(LeadsTo(catalog_, "nobody", "m"));
}

TEST_F(PipelineUsesTest, APipelineOverAnEnsembleThatLeadsBackIsRefused) {
  Serve(Over("m", "IN", "OUT"));
  EnsembleFixture::Serve(StepText("p", "X", "Y"));
  EXPECT_EQ(Fault(Over("e", "X", "Y")),
            "Pipeline definition contains a cycle - ensemble 'e' leads back to 'p' (pipeline 'p', node 'a')");
}

TEST_F(PipelineUsesTest, AnEnsembleOverAPipelineThatLeadsBackIsRefused) {
  EnsembleFixture::Serve(StepText("m", "X", "Y"));
  Serve(Over("e", "X", "Y"));
  EXPECT_EQ(EnsembleFixture::Make(StepText("p", "X", "Y")).status(),
            InvalidArgumentError("ensemble 'e' depends on 'p' which leads back to it."));
}

}  // namespace
}  // namespace braid
