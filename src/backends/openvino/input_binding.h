// InputBinding: passes the inputs of an execution to an infer request, without a copy where possible.
//
// The inputs of a single request are used in place. Those of several requests are concatenated along the
// first dimension, and strings are converted to OpenVINO's: one copy each.
#pragma once

#include <cstddef>
#include <vector>

#include <openvino/openvino.hpp>

#include "backends/openvino/compiled_facts.h"
#include "base/status.h"
#include "scheduling/instance.h"
#include "tensor/buffer.h"

namespace braid {

class InputBinding {
 public:
  // `facts` and `request` outlive the binding. One thread at a time.
  InputBinding(const CompiledFacts& facts, ov::InferRequest& request);

  // Binds the inputs of `execution`, whose requests keep them until the inference has ended. States are found
  // by their position, behind the client's inputs; a request without states gets the initial ones. Throws
  // OpenVINO's exceptions. Errors: a missing input, or one of a wrong type, size or number of rows.
  Status Bind(const Execution& execution);

  static size_t InputBytes(const Execution& execution);

  // The shapes that the infer request has now, one for each input.
  std::vector<ov::Shape> Shapes() const;
  // Whether a shape has changed since the last Accept().
  bool reshaped() const { return reshaped_; }
  void Accept() { reshaped_ = false; }

 private:
  struct Bound {
    const std::byte* data = nullptr;  // the address that the infer request has; null when unknown
    ov::Shape shape;
    Buffer scratch;
  };

  Status BindOne(size_t index, const Execution& execution);
  const Tensor* Find(const InferenceRequest& request, size_t index) const;
  void Set(size_t index, std::byte* data, const ov::Shape& shape);
  void Note(Bound& bound, const ov::Shape& shape);

  const CompiledFacts& facts_;
  ov::InferRequest& request_;
  std::vector<Bound> bound_;
  std::vector<const Tensor*> parts_;  // scratch of BindOne()
  bool reshaped_ = true;
};

}  // namespace braid
