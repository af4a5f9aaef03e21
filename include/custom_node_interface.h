/* The interface of custom nodes: what a shared library implements to be a node of a pipeline.
 *
 *   #include "custom_node_interface.h"
 *   cc -shared -fPIC -o libmy_node.so my_node.c
 *
 * It is that of OpenVINO Model Server: libraries made for it work here unchanged, and the other way round.
 * Plain C; sources in C++ include it as it is. A library has all six functions. docs/custom-nodes.md has an
 * example and all rules in full.
 *
 * Memory. What the server hands in (tensors, names, parameters) belongs to the server, is valid during the
 * call, and is not to be changed. What the library hands out it allocates as it likes; the server gives each
 * piece back through release(), with the pointer that it was given and the node's own manager. Names are the
 * exception: they are not released, and stay valid (literals, as a rule). After a function has returned an
 * error, the server looks at nothing that it handed out.
 *
 * Threads. execute(), release() and the two info functions may be called by several threads at once, also for
 * one node.
 */
#pragma once

#include <stdint.h>

#if defined(_WIN32)
#define DLL_PUBLIC __declspec(dllexport)
#define DLL_LOCAL
#else
#define DLL_PUBLIC __attribute__((visibility("default")))
#define DLL_LOCAL __attribute__((visibility("hidden")))
#endif

/* The type of a tensor's elements. Inputs of other types arrive as UNSPECIFIED; outputs have one of the named
 * types. */
typedef enum {
  UNSPECIFIED = 0,
  FP32 = 1,
  FP16 = 2,
  U8 = 3,
  I8 = 4,
  I16 = 5,
  U16 = 6,
  I32 = 7,
  FP64 = 8,
  I64 = 9
} CustomNodeTensorPrecision;

/* A tensor: row-major, little-endian, without gaps. */
struct CustomNodeTensor {
  const char* name;
  uint8_t* data;
  uint64_t dataBytes; /* the product of dims times the size of an element */
  uint64_t* dims;
  uint64_t dimsCount;
  CustomNodeTensorPrecision precision;
};

/* What a node takes or gives; a dimension of 0 is any size. */
struct CustomNodeTensorInfo {
  const char* name;
  uint64_t* dims;
  uint64_t dimsCount;
  CustomNodeTensorPrecision precision;
};

/* One of the "params" of the node in config.json. */
struct CustomNodeParam {
  const char* key;
  const char* value;
};

#ifdef __cplusplus
extern "C" {
#endif

/* All functions return 0 for success. `params` is NULL when `paramsCount` is 0. */

/* Called once for each node that uses the library. What is stored in `*customNodeLibraryInternalManager`
 * (NULL before) is the node's own, and is given to all other calls for it. An error keeps the pipeline from
 * being served. */
DLL_PUBLIC int initialize(void** customNodeLibraryInternalManager, const struct CustomNodeParam* params,
                          int paramsCount);

/* Called when the node is gone, no call for it runs, and all that it handed out has been released. */
DLL_PUBLIC int deinitialize(void* customNodeLibraryInternalManager);

/* Does the node's work on one set of inputs, which come in any order: they are told apart by name. On success
 * `*outputs` is an array of `*outputsCount` tensors. The server releases each `dims` and the array at once,
 * and each `data` when nobody reads the tensor any more, on any thread. Outputs that the pipeline does not
 * use are ignored. */
DLL_PUBLIC int execute(const struct CustomNodeTensor* inputs, int inputsCount,
                       struct CustomNodeTensor** outputs, int* outputsCount,
                       const struct CustomNodeParam* params, int paramsCount,
                       void* customNodeLibraryInternalManager);

/* What the node takes, and what it gives: `*info` is an array of `*infoCount` descriptions. The server
 * releases each `dims`, then the array. Called any number of times; entries without a name are skipped. */
DLL_PUBLIC int getInputsInfo(struct CustomNodeTensorInfo** info, int* infoCount,
                             const struct CustomNodeParam* params, int paramsCount,
                             void* customNodeLibraryInternalManager);
DLL_PUBLIC int getOutputsInfo(struct CustomNodeTensorInfo** info, int* infoCount,
                              const struct CustomNodeParam* params, int paramsCount,
                              void* customNodeLibraryInternalManager);

/* Gives back one piece of memory that the library has handed out. Never called with NULL. */
DLL_PUBLIC int release(void* ptr, void* customNodeLibraryInternalManager);

#ifdef __cplusplus
}
#endif
