#include "worker/extension/node_functions.h"

#include "base/thread.h"
#include "worker/extension/node_runner.h"
#include "worker/extension/python_state.h"
#include "worker/extension/worker.h"

namespace braid {
namespace {

PyObject* RaiseNoChannel() {
  PyErr_SetString(PyExc_RuntimeError, "there is no channel to a server");
  return nullptr;
}

// Marks the outputs of a node whose names are in a set of str.
bool MarkOutputs(PyObject* names, NodeFacts& node, bool NodeFacts::Output::*mark) {
  Ref list = Ref::Steal(PySequence_List(names));
  if (!list) return false;
  for (Py_ssize_t i = 0; i < PyList_Size(list.get()); ++i) {
    std::string_view name;
    if (!TextOf(PyList_GetItem(list.get(), i), name)) return false;
    auto found = node.outputs.find(name);
    if (found != node.outputs.end()) found->second.*mark = true;
  }
  return true;
}

PyObject* AddNode(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"node",     "name", "file",          "outputs",         "loopback",
                                "exported", "kept", "takes_session", "has_end_session", "loops",
                                nullptr};
  PyObject* object = nullptr;
  const char* name = nullptr;
  const char* file = nullptr;
  PyObject* outputs = nullptr;
  PyObject* loopback = nullptr;
  PyObject* exported = nullptr;
  PyObject* kept = nullptr;
  int takes_session = 0;
  int has_end_session = 0;
  int loops = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "$OssOOOOppp:add_node", const_cast<char**>(names), &object,
                                   &name, &file, &outputs, &loopback, &exported, &kept, &takes_session,
                                   &has_end_session, &loops)) {
    return nullptr;
  }
  Worker* worker = CurrentWorker();
  if (worker == nullptr) return RaiseNoChannel();
  NodeFacts node;
  node.object = Ref::Share(object);
  node.name = name;
  node.file = file;
  node.takes_session = takes_session != 0;
  node.has_end_session = has_end_session != 0;
  node.loops = loops != 0;
  Ref list = Ref::Steal(PySequence_List(outputs));
  if (!list) return nullptr;
  for (Py_ssize_t i = 0; i < PyList_Size(list.get()); ++i) {
    std::string_view output;
    if (!TextOf(PyList_GetItem(list.get(), i), output)) return nullptr;
    const size_t place = node.outputs.size();
    node.outputs.try_emplace(std::string(output), NodeFacts::Output{.place = place});
  }
  if (!MarkOutputs(loopback, node, &NodeFacts::Output::loopback) ||
      !MarkOutputs(exported, node, &NodeFacts::Output::exported) ||
      !MarkOutputs(kept, node, &NodeFacts::Output::kept)) {
    return nullptr;
  }
  worker->nodes().Add(std::move(node));
  Py_RETURN_NONE;
}

PyObject* ServeNodes(PyObject*, PyObject* number) {
  const long which = PyLong_AsLong(number);
  if (PyErr_Occurred() != nullptr) return nullptr;
  Worker* worker = CurrentWorker();
  if (worker == nullptr) return RaiseNoChannel();
  SetThreadName("brd-node-" + std::to_string(which));
  worker->nodes().RunThread();
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"add_node", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(AddNode)),
     METH_VARARGS | METH_KEYWORDS,
     "add_node(*, node, name, file, outputs, loopback, exported, kept, takes_session, has_end_session, "
     "loops): the next node of the graph that this worker runs; see NodeFacts."},
    {"serve_nodes", ServeNodes, METH_O, "serve_nodes(number): runs nodes on the calling thread."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool AddNodeFunctions(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace braid
