/* A library with initialize but without deinitialize, which fits neither the old interface nor the new one. */
#define DLL_PUBLIC __attribute__((visibility("default")))

DLL_PUBLIC int initialize(void) { return 0; }
DLL_PUBLIC int execute(void) { return 1; }
DLL_PUBLIC int getInputsInfo(void) { return 1; }
DLL_PUBLIC int getOutputsInfo(void) { return 1; }
DLL_PUBLIC int release(void) { return 0; }
