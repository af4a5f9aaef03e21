// Which servables have sequences, and how the header kSequenceIdHeader names the sequence of a request to
// them. Plain models have none, and no such header of a request to them is looked at.
#pragma once

#include <string_view>

#include "base/status.h"
#include "serving/request.h"
#include "serving/sequence_inputs.h"
#include "serving/servable.h"

namespace braid {

// Whether requests to it may belong to sequences: stateful models, models with sequence batching, and all
// that hands requests on to other servables.
bool HasSequences(const ServableInfo& info);

// Names the sequence of a request whose parameters are read, and which has no inputs that name one; `header`
// is empty when there is none. Errors: those of NameSequence() for stateful servables, else INVALID_ARGUMENT
// when the header names another sequence than the parameters.
Status NameSequenceOf(const ServableInfo& info, std::string_view header, InferenceRequest& request);

// The same for a request that may have the two inputs: take(name, type) takes one out of the message, as a
// Result<std::optional<SequenceInput>> with nothing where it is not there. It is asked for stateful servables
// alone.
template <class Take>
Status NameSequenceOf(const ServableInfo& info, std::string_view header, Take&& take,
                      InferenceRequest& request) {
  if (!info.stateful) return NameSequenceOf(info, header, request);
  BRAID_ASSIGN_OR_RETURN(const auto id, take(kSequenceIdInput, DataType::kUint64));
  BRAID_ASSIGN_OR_RETURN(const auto control, take(kSequenceControlInput, DataType::kUint32));
  return NameSequence(id, control, header, false, request);
}

// A response of a stateful servable says which sequence it belongs to, whatever outputs its request has asked
// for.
void AskForSequenceId(const ServableInfo& info, InferenceRequest& request);

// What is the matter with one of the inputs that name a sequence when it is there more than once.
Status RepeatedSequenceInput(std::string_view name);

}  // namespace braid
