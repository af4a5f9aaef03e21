// The contents of the files in the folder envoy/; CMakeLists.txt compiles them into the program.
#pragma once

namespace braid::fleet {

extern const char* const templates_json;
extern const char* const mark_refused_lua;
extern const char* const unmark_refused_lua;
extern const char* const lift_sequence_id_lua;

}  // namespace braid::fleet
