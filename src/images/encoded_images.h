// Encoded images (JPEG, PNG and what else OpenCV reads) in place of a tensor's numbers: BYTES of shape [N]
// for an input of rank 4, or of rank 5 where a pipeline demultiplexes its request. They are decoded to the
// shape, the layout (NHWC), the number of channels (BGR, or gray) and the precision of the input.
//
// OpenCV is loaded with the first image: a server that gets none does not carry it.
#pragma once

#include <functional>
#include <memory>

#include "base/status.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

// Whether an input of the request is of encoded images: to be asked of servables of Dialect::kOvms, before
// CheckRequest(). Cheap.
bool HasEncodedImages(const ServableInfo& info, const InferenceRequest& request);

// Decodes all of them in place; takes milliseconds. Errors, as OvmsCode: kImageParsingFailed,
// kInvalidNoOfChannels, kBinaryImagesResolutionMismatch, kUnsupportedLayout, kBytesContentsEmpty,
// kInvalidShape.
Status DecodeImages(const ServableInfo& info, InferenceRequest& request);

// The same on threads that are made for it, as many as there are cores; `next` goes on with the request
// there, or the request has been failed. Never blocks. The request's servable is in `request->servable`.
void DecodeImagesThen(std::unique_ptr<InferenceRequest> request,
                      std::function<void(std::unique_ptr<InferenceRequest>)> next);

}  // namespace braid
