// The gRPC services of TensorFlow Serving with every method in raw form; see protocols/kserve/grpc/services.h
// for why none is left out.
#pragma once

#include "tensorflow_serving.grpc.pb.h"

namespace braid {

using RawPredictionService = tensorflow::serving::PredictionService;
using TfsPredictionService =
    RawPredictionService::WithRawMethod_Predict<RawPredictionService::WithRawMethod_GetModelMetadata<
        RawPredictionService::WithRawMethod_Classify<RawPredictionService::WithRawMethod_Regress<
            RawPredictionService::WithRawMethod_MultiInference<RawPredictionService::Service>>>>>;

using RawModelService = tensorflow::serving::ModelService;
using TfsModelService = RawModelService::WithRawMethod_GetModelStatus<
    RawModelService::WithRawMethod_HandleReloadConfigRequest<RawModelService::Service>>;

struct TfsRawServices {
  TfsPredictionService prediction;
  TfsModelService model;
};

}  // namespace braid
