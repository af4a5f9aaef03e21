// The way of a request into a scheduler, and the errors of those that wait in one.
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

// Decodes what stands for numbers in the inputs (encoded images, texts) and checks the request. False when
// the caller has nothing more to do: it was refused, or goes to Infer() of its servable again when its images
// are decoded. `info` is what the request is checked by. REQUIRES: request->servable is set where there can
// be images.
bool ReadyToSchedule(const ServableInfo& info, ImageDecoder* images,
                     std::unique_ptr<InferenceRequest>& request);

// The two halves of it, for who takes a place for the request in between: whether it has images, which
// ImageDecoder::DecodeThen() decodes, and all the rest, of a request without any.
bool NeedsDecoding(const ServableInfo& info, const InferenceRequest& request);
Status FinishIntake(const ServableInfo& info, InferenceRequest& request);

// For one that would have to wait for its sequence, as `most` do.
Status TooManyWaitForSequences(const InferenceRequest& request, size_t most, const std::string& model);

// For requests that wait until their client has gone, or until their model stops.
Status CancelledWhileWaiting(const std::string& model);
Status StoppedWhileWaiting(const std::string& model);

// For one that has waited for an instance to live for as long as it may; `reason` is why none does, or empty.
Status NoInstanceLives(const std::string& model, int64_t waited_ns, const std::string& reason);

}  // namespace braid
