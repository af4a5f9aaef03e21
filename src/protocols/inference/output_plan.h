// What a client wants of the outputs of a request, beside which ones: as classes, in its shared memory, in
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
  bool binary = false;   // of HTTP: behind the JSON part
  uint32_t classes = 0;  // how many of the best; 0: the values themselves
  // Copied when there are classes, for the labels: the servable may be gone when the response comes.
  TensorSpec spec = {};
  RegionPart part = {};  // where the bytes go, instead of into the response; no region: into the response
};

struct OutputPlan {
  bool batching = false;  // whether the first dimension counts rows
  std::vector<OutputRequest> asked_outputs;

  // Null for an output of which nothing was said.
  const OutputRequest* Find(std::string_view name) const;

  // Adds an output, with `region` and its labels. Errors: INVALID_ARGUMENT for classes in a region, and those of
  // ClientRegions::Find().
  Status Add(const ServableInfo& info, const ClientRegions& regions, const RegionRequest& region,
             OutputRequest asked);
  // Takes the responses of `request` to where outputs can be written into regions on devices, if any are to be.
  // Errors: UNSUPPORTED for a request to a graph.
  Status Prepare(const ServableInfo& info, InferenceRequest& request) const;
  // Turns outputs into classes, and puts them into the client's memory. Errors: those of Classify() and of
  // PutOutput().
  Status Apply(std::vector<Tensor>& outputs) const;
};

}  // namespace braid
