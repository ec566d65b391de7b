# What `assay --version` says. The fixed facts are definitions of one source; the commit is written by this file, run as
# a script at every build, into a source that changes only when the commit does.
if(CMAKE_SCRIPT_MODE_FILE)
  set(commit unknown)
  set(day "")
  execute_process(COMMAND git describe --always --dirty --abbrev=12 --exclude=* WORKING_DIRECTORY ${SOURCE}
    OUTPUT_VARIABLE found RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(status EQUAL 0 AND EXISTS ${SOURCE}/.git)
    set(commit ${found})
    execute_process(COMMAND git log -1 --format=%cs WORKING_DIRECTORY ${SOURCE}
      OUTPUT_VARIABLE day OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  file(CONFIGURE OUTPUT ${OUT} CONTENT [[#include "harness/build_facts.h"

const char build_commit[] = "@commit@";
const char build_commit_date[] = "@day@";
]] @ONLY)
  return()
endif()

set(assay_commit ${PROJECT_BINARY_DIR}/generated/build_commit.c)
add_custom_target(assay_commit BYPRODUCTS ${assay_commit}
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUT=${assay_commit} -P ${CMAKE_CURRENT_LIST_FILE})
target_sources(assay_harness PRIVATE ${assay_commit})
add_dependencies(assay_harness assay_commit)

string(TOUPPER "${CMAKE_BUILD_TYPE}" assay_type)
string(STRIP "${CMAKE_C_FLAGS} ${CMAKE_C_FLAGS_${assay_type}}" assay_build_flags)
if(ASSAY_COVERAGE)
  string(APPEND assay_build_flags " --coverage")
endif()
list(TRANSFORM ref_kernels REPLACE "^assay_kernel_" "" OUTPUT_VARIABLE assay_kernels)
list(JOIN assay_kernels ", " assay_kernels)
# Why there is no CUDA path is said here too, unless the reason is a path of this machine.
string(REPLACE ";" ", " assay_cuda_about "${gpu_summary}")
if(assay_cuda_about MATCHES "/")
  set(assay_cuda_about "no")
endif()
set_source_files_properties(harness/build_facts.c PROPERTIES COMPILE_DEFINITIONS
  "BUILD_COMPILER=\"${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION}\";BUILD_TYPE=\"${CMAKE_BUILD_TYPE}\";BUILD_FLAGS=\"${assay_build_flags}\";BUILD_SANITIZE=\"${ASSAY_SANITIZE}\";BUILD_CUDA=$<BOOL:${ASSAY_HAS_CUDA}>;BUILD_CUDA_ABOUT=\"${assay_cuda_about}\";BUILD_ARCHITECTURES=\"${gpu_architectures}\";BUILD_KERNELS=\"${assay_kernels}\"")
