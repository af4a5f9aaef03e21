# How a folder becomes a target: one library a folder, named after it, which sees only the folders that it names. Its unit
# tests (*_test.cc, beside the code) become one test program.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # A precompiled header changes its time stamp with each build of it; these let ccache look past that.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
endif()

find_package(Threads REQUIRED)

add_library(braid_options INTERFACE)
target_include_directories(braid_options INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
target_link_libraries(braid_options INTERFACE Threads::Threads)
if(BRAID_SANITIZER STREQUAL "address")
  target_compile_options(braid_options INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_link_options(braid_options INTERFACE -fsanitize=address,undefined)
elseif(BRAID_SANITIZER STREQUAL "thread")
  target_compile_options(braid_options INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(braid_options INTERFACE -fsanitize=thread)
  # The thread sanitizer does not know fences. Asio's order nothing here: its queues have mutexes.
  target_compile_definitions(braid_options INTERFACE BOOST_ASIO_DISABLE_FENCED_BLOCK)
elseif(BRAID_SANITIZER)
  message(FATAL_ERROR "BRAID_SANITIZER must be address, thread or empty, not '${BRAID_SANITIZER}'")
endif()

# Warnings are errors in our code, not in what protoc writes.
add_library(braid_warnings INTERFACE)
target_compile_options(braid_warnings INTERFACE -Wall -Wextra -Werror -Wnon-virtual-dtor -Woverloaded-virtual
                       $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>)
if(BRAID_SANITIZER)
  # With the sanitizers' code in between, g++ takes what lies behind an optional or a variant for uninitialized.
  target_compile_options(braid_warnings INTERFACE -Wno-maybe-uninitialized)
endif()

# braid_library(NAME [DEPS target...] [PRIVATE_DEPS target...] [PCH header...] [SUBFOLDERS folder...] [ALONE source...])
# Builds every .cc of the current folder (tests and benchmarks apart) into library braid_NAME. A unity build compiles the sources
# together, but for those of ALONE, whose unnamed namespaces have names that others have too.
function(braid_library name)
  cmake_parse_arguments(arg "" "" "DEPS;PRIVATE_DEPS;PCH;SUBFOLDERS;ALONE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cc)
  foreach(folder ${arg_SUBFOLDERS})
    file(GLOB more CONFIGURE_DEPENDS ${folder}/*.cc)
    list(APPEND sources ${more})
  endforeach()
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "(_test|_bench|_fuzz|/main)\\.cc$")
  if(sources)
    add_library(braid_${name} STATIC ${sources})
    set_source_files_properties(${arg_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    target_link_libraries(braid_${name} PUBLIC braid_options ${arg_DEPS} PRIVATE braid_warnings ${arg_PRIVATE_DEPS})
    if(arg_PCH AND NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
      target_precompile_headers(braid_${name} PRIVATE ${arg_PCH})
      target_compile_options(braid_${name} PRIVATE -fpch-preprocess)
    endif()
  else()
    add_library(braid_${name} INTERFACE)
    target_link_libraries(braid_${name} INTERFACE braid_options ${arg_DEPS})
  endif()
  if(BRAID_TESTS AND tests)
    find_package(GTest REQUIRED)
    add_executable(${name}_test ${tests})
    set_target_properties(${name}_test PROPERTIES UNITY_BUILD OFF)
    target_link_libraries(${name}_test PRIVATE braid_${name} braid_warnings ${arg_PRIVATE_DEPS} GTest::gmock GTest::gtest_main)
    if(arg_PCH AND NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
      target_precompile_headers(${name}_test PRIVATE ${arg_PCH})
      target_compile_options(${name}_test PRIVATE -fpch-preprocess)
    endif()
    add_test(NAME ${name} COMMAND ${name}_test)
    set_tests_properties(${name} PROPERTIES TIMEOUT 600)
  endif()
endfunction()

# braid_test_uses_grpc(NAME): under the thread sanitizer, the tests of folder NAME run without its reports of gRPC. Called in
# the folder.
function(braid_test_uses_grpc name)
  if(BRAID_TESTS AND BRAID_SANITIZER STREQUAL "thread")
    set_tests_properties(${name} PROPERTIES ENVIRONMENT
                         "TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/cmake/tsan-suppressions.txt")
  endif()
endfunction()
