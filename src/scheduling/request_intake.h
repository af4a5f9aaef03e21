// The checks of a request before it enters a scheduler, and the errors of requests that wait in one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

class ImageDecoder;

// Decodes inputs that stand for numbers (encoded images, texts) and checks the request against `info`.
// Returns false if the caller must do nothing more: the request was refused, or will be passed to its
// servable's Infer() again once its images are decoded. REQUIRES: request->servable is set if there can be
// images.
bool ReadyToSchedule(const ServableInfo& info, ImageDecoder* images,
                     std::unique_ptr<InferenceRequest>& request);

// The two halves of ReadyToSchedule(), for callers that reserve a place for the request in between.
// NeedsDecoding() returns whether it has images, for ImageDecoder::DecodeThen(). FinishIntake() does the
// rest, for a request without images.
bool NeedsDecoding(const ServableInfo& info, const InferenceRequest& request);
Status FinishIntake(const ServableInfo& info, InferenceRequest& request);

// The error of a request that would have to wait for its sequence while `most` requests do.
Status TooManyWaitForSequences(const InferenceRequest& request, size_t most, const std::string& model);

// The errors of requests that wait until their client cancels, or until their model stops.
Status CancelledWhileWaiting(const std::string& model);
Status StoppedWhileWaiting(const std::string& model);

// The error of a request that has waited for an available instance for too long. `reason` says why none is
// available; it may be empty.
Status NoInstanceLives(const std::string& model, int64_t waited_ns, const std::string& reason);

}  // namespace braid
