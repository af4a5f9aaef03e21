// OutputPlan: the requested form of a request's outputs: as classes, in shared memory of the client, or in
// binary form. Read with the request, and applied to its responses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "protocols/inference/client_regions.h"
#include "serving/request.h"
#include "serving/servable.h"

namespace braid {

struct OutputRequest {
  std::string name;
  bool binary = false;   // HTTP only: after the JSON part
  uint32_t classes = 0;  // number of highest classes; 0: the values themselves
  // Copied with its labels if classes are requested, because the servable may be gone when the response
  // comes.
  TensorSpec spec = {};
  RegionPart part = {};  // receives the bytes; without a region they go into the response
};

struct OutputPlan {
  bool batching = false;  // whether the first dimension counts rows
  std::vector<OutputRequest> asked_outputs;

  // Returns null for an output without requests.
  const OutputRequest* Find(std::string_view name) const;

  // Adds an output, with its region and its labels. Errors: INVALID_ARGUMENT for classes in a region, and
  // those of ClientRegions::Find().
  Status Add(const ServableInfo& info, const ClientRegions& regions, const RegionRequest& region,
             OutputRequest asked);
  // If an output goes to a region on a device, brings the responses of `request` on the thread that can write
  // there. Errors: UNSUPPORTED for a request to a graph.
  Status Prepare(const ServableInfo& info, InferenceRequest& request) const;
  // Converts outputs to classes, and copies them to the client's memory. Errors: those of Classify() and
  // PutOutput().
  Status Apply(std::vector<Tensor>& outputs) const;
};

}  // namespace braid
