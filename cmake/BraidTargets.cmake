# How a folder becomes a target: one library a folder, named after it, which sees only the folders that it names. Its unit
# tests (*_test.cc, beside the code) become one test program.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(launcher ${CMAKE_SOURCE_DIR}/cmake/compile ${CMAKE_SOURCE_DIR})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
endif()

find_package(Threads REQUIRED)

# Programs of unit tests are large, and many.
find_program(MOLD_PROGRAM mold)
add_library(braid_options INTERFACE)
if(BRAID_SANITIZER AND NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "BRAID_SANITIZER needs clang, as the presets asan and tsan have it")
endif()
if(BRAID_SANITIZER AND NOT BRAID_FUZZ)
  if(MOLD_PROGRAM)
    target_link_options(braid_options INTERFACE -fuse-ld=mold)
  endif()
endif()
target_include_directories(braid_options INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
target_link_libraries(braid_options INTERFACE Threads::Threads)
if(BRAID_SANITIZER STREQUAL "address")
  # Null pointers end the program anyway, and checking each use of one takes long to compile. A target's BRAID_UNCHECKED has what else
  # is left out there.
  set(unchecked $<TARGET_PROPERTY:BRAID_UNCHECKED>)
  target_compile_options(braid_options INTERFACE -fsanitize=address,undefined
                         -fno-sanitize=null,vptr$<$<BOOL:${unchecked}>:,${unchecked}>
                         -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_link_options(braid_options INTERFACE -fsanitize=address,undefined)
  if(NOT BRAID_FUZZ)
    # As a library, so that tests can bring an `operator new` of their own. That of the thread sanitizer does not work as a library.
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=lib/linux OUTPUT_VARIABLE runtimes OUTPUT_STRIP_TRAILING_WHITESPACE)
    target_link_options(braid_options INTERFACE -shared-libsan -Wl,-rpath,${runtimes})
  endif()
  # What the sanitizers know of each check has addresses; in a program that may lie anywhere, each is a relocation: a third of the file.
  target_link_options(braid_options INTERFACE $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
  if(BRAID_FUZZ)
    target_compile_options(braid_options INTERFACE -fsanitize=fuzzer-no-link)
  endif()
elseif(BRAID_SANITIZER STREQUAL "thread")
  target_compile_options(braid_options INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(braid_options INTERFACE -fsanitize=thread)
  # The thread sanitizer does not know fences. Asio's order nothing here: its queues have mutexes.
  target_compile_definitions(braid_options INTERFACE BOOST_ASIO_DISABLE_FENCED_BLOCK)
elseif(BRAID_SANITIZER)
  message(FATAL_ERROR "BRAID_SANITIZER must be address, thread or empty, not '${BRAID_SANITIZER}'")
else()
  # The program names its sources by paths in the checkout: the same bytes in whichever folder that is.
  target_compile_options(braid_options INTERFACE -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
  # What a fault in memory can be made into is bounded; scripts/check-hardening looks at what was built.
  target_compile_options(braid_options INTERFACE -fstack-protector-strong -fstack-clash-protection -fcf-protection)
  target_link_options(braid_options INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack)
  # Without optimization it has no effect but a warning.
  set(optimized $<AND:$<CONFIG:Release>,$<NOT:$<BOOL:$<TARGET_PROPERTY:BRAID_UNOPTIMIZED>>>>)
  target_compile_options(braid_options INTERFACE $<${optimized}:-D_FORTIFY_SOURCE=3>)
endif()

# Warnings are errors in our code, not in what protoc writes.
add_library(braid_warnings INTERFACE)
target_compile_options(braid_warnings INTERFACE -Wall -Wextra -Werror -Wnon-virtual-dtor -Woverloaded-virtual
                       $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>)

# All programs of unit tests. Nothing else builds them: the release is tested end to end.
add_custom_target(braid_unit_tests)
# In brackets: where the checkout lies is then no part of what is compiled.
set(BRAID_TEST_PCH <gmock/gmock.h> <gtest/gtest.h> <algorithm> <atomic> <chrono> <filesystem> <functional> <future> <optional>
    <span> <string> <thread> <vector> <model_config.pb.h>)

# braid_library(NAME [DEPS target...] [PRIVATE_DEPS target...] [PCH header...] [SUBFOLDERS folder...] [SINGLE] [COLD])
# Builds every .cc of the current folder (tests and benchmarks apart) into library braid_NAME. A unity build compiles the sources
# together: names in their unnamed namespaces have to differ, and headers are precompiled for the unit tests alone. SINGLE is for libraries of which
# the workers' extension, or a custom node, takes the objects that it needs, and no more: only `make check`, which links nothing, puts them together.
# COLD is for libraries that run when the server starts, or for a person who looks: they are optimized less, which halves the time
# that they take to build.
function(braid_library name)
  cmake_parse_arguments(arg "SINGLE;COLD" "" "DEPS;PRIVATE_DEPS;PCH;SUBFOLDERS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cc)
  foreach(folder ${arg_SUBFOLDERS})
    file(GLOB more CONFIGURE_DEPENDS ${folder}/*.cc)
    list(APPEND sources ${more})
  endforeach()
  set(all ${sources})
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "(_test|_bench|_fuzz|/main)\\.cc$")
  if(sources)
    add_library(braid_${name} STATIC ${sources})
    if(arg_SINGLE AND NOT CMAKE_UNITY_BUILD_BATCH_SIZE STREQUAL "0")
      set_target_properties(braid_${name} PROPERTIES UNITY_BUILD OFF)
    endif()
    target_link_libraries(braid_${name} PUBLIC braid_options ${arg_DEPS} PRIVATE braid_warnings ${arg_PRIVATE_DEPS})
    if(arg_COLD)
      target_compile_options(braid_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
    endif()
    get_target_property(unity braid_${name} UNITY_BUILD)
    if(arg_PCH AND NOT unity AND NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
      target_precompile_headers(braid_${name} PRIVATE ${arg_PCH})
      target_compile_options(braid_${name} PRIVATE -fpch-preprocess)
    endif()
  else()
    add_library(braid_${name} INTERFACE)
    target_link_libraries(braid_${name} INTERFACE braid_options ${arg_DEPS})
  endif()
  set(fuzzers ${all})
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cc$")
  if(BRAID_FUZZ)
    foreach(source ${fuzzers})
      braid_fuzzer(${name} ${source} ${arg_PRIVATE_DEPS})
    endforeach()
  endif()
  if(BRAID_TESTS AND tests)
    find_package(GTest REQUIRED)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE braid_${name} ${arg_PRIVATE_DEPS})
    foreach(source ${fuzzers})
      braid_corpus_test(${name} ${source})
    endforeach()
    braid_unit_test(${name}_test ${arg_PCH})
    add_test(NAME ${name} COMMAND ${name}_test)
    set_tests_properties(${name} PROPERTIES TIMEOUT 600)
  endif()
endfunction()

# braid_fuzzer_name(RESULT LIBRARY SOURCE): what the fuzzer in SOURCE (FOLDER/X_fuzz.cc) is called, which is LIBRARY_FOLDER_X, without a
# folder for sources that lie in the library's own.
function(braid_fuzzer_name result library source)
  file(RELATIVE_PATH path ${CMAKE_CURRENT_SOURCE_DIR} ${source})
  string(REGEX REPLACE "_fuzz\\.cc$" "" path ${path})
  string(REPLACE "/" "_" name ${library}_${path})
  set(${result} ${name} PARENT_SCOPE)
endfunction()

# braid_corpus_test(LIBRARY SOURCE): adds to LIBRARY's unit tests one that gives the fuzzer in SOURCE its first inputs (tests/corpora), changed a
# little.
function(braid_corpus_test library source)
  braid_fuzzer_name(BRAID_FUZZER ${library} ${source})
  configure_file(${CMAKE_SOURCE_DIR}/cmake/corpus_test.cc.in ${CMAKE_CURRENT_BINARY_DIR}/${BRAID_FUZZER}_corpus_test.cc @ONLY)
  target_sources(${library}_test PRIVATE ${source} ${CMAKE_CURRENT_BINARY_DIR}/${BRAID_FUZZER}_corpus_test.cc)
  set_source_files_properties(${source} PROPERTIES COMPILE_DEFINITIONS LLVMFuzzerTestOneInput=braid_fuzz_${BRAID_FUZZER})
endfunction()

# braid_fuzzer(LIBRARY SOURCE [target...]): the program that tries inputs of libFuzzer on what SOURCE reads.
function(braid_fuzzer library source)
  braid_fuzzer_name(target ${library} ${source})
  add_executable(fuzz_${target} ${source})
  set_target_properties(fuzz_${target} PROPERTIES OUTPUT_NAME ${target} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  target_link_libraries(fuzz_${target} PRIVATE braid_${library} braid_warnings ${ARGN})
  target_link_options(fuzz_${target} PRIVATE -fsanitize=fuzzer)
  if(NOT TARGET braid_fuzzers)
    add_custom_target(braid_fuzzers)
  endif()
  add_dependencies(braid_fuzzers fuzz_${target})
endfunction()

# braid_unit_test(TARGET [header...]): what all programs of unit tests have in common. They are not optimized, which halves the
# time that they take to build; `header`s are precompiled for this one.
function(braid_unit_test target)
  set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON UNITY_BUILD OFF BRAID_UNOPTIMIZED ON)
  target_link_libraries(${target} PRIVATE braid_warnings GTest::gmock GTest::gtest_main)
  target_compile_options(${target} PRIVATE -O0 -pthread)
  add_dependencies(braid_unit_tests ${target})
  if(CMAKE_DISABLE_PRECOMPILE_HEADERS)
    return()
  endif()
  target_compile_options(${target} PRIVATE -fpch-preprocess)
  target_include_directories(${target} SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/protos)
  if(ARGN)
    target_precompile_headers(${target} PRIVATE ${BRAID_TEST_PCH} ${ARGN})
    add_dependencies(${target} braid_proto_files)
    return()
  endif()
  if(NOT TARGET braid_test_headers)
    file(WRITE ${CMAKE_BINARY_DIR}/braid_test_headers.cc "")
    add_library(braid_test_headers OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/braid_test_headers.cc)
    target_link_libraries(braid_test_headers PRIVATE braid_protos braid_warnings GTest::gmock)
    set_target_properties(braid_test_headers PROPERTIES BRAID_UNOPTIMIZED ON)
    target_compile_options(braid_test_headers PRIVATE -O0 -pthread -fpch-preprocess -fPIE)  # as for a program
    target_precompile_headers(braid_test_headers PRIVATE ${BRAID_TEST_PCH})
  endif()
  target_precompile_headers(${target} REUSE_FROM braid_test_headers)
endfunction()

# braid_test_places(TARGET NAME PATH...): defines the constants NAME of base/testing/places.h for the program TARGET.
function(braid_test_places target)
  set(text "#include \"base/testing/places.h\"\n\nnamespace braid::test_places {\n")
  while(ARGN)
    list(POP_FRONT ARGN name path)
    string(APPEND text "const char* const ${name} = \"${path}\";\n")
  endwhile()
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${target}_places.cc CONTENT "${text}}  // namespace braid::test_places\n")
  target_sources(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/${target}_places.cc)
endfunction()

# braid_test_workers(NAME): the tests of folder NAME start Python workers. The variables BRAID_TEST_PYTHON and BRAID_TEST_WORKER
# name another interpreter and another worker. Called in the folder.
function(braid_test_workers name)
  if(BRAID_TESTS)
    find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter)
    braid_test_places(${name}_test kPython ${Python3_EXECUTABLE} kPythonWorker ${CMAKE_BINARY_DIR}/worker)
    if(BRAID_SANITIZER)
      # A Python that is not instrumented cannot load an extension that is: the workers are those of the ordinary build.
      set_tests_properties(${name} PROPERTIES ENVIRONMENT "BRAID_TEST_WORKER=${CMAKE_SOURCE_DIR}/build/worker")
    else()
      add_dependencies(${name}_test braid_worker_python)
    endif()
  endif()
endfunction()

# braid_test_suppressions(NAME LIBRARY): under the thread sanitizer, the tests of folder NAME run without its reports of LIBRARY
# (cmake/tsan/LIBRARY.txt), which is not built with it. Called in the folder.
function(braid_test_suppressions name library)
  if(BRAID_TESTS AND BRAID_SANITIZER STREQUAL "thread")
    set_tests_properties(${name} PROPERTIES ENVIRONMENT
                         "TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/cmake/tsan/${library}.txt")
  endif()
endfunction()

# braid_standin_gpus(TEST): the unit tests TEST find the stand-in for NVIDIA's driver, not the machine's.
function(braid_standin_gpus test)
  if(BRAID_TESTS)
    add_dependencies(${test} standin_cuda standin_nvidia-ml)
    set_target_properties(${test} PROPERTIES BUILD_RPATH ${CMAKE_BINARY_DIR}/tests/native/gpu)
    # As an RPATH, not a RUNPATH: the sanitizers call dlopen() from a library of theirs, which has no part in the program's RUNPATH.
    target_link_options(${test} PRIVATE -Wl,--disable-new-dtags)
  endif()
endfunction()
