#include "backends/openvino/model_states.h"

#include <cstring>
#include <map>
#include <openvino/op/util/assign_base.hpp>
#include <openvino/op/util/multi_subgraph_base.hpp>
#include <openvino/op/util/read_value_base.hpp>
#include <openvino/opsets/opset13.hpp>
#include <openvino/pass/constant_folding.hpp>
#include <openvino/pass/low_latency.hpp>
#include <openvino/pass/manager.hpp>
#include <optional>
#include <set>
#include <utility>

#include "backends/openvino/element_types.h"

namespace braid {
namespace {

using ov::op::util::AssignBase;
using ov::op::util::MultiSubGraphOp;
using ov::op::util::ReadValueBase;
using ov::opset13::Constant;
using ov::opset13::Parameter;

struct Variable {
  std::vector<std::shared_ptr<ReadValueBase>> reads;
  std::vector<std::shared_ptr<AssignBase>> assigns;
};

struct Variables {
  std::map<std::string, Variable> all;
  // Variables used in a model within the model: the body of a loop, or a branch.
  std::set<std::string> nested;
};

// Recursive: bodies may have bodies.
void FindNested(const ov::Model& model, std::set<std::string>& names) {
  for (const auto& node : model.get_ordered_ops()) {
    if (const auto* read = ov::as_type<ReadValueBase>(node.get())) names.insert(read->get_variable_id());
    if (const auto* assign = ov::as_type<AssignBase>(node.get())) names.insert(assign->get_variable_id());
    if (const auto* outer = ov::as_type<MultiSubGraphOp>(node.get())) {
      for (const auto& body : outer->get_functions()) FindNested(*body, names);
    }
  }
}

Variables FindVariables(const ov::Model& model) {
  Variables found;
  for (const auto& node : model.get_ordered_ops()) {
    if (auto read = ov::as_type_ptr<ReadValueBase>(node))
      found.all[read->get_variable_id()].reads.push_back(read);
    if (auto assign = ov::as_type_ptr<AssignBase>(node)) {
      found.all[assign->get_variable_id()].assigns.push_back(assign);
    }
    if (const auto* outer = ov::as_type<MultiSubGraphOp>(node.get())) {
      for (const auto& body : outer->get_functions()) FindNested(*body, found.nested);
    }
  }
  return found;
}

// Whether all reads come before the assignment, as with an input and an output.
bool IsReadFirst(const Variable& variable) {
  for (const auto& read : variable.reads) {
    if (!read->get_control_dependencies().empty()) return false;
  }
  return true;
}

// An Assign operation also passes its value on.
void Remove(const std::shared_ptr<AssignBase>& assign, ov::Model& model) {
  assign->output(0).replace(assign->input_value(0));
  assign->clear_control_dependents();
  model.remove_sink(std::dynamic_pointer_cast<ov::op::Sink>(assign));
}

void Replace(const std::shared_ptr<ReadValueBase>& read, const ov::Output<ov::Node>& value) {
  read->output(0).replace(value);
  read->clear_control_dependents();
}

void RemoveVariable(const std::string& name, ov::Model& model) {
  if (auto variable = model.get_variable_by_id(name)) model.remove_variable(variable);
}

// Returns a model of the operations that compute `value`, and nothing else of `model`; null if they use
// variables.
std::shared_ptr<ov::Model> PartOf(const ov::Output<ov::Node>& value) {
  ov::ParameterVector parameters;
  std::set<ov::Node*> seen{value.get_node()};
  std::vector<std::shared_ptr<ov::Node>> open{value.get_node_shared_ptr()};
  while (!open.empty()) {
    const std::shared_ptr<ov::Node> node = std::move(open.back());
    open.pop_back();
    if (ov::is_type<ReadValueBase>(node) || ov::is_type<AssignBase>(node)) return nullptr;
    if (auto parameter = ov::as_type_ptr<Parameter>(node)) parameters.push_back(std::move(parameter));
    for (const auto& input : node->input_values()) {
      if (seen.insert(input.get_node()).second) open.push_back(input.get_node_shared_ptr());
    }
  }
  return ov::Model(ov::OutputVector{value}, parameters).clone();
}

// Returns the value if it is constant; null when it depends on inputs.
std::shared_ptr<Constant> ValueOf(const ov::Output<ov::Node>& value) {
  if (auto constant = ov::as_type_ptr<Constant>(value.get_node_shared_ptr())) return constant;
  const std::shared_ptr<ov::Model> part = PartOf(value);
  if (part == nullptr) return nullptr;
  // Also folds values that depend only on the shape of an input.
  ov::pass::Manager manager;
  manager.register_pass<ov::pass::ConstantFolding>();
  manager.run_passes(part);
  return ov::as_type_ptr<Constant>(part->get_results().at(0)->get_input_node_shared_ptr(0));
}

// Returns the value of ReadValue before any assignment. Without an initial value, OpenVINO's reset leaves
// zeros of the smallest shape allowed.
std::shared_ptr<Constant> InitialOf(const ReadValueBase& read) {
  if (read.get_input_size() > 0) return ValueOf(read.input_value(0));
  const ov::PartialShape& shape = read.get_output_partial_shape(0);
  if (shape.rank().is_dynamic() || read.get_output_element_type(0).is_dynamic()) return nullptr;
  const ov::Shape least = shape.get_min_shape();
  const std::vector<char> zeros(ov::shape_size(least) * read.get_output_element_type(0).size());
  return std::make_shared<Constant>(read.get_output_element_type(0), least, zeros.data());
}

bool SameValue(const Constant& a, const Constant& b) {
  return a.get_element_type() == b.get_element_type() && a.get_shape() == b.get_shape() &&
         std::memcmp(a.get_data_ptr(), b.get_data_ptr(), a.get_byte_size()) == 0;
}

// Returns the initial value that all reads share in a new sequence; null if there is no such constant.
std::shared_ptr<Constant> InitialOf(const Variable& variable) {
  std::shared_ptr<Constant> initial;
  for (const auto& read : variable.reads) {
    auto value = InitialOf(*read);
    if (value == nullptr || (initial != nullptr && !SameValue(*initial, *value))) return nullptr;
    initial = std::move(value);
  }
  return initial;
}

Result<Tensor> ToTensor(const std::string& name, const Constant& constant) {
  Tensor tensor;
  tensor.name = name;
  tensor.type = FromElementType(constant.get_element_type()).value_or(DataType::kInvalid);
  for (size_t dimension : constant.get_shape()) tensor.shape.push_back(static_cast<int64_t>(dimension));
  const size_t bytes = constant.get_byte_size();
  if (bytes == 0) return tensor;
  HeapAllocator heap;
  BRAID_ASSIGN_OR_RETURN(tensor.data, heap.Allocate(bytes));
  std::memcpy(tensor.data.mutable_data(), constant.get_data_ptr(), bytes);
  return tensor;
}

// A variable as the input and output that replace it.
struct Pair {
  std::string name;
  Variable variable;
  std::shared_ptr<Constant> initial;
  ov::PartialShape shape;
};

std::optional<Pair> MakePair(const std::string& name, const Variable& variable) {
  if (variable.assigns.size() != 1 || !IsReadFirst(variable)) return std::nullopt;
  Pair pair{name, variable, InitialOf(variable), variable.reads[0]->get_output_partial_shape(0)};
  if (pair.initial == nullptr) return std::nullopt;
  if (pair.shape.rank().is_dynamic()) {
    pair.shape = ov::PartialShape::dynamic(ov::Rank(static_cast<int64_t>(pair.initial->get_shape().size())));
  }
  return pair;
}

void MakePorts(const Pair& pair, ov::Model& model) {
  auto parameter = std::make_shared<Parameter>(pair.initial->get_element_type(), pair.shape);
  parameter->set_friendly_name("state/" + pair.name);
  for (const auto& read : pair.variable.reads) Replace(read, parameter->output(0));
  const auto& assign = pair.variable.assigns[0];
  auto result = std::make_shared<ov::opset13::Result>(assign->input_value(0));
  result->set_friendly_name("new state/" + pair.name);
  Remove(assign, model);
  RemoveVariable(pair.name, model);
  model.add_parameters({parameter});
  model.add_results({result});
}

// Removes variables that need no state: those never read, and those that always keep their initial value.
void Simplify(Variables& variables, ov::Model& model) {
  for (auto entry = variables.all.begin(); entry != variables.all.end();) {
    const Variable& variable = entry->second;
    const auto initial = variable.assigns.empty() ? InitialOf(variable) : nullptr;
    if (!variable.reads.empty() && initial == nullptr) {
      ++entry;
      continue;
    }
    for (const auto& read : variable.reads) Replace(read, initial->output(0));
    for (const auto& assign : variable.assigns) Remove(assign, model);
    RemoveVariable(entry->first, model);
    entry = variables.all.erase(entry);
  }
}

// Returns the pairs of all variables; nullopt if one of them cannot be a pair.
std::optional<std::vector<Pair>> MakePairs(const Variables& variables) {
  std::vector<Pair> pairs;
  for (const auto& [name, variable] : variables.all) {
    auto pair = MakePair(name, variable);
    if (!pair) return std::nullopt;
    pairs.push_back(*std::move(pair));
  }
  return pairs;
}

bool DependsOnState(const ov::Output<ov::Node>& value) {
  std::set<ov::Node*> seen{value.get_node()};
  std::vector<ov::Node*> open{value.get_node()};
  while (!open.empty()) {
    ov::Node* node = open.back();
    open.pop_back();
    if (ov::is_type<ReadValueBase>(node)) return true;
    for (const auto& input : node->input_values()) {
      if (seen.insert(input.get_node()).second) open.push_back(input.get_node());
    }
  }
  return false;
}

// OpenVINO's CPU device loses an assigned value that is an unchanged input, even after a reshape or a move.
// So values that come from inputs alone are computed: the maximum of a value and itself has the same bits.
void GuardAssigned(const std::shared_ptr<AssignBase>& assign) {
  const ov::Output<ov::Node> value = assign->input_value(0);
  if (DependsOnState(value)) return;
  std::shared_ptr<ov::Node> same;
  if (value.get_element_type() == ov::element::boolean) {
    same = std::make_shared<ov::opset13::LogicalOr>(value, value);
  } else {
    same = std::make_shared<ov::opset13::Maximum>(value, value);
  }
  assign->input(0).replace_source_output(same->output(0));
}

Status CheckState(const ModelState& state) {
  const std::string who = "state '" + state.name + "' ";
  const auto type = FromElementType(state.element);
  if (!type || *type == DataType::kBytes) {
    return UnsupportedError(who + "is of type " + state.element.get_type_name() +
                            ", which cannot be kept between requests");
  }
  if (state.shape.rank().is_dynamic()) {
    return UnsupportedError(who + "has no fixed number of dimensions, so it cannot be kept between requests");
  }
  return OkStatus();
}

}  // namespace

void ApplyLowLatency(const std::shared_ptr<ov::Model>& model) {
  ov::pass::Manager manager;
  manager.register_pass<ov::pass::LowLatency2>();
  manager.run_passes(model);
  model->validate_nodes_and_infer_types();
}

std::string FindLoop(const ov::Model& model) {
  for (const auto& node : model.get_ordered_ops()) {
    if (ov::is_type<ov::opset13::TensorIterator>(node) || ov::is_type<ov::opset13::Loop>(node) ||
        ov::is_type<ov::opset13::LSTMSequence>(node) || ov::is_type<ov::opset13::GRUSequence>(node) ||
        ov::is_type<ov::opset13::RNNSequence>(node)) {
      return node->get_type_name();
    }
  }
  return "";
}

Result<ModelStates> TakeStates(ov::Model& model) {
  ModelStates taken;
  Variables variables = FindVariables(model);
  std::optional<std::vector<Pair>> pairs;
  if (variables.nested.empty()) {
    Simplify(variables, model);
    pairs = MakePairs(variables);
  }
  if (pairs) {
    taken.are_ports = true;
    for (const Pair& pair : *pairs) {
      taken.states.push_back({pair.name, pair.initial->get_element_type(), pair.shape});
      BRAID_RETURN_IF_ERROR(CheckState(taken.states.back()));
      BRAID_ASSIGN_OR_RETURN(Tensor initial, ToTensor(pair.name, *pair.initial));
      taken.initial.push_back(std::move(initial));
      MakePorts(pair, model);
    }
    model.validate_nodes_and_infer_types();
    return taken;
  }
  for (const auto& [name, variable] : variables.all) {
    const ov::Output<ov::Node> value =
        variable.reads.empty() ? variable.assigns.at(0)->input_value(0) : variable.reads.at(0)->output(0);
    taken.states.push_back({name, value.get_element_type(), value.get_partial_shape()});
    variables.nested.erase(name);
    BRAID_RETURN_IF_ERROR(CheckState(taken.states.back()));
    for (const auto& assign : variable.assigns) GuardAssigned(assign);
  }
  model.validate_nodes_and_infer_types();
  if (variables.nested.empty()) return taken;
  return UnsupportedError("state '" + *variables.nested.begin() +
                          "' is inside a loop or a branch, where no device can read it");
}

std::vector<std::string> ForgetStates(ov::Model& model, bool& changed) {
  const Variables variables = FindVariables(model);
  changed = !variables.all.empty() || !variables.nested.empty();
  std::vector<std::string> left(variables.nested.begin(), variables.nested.end());
  for (const auto& [name, variable] : variables.all) {
    if (variables.nested.contains(name)) continue;
    // The device would decide the order of several reads.
    const bool one_value = variable.reads.size() < 2 || InitialOf(variable) != nullptr;
    const bool known =
        variable.reads.empty() || variable.reads[0]->get_input_size() > 0 || InitialOf(variable) != nullptr;
    if (!one_value || !known || !IsReadFirst(variable)) {
      left.push_back(name);
      continue;
    }
    for (const auto& read : variable.reads) {
      Replace(read, read->get_input_size() > 0 ? read->input_value(0) : InitialOf(*read)->output(0));
    }
    for (const auto& assign : variable.assigns) Remove(assign, model);
    RemoveVariable(name, model);
  }
  if (changed) model.validate_nodes_and_infer_types();
  return left;
}

}  // namespace braid
