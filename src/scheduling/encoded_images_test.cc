// Encoded images in requests to a scheduled model are decoded before the request is checked.
#include <gtest/gtest.h>

#include <future>

#include "images/encoded_images.h"
#include "model_config.pb.h"
#include "scheduling/testing/fake_backend.h"
#include "scheduling/testing/manual_timers.h"
#include "scheduling/testing/recording_sink.h"
#include "sequences/scheduled_model.h"
#include "serving/faults.h"

namespace braid {
namespace {

class EncodedImagesInRequests : public ::testing::Test {
 protected:
  // Returns the answer of a model of this dialect to a string that is not an image.
  Status Ask(Dialect dialect, bool stateful = false) {
    ServableInfo info;
    info.name = "m";
    info.dialect = dialect;
    TensorSpec& image = info.inputs.emplace_back();
    image.name = "image";
    image.type = DataType::kUint8;
    image.shape.assign({1, 2, 2, 3});
    info.config = std::make_shared<const inference::ModelConfig>();
    if (stateful) info.stateful = StatefulSpec{};
    const std::shared_ptr<Servable> model = Start(std::move(info));

    auto request = std::make_unique<InferenceRequest>();
    request->sequence_start = stateful;
    request->servable = ServableHandle::Enter(model);
    request->cancellation = std::make_shared<Cancellation>();
    std::promise<void> answered;
    RecordingSink sink;
    sink.on_response = [&] { answered.set_value(); };
    request->sink = &sink;
    const std::string bytes("\1\0\0\0x", 5);
    request->inputs.push_back(
        {"image", DataType::kBytes, Shape(1, 1), CopyToHeap(std::as_bytes(std::span(bytes)))});
    model->Infer(std::move(request));
    answered.get_future().wait();
    model->gate().Close();
    model->Stop(0);
    return sink.status();
  }
  std::shared_ptr<Servable> Start(ServableInfo info) {
    InstancePool::Options options;
    options.images = &images_;
    auto backend = std::make_unique<FakeBackendModel>(1);
    return StartModel(std::move(info), std::move(backend), timers_, log_, {}, options).value();
  }

  ManualTimers timers_;
  Logger log_;
  ImageDecoder images_{{}};
};

TEST_F(EncodedImagesInRequests, AreDecodedForModelsOfConfigJson) {
  EXPECT_EQ(Ask(Dialect::kOvms), FaultError(Fault::kImageParsingFailed, "image 0; input name: image"));
}

TEST_F(EncodedImagesInRequests, AreDecodedForStatefulModels) {
  EXPECT_EQ(Ask(Dialect::kOvms, true), FaultError(Fault::kImageParsingFailed, "image 0; input name: image"));
}

TEST_F(EncodedImagesInRequests, AreStringsForOtherModels) {
  EXPECT_EQ(Ask(Dialect::kTriton).message(),
            "[request id: <id_unknown>] inference input 'image' data-type is 'BYTES', but model 'm' expects "
            "'UINT8'");
}

}  // namespace
}  // namespace braid
