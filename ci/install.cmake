# cmake --install and cpack: bin/assay, libassay.a, libassay.so, headers, a CMake package, assay.pc, manual pages, docs,
# schemas, contracts, maps, and the small checkpoint that the tutorial runs on. Everything finds its own prefix, so an
# installed tree may be moved. Headers include each other as "core/x.h": the include folder is PREFIX/include/assay.
# Test: ci/test_install.sh
include(CMakePackageConfigHelpers)

set(assay_all_objects)
foreach(part ${assay_objects})
  list(APPEND assay_all_objects $<TARGET_OBJECTS:${part}>)
endforeach()

foreach(kind STATIC SHARED)
  string(TOLOWER assay_${kind} library)
  add_library(${library} ${kind} ${assay_all_objects})
  set_target_properties(${library} PROPERTIES OUTPUT_NAME assay)
  target_link_libraries(${library} PRIVATE assay_flags ${assay_libraries})
endforeach()
# The interface is not frozen before 1.0: a minor version is a soname of its own.
set_target_properties(assay_shared PROPERTIES VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

install(TARGETS assay assay_static assay_shared
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS assay_faults LIBRARY DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/assay)
# The extractor of `assay contract` and what `assay guard` puts into Pythons: looked for in ../share/assay/python from the program, here as in the build folder.
install(DIRECTORY compat/python/ DESTINATION ${CMAKE_INSTALL_DATADIR}/assay/python FILES_MATCHING PATTERN "*.py" PATTERN "*.json")
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/share/assay)
foreach(folder python api maps)
  if(EXISTS ${PROJECT_SOURCE_DIR}/compat/${folder})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/compat/${folder} ${PROJECT_BINARY_DIR}/share/assay/${folder} SYMBOLIC)
  endif()
endforeach()
install(DIRECTORY core/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/assay/core FILES_MATCHING PATTERN "*.h")
if(EXISTS ${PROJECT_SOURCE_DIR}/harness/assay.h)
  install(FILES harness/assay.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/assay)
endif()

# The manual pages are made by the program itself. An instrumented one is not run while it is built.
if(NOT ASSAY_SANITIZE AND NOT ASSAY_COVERAGE AND NOT ASSAY_FUZZ AND NOT CMAKE_CROSSCOMPILING)
  set(assay_man ${PROJECT_BINARY_DIR}/share/man/man1)
  add_custom_command(TARGET assay POST_BUILD COMMAND ${CMAKE_COMMAND} -E rm -rf ${assay_man}
    COMMAND assay help --man ${assay_man} > ${PROJECT_BINARY_DIR}/man.log)
  install(DIRECTORY ${assay_man}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
install(FILES README.md CHANGELOG.md CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs PATTERN schema EXCLUDE)
install(DIRECTORY docs/schema compat/api compat/ops DESTINATION ${CMAKE_INSTALL_DATADIR}/assay)
install(DIRECTORY compat/maps DESTINATION ${CMAKE_INSTALL_DATADIR}/assay OPTIONAL)
install(DIRECTORY fixtures/tiny-k25 fixtures/eagle-trained DESTINATION ${CMAKE_INSTALL_DATADIR}/assay/fixtures)
install(FILES fixtures/bugs/nibble.safetensors fixtures/bugs/clean.safetensors fixtures/bugs/tp_lost.safetensors
  DESTINATION ${CMAKE_INSTALL_DATADIR}/assay/fixtures/bugs)
install(FILES fixtures/plans/tiny-k25.yaml DESTINATION ${CMAKE_INSTALL_DATADIR}/assay/fixtures/plans)

set(CPACK_GENERATOR TGZ)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "does a fast inference path compute what the model says?")
set(CPACK_PACKAGE_FILE_NAME assay-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
include(CPack)

set(assay_package ${CMAKE_INSTALL_LIBDIR}/cmake/assay)
set(assay_include ${CMAKE_INSTALL_INCLUDEDIR}/assay)
list(JOIN LIBFYAML_LDFLAGS " " fyaml_flags)
list(JOIN CRYPTO_LDFLAGS " " crypto_flags)
list(JOIN LIBZIP_LDFLAGS " " zip_flags)
set(assay_pc_private "${fyaml_flags} ${crypto_flags} ${zip_flags} -lpthread -lm -ldl")
if(ASSAY_HAS_CUDA)
  find_library(ASSAY_CUDART cudart_static HINTS ${CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES} REQUIRED)
  cmake_path(GET ASSAY_CUDART PARENT_PATH cudart_folder)
  string(PREPEND assay_pc_private "-L${cudart_folder} -lcudart_static -lrt -lstdc++ ")
endif()
file(RELATIVE_PATH assay_pc_up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" assay_pc_up ${assay_pc_up})

configure_package_config_file(ci/assayConfig.cmake.in ${PROJECT_BINARY_DIR}/install/assayConfig.cmake
  INSTALL_DESTINATION ${assay_package} PATH_VARS CMAKE_INSTALL_LIBDIR assay_include)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/install/assayConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
configure_file(ci/assay.pc.in ${PROJECT_BINARY_DIR}/install/assay.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/install/assayConfig.cmake ${PROJECT_BINARY_DIR}/install/assayConfigVersion.cmake
  DESTINATION ${assay_package})
install(FILES ${PROJECT_BINARY_DIR}/install/assay.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(ASSAY_TESTS AND NOT ASSAY_SANITIZE AND NOT ASSAY_COVERAGE)
  enable_testing()
  add_test(NAME install COMMAND ${PROJECT_SOURCE_DIR}/ci/test_install.sh ${PROJECT_BINARY_DIR})
  set_tests_properties(install PROPERTIES TIMEOUT 600 LABELS "install;cpu")
  add_test(NAME docs COMMAND ${PROJECT_SOURCE_DIR}/ci/docs.sh $<TARGET_FILE:assay>)
  set_tests_properties(docs PROPERTIES TIMEOUT 600 LABELS "docs;cpu")
endif()
