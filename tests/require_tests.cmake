# Runs one test program and fails unless it passed at least one test. cmocka exits 0 when every test was skipped or
# when there was none, and ctest believes it. Called with -DPROGRAM=... by the tests that tests/CMakeLists.txt adds.
set(ENV{CMOCKA_MESSAGE_OUTPUT} STDOUT)
execute_process(COMMAND ${PROGRAM} RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE err
                ECHO_OUTPUT_VARIABLE ECHO_ERROR_VARIABLE)
string(APPEND out "${err}") # cmocka splits its report over both
if(NOT status STREQUAL "0")
  message(FATAL_ERROR "${PROGRAM} ended with ${status}")
endif()
if(NOT out MATCHES "\\[  PASSED  \\] [1-9][0-9]* test")
  message(FATAL_ERROR "${PROGRAM} passed no test: nothing ran, or all was skipped")
endif()
if(out MATCHES "\\[==========\\] 0 test" OR out MATCHES "\\[  PASSED  \\] 0 test")
  message(FATAL_ERROR "${PROGRAM} has a group of tests in which nothing passed")
endif()
