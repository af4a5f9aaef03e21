#include "protocols/tfs/tfs_services.h"

#include "protocols/tfs/control_call.h"
#include "protocols/tfs/predict_call.h"

namespace braid {

std::vector<std::string> TfsServices::ServiceNames() const {
  return {"tensorflow.serving.PredictionService", "tensorflow.serving.ModelService"};
}

std::vector<GrpcRoute> TfsServices::Routes(GrpcThread&, std::unique_ptr<ThreadState>&) {
  std::vector<GrpcRoute> routes = TfsControlRoutes(*this);
  routes.push_back({"/tensorflow.serving.PredictionService/Predict", Api::kInference,
                    [this](GrpcThread&, GrpcCall::Setup setup) {
                      return Result<std::shared_ptr<GrpcCall>>(
                          std::make_shared<TfsPredictCall>(std::move(setup), context_));
                    }});
  return routes;
}

}  // namespace braid
