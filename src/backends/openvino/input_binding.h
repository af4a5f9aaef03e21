// InputBinding: gives the inputs of an execution to an infer request, in place where that is possible.
//
// The inputs of one request are used where they lie. Those of several are put one behind the other along the
// first dimension, and strings become OpenVINO's own: one copy.
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

  // The requests of `execution` keep their inputs until the inference has ended. States are found by their
  // place, behind the client's inputs; a request without any gets those that a new sequence begins with.
  // Throws what OpenVINO throws. Errors: an input that is missing, or whose type, size or rows are not right.
  Status Bind(const Execution& execution);

  static size_t InputBytes(const Execution& execution);

  // The shapes that the infer request has, one for each input.
  std::vector<ov::Shape> Shapes() const;
  // Whether one of them is another than when they were last accepted.
  bool reshaped() const { return reshaped_; }
  void Accept() { reshaped_ = false; }

 private:
  struct Bound {
    const std::byte* data = nullptr;  // what the infer request has; null when that is not known
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
