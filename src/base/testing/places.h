// Paths of files that unit tests load or start. CMake writes the definitions for each program that needs some
// (braid_test_places). A path in a compiler's command would keep one checkout from using another's compiled
// files.
#pragma once

namespace braid::test_places {

extern const char* const kOpenCvLibrary;    // of image functions
extern const char* const kBuiltInNodes;     // the folder of custom_nodes' libraries
extern const char* const kExampleNodes;     // the folder of examples/custom_nodes' libraries
extern const char* const kTestNodes;        // the folder of pipeline/testing/nodes' libraries
extern const char* const kTestCalculators;  // the folder of mediapipe_graph/testing/plugins' libraries
extern const char* const kPython;           // the interpreter of workers
extern const char* const kPythonWorker;     // the folder of workers' files
extern const char* const kNativeWorker;     // the program native_test_worker

}  // namespace braid::test_places
