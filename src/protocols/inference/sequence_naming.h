// Functions that name the sequence of a request, by parameters, inputs or the header kSequenceIdHeader. Plain
// models have no sequences and ignore that header.
#pragma once

#include <string_view>

#include "base/status.h"
#include "serving/request.h"
#include "serving/sequence_inputs.h"
#include "serving/servable.h"

namespace braid {

// Whether requests to the servable may belong to sequences: stateful models, models with sequence batching,
// and servables that pass requests on to others.
bool HasSequences(const ServableInfo& info);

// Names the sequence of a request without inputs that name one, after its parameters were read. `header` is
// empty without the header. Errors: those of NameSequence() for stateful servables; otherwise
// INVALID_ARGUMENT if the header contradicts the parameters.
Status NameSequenceOf(const ServableInfo& info, std::string_view header, InferenceRequest& request);

// The same for a request that may have the two inputs. take(name, type) takes an input out of the message and
// returns a Result<std::optional<SequenceInput>>, with nullopt if there is none. Called for stateful
// servables only.
template <class Take>
Status NameSequenceOf(const ServableInfo& info, std::string_view header, Take&& take,
                      InferenceRequest& request) {
  if (!info.stateful) return NameSequenceOf(info, header, request);
  BRAID_ASSIGN_OR_RETURN(const auto id, take(kSequenceIdInput, DataType::kUint64));
  BRAID_ASSIGN_OR_RETURN(const auto control, take(kSequenceControlInput, DataType::kUint32));
  return NameSequence(id, control, header, false, request);
}

// Adds the sequence id to the requested outputs, because each response of a stateful servable has it.
void AskForSequenceId(const ServableInfo& info, InferenceRequest& request);

// The error of an input that names a sequence and is given more than once.
Status RepeatedSequenceInput(std::string_view name);

}  // namespace braid
