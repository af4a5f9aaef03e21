#include "scheduling/request_intake.h"

#include "images/encoded_images.h"
#include "serving/request_check.h"
#include "serving/string_tensors.h"

namespace braid {

bool ReadyToSchedule(const ServableInfo& info, ImageDecoder* images,
                     std::unique_ptr<InferenceRequest>& request) {
  if (NeedsDecoding(info, *request)) {
    images->DecodeThen(std::move(request), [](std::unique_ptr<InferenceRequest> decoded, Status status) {
      if (!status.ok()) {
        decoded->Refuse(std::move(status));
        return;
      }
      Servable& servable = decoded->servable->get();
      servable.Begin(std::move(decoded));
    });
    return false;
  }
  Status status = FinishIntake(info, *request);
  if (status.ok()) return true;
  request->Refuse(std::move(status));
  return false;
}

bool NeedsDecoding(const ServableInfo& info, const InferenceRequest& request) {
  return info.dialect == Dialect::kOvms && HasEncodedImages(info, request);
}

Status FinishIntake(const ServableInfo& info, InferenceRequest& request) {
  if (info.dialect == Dialect::kOvms) BRAID_RETURN_IF_ERROR(StringsToRows(info, request));
  return CheckRequest(info, request);
}

Status TooManyWaitForSequences(const InferenceRequest& request, size_t most, const std::string& model) {
  return UnavailableError(RequestPrefix(request) + "Exceeds maximum queue size: " + std::to_string(most) +
                          " requests wait for sequences of model '" + model +
                          "', the server's limit for one model");
}

Status CancelledWhileWaiting(const std::string& model) {
  return CancelledError("Request cancelled while it waited for model '" + model + "'");
}

Status StoppedWhileWaiting(const std::string& model) {
  return UnavailableError("Server exiting or model '" + model +
                          "' being unloaded: the request did not run in time");
}

Status NoInstanceLives(const std::string& model, int64_t waited_ns, const std::string& reason) {
  const std::string since = waited_ns == 0 ? "' is available: "
                                           : "' was available for " + std::to_string(waited_ns / 1'000'000) +
                                                 " ms (--outage-wait-ms): ";
  return UnavailableError("no instance of model '" + model + since +
                          (reason.empty() ? "instances are restarting" : reason));
}

}  // namespace braid
