# OpenVINO's C++ runtime, from its wheel in the project's Python environment (requirements/build.txt). OpenVINO_DIR names another
# installation.
if(NOT OpenVINO_DIR)
  file(GLOB OpenVINO_DIR ${CMAKE_SOURCE_DIR}/.venv/lib/python3.*/site-packages/openvino/cmake)
endif()
find_package(OpenVINO CONFIG QUIET COMPONENTS Runtime)
if(NOT OpenVINO_FOUND)
  message(FATAL_ERROR "OpenVINO is missing: run scripts/python-env build, or set OpenVINO_DIR to the folder of OpenVINOConfig.cmake")
endif()
# Its headers are not ours to warn about.
get_target_property(openvino_includes openvino::runtime INTERFACE_INCLUDE_DIRECTORIES)
set_target_properties(openvino::runtime PROPERTIES INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${openvino_includes}")

# Where its libraries lie, as a program in the build folder finds them: relative within the project, so that the program does not
# depend on where the project lies.
get_target_property(OPENVINO_RUNPATH openvino::runtime LOCATION)
get_filename_component(OPENVINO_RUNPATH ${OPENVINO_RUNPATH} DIRECTORY)
cmake_path(IS_PREFIX CMAKE_SOURCE_DIR ${OPENVINO_RUNPATH} openvino_is_inside)
if(openvino_is_inside)
  cmake_path(RELATIVE_PATH OPENVINO_RUNPATH BASE_DIRECTORY ${CMAKE_BINARY_DIR})
  set(OPENVINO_RUNPATH "$ORIGIN/${OPENVINO_RUNPATH}")
endif()
