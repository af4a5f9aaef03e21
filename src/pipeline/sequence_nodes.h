// What pipelines and ensembles do with the sequence of a request: they read what the client names it by, and
// have the nodes behind which there are sequences watched, so that a request which fails takes back what they
// have done (see SequenceTurn).
//
// A start or an end goes to each of those nodes, and so does the name: a client that names none gets one
// which they all know.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "pipeline/node.h"
#include "serving/request.h"
#include "serving/sequence_turn.h"
#include "serving/servable.h"

namespace braid {

// Before all other checks of a request to a servable that `info` describes; does nothing when it is not
// stateful. Afterwards the request's sequence has a number. Errors: those of TakeSequenceInputs().
Status ReadSequence(const ServableInfo& info, InferenceRequest& request);

// The turn that a request to these nodes has; null when there is nothing that would have to be taken back.
// Wraps those nodes that it has to know of.
std::shared_ptr<SequenceTurn> WatchSequence(const InferenceRequest& request,
                                            std::vector<std::unique_ptr<NodeSession>>& nodes);

}  // namespace braid
