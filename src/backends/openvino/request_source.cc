#include "backends/openvino/request_source.h"

#include <algorithm>
#include <openvino/opsets/opset13.hpp>
#include <utility>

#include "backends/openvino/openvino_errors.h"

namespace braid {
namespace {

// The most combinations of shapes remembered; beyond that, all are tried again.
constexpr size_t kMostKnown = 4096;

bool HasDynamicInput(const ov::Model& model) {
  const auto& inputs = model.inputs();
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const auto& input) { return input.get_partial_shape().is_dynamic(); });
}

// OpenVINO accepts any tensor for a reshape whose pattern has zeros (unchanged) and no dimension to compute.
void CheckReshapes(const ov::Model& model) {
  for (const auto& node : model.get_ops()) {
    if (!ov::is_type<ov::opset13::Reshape>(node)) continue;
    const ov::PartialShape& from = node->get_input_partial_shape(0);
    const ov::PartialShape& to = node->get_output_partial_shape(0);
    if (from.is_dynamic() || to.is_dynamic()) continue;
    OPENVINO_ASSERT(ov::shape_size(from.to_shape()) == ov::shape_size(to.to_shape()), "Reshape '",
                    node->get_friendly_name(), "' cannot make ", to, " of ", from);
  }
}

}  // namespace

RequestSource::RequestSource(ov::CompiledModel compiled, std::shared_ptr<const ov::Model> model,
                             Compile compile)
    : compile_(std::move(compile)),
      is_dynamic_(model->is_dynamic()),
      dynamic_inputs_(HasDynamicInput(*model)),
      compiled_(std::move(compiled)) {
  // The clone shares the constants.
  if (dynamic_inputs_) tried_ = model->clone();
}

Result<RequestSource::Made> RequestSource::Make() {
  MutexLock lock(make_mutex_);
  if (const uint64_t wanted = generation_.load(std::memory_order_acquire); wanted != compiled_generation_) {
    BRAID_ASSIGN_OR_RETURN(compiled_, compile_());
    compiled_generation_ = wanted;
  }
  Made made;
  made.generation = compiled_generation_;
  BRAID_RETURN_IF_ERROR(Guarded(
      [&] {
        make_mutex_.AssertHeld();  // Guarded() calls this at once
        made.request = compiled_.create_infer_request();
      },
      [](const std::string& text) { return InternalError(text); }));
  return made;
}

bool RequestSource::Discard(uint64_t generation) {
  if (!is_dynamic_) return true;
  if (!generation_.compare_exchange_strong(generation, generation + 1, std::memory_order_acq_rel))
    return false;
  if (renew_) Run(renew_);
  return true;
}

bool RequestSource::Knows(const std::vector<ov::Shape>& shapes) const {
  MutexLock lock(known_mutex_);
  return known_.contains(shapes);
}

std::optional<std::string> RequestSource::Try(const std::vector<ov::Shape>& shapes) {
  std::string text;
  {
    MutexLock lock(try_mutex_);
    const Status status = Guarded(
        [&] {
          try_mutex_.AssertHeld();  // Guarded() calls this at once
          for (size_t i = 0; i < shapes.size(); ++i)
            tried_->get_parameters().at(i)->set_partial_shape(ov::PartialShape(shapes[i]));
          tried_->validate_nodes_and_infer_types();
          CheckReshapes(*tried_);
        },
        [](const std::string& what) { return InvalidArgumentError(what); });
    if (!status.ok()) return status.message();
  }
  MutexLock lock(known_mutex_);
  if (known_.size() >= kMostKnown) known_.clear();
  known_.insert(shapes);
  return std::nullopt;
}

}  // namespace braid
