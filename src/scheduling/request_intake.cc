#include "scheduling/request_intake.h"

#include "images/encoded_images.h"
#include "serving/request_check.h"
#include "serving/string_tensors.h"

namespace braid {

bool ReadyToSchedule(const ServableInfo& info, std::unique_ptr<InferenceRequest>& request) {
  Status status;
  if (info.dialect == Dialect::kOvms) {
    if (HasEncodedImages(info, *request)) {
      DecodeImagesThen(std::move(request), [](std::unique_ptr<InferenceRequest> decoded) {
        Servable& servable = decoded->servable->get();
        servable.Infer(std::move(decoded));
      });
      return false;
    }
    status = StringsToRows(info, *request);
  }
  if (status.ok()) status = CheckRequest(info, *request);
  if (status.ok()) return true;
  request->Refuse(std::move(status));
  return false;
}

Status CancelledWhileWaiting(const std::string& model) {
  return CancelledError("Request cancelled while it waited for model '" + model + "'");
}

Status StoppedWhileWaiting(const std::string& model) {
  return UnavailableError("Server exiting or model '" + model +
                          "' being unloaded: the request did not run in time");
}

}  // namespace braid
