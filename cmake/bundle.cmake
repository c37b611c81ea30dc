# SPDX-License-Identifier: Apache-2.0
# gpu-bundle: what bench/gpu needs on a host with a GPU, as one archive
# (bench/bundle.py says what is in it).
#
# In a bundle the programs find the libraries that were copied beside them.
# DT_RPATH, not DT_RUNPATH: it also counts for what those libraries need in
# turn. Not by BUILD_RPATH: CMake ends that with a colon, which stands for the
# current folder. An installed program has it too, and no such folder.
set(bundled coordinator psserver worker sluice kernels-conformance
    bench.gpu_step)
set(bundle_needs)
foreach(program IN LISTS bundled)
    if(NOT TARGET ${program})
        list(APPEND bundle_lacks ${program})
        continue()
    endif()
    set_target_properties(${program} PROPERTIES
        BUILD_WITH_INSTALL_RPATH ON
        INSTALL_RPATH_USE_LINK_PATH ON
        INSTALL_RPATH "$ORIGIN/../lib/sluice/bundled")
    target_link_options(${program} PRIVATE -Wl,--disable-new-dtags)
    list(APPEND bundle_needs ${program})
endforeach()
if(TARGET sluice-kernels-cuda)
    list(APPEND bundle_needs sluice-kernels-cuda)
endif()
if(bundle_lacks)
    string(JOIN " " bundle_lacks ${bundle_lacks})
    message(STATUS "no target gpu-bundle: this build leaves out ${bundle_lacks}")
    return()
endif()
add_custom_target(gpu-bundle
    COMMAND python3 ${CMAKE_SOURCE_DIR}/bench/bundle.py
        --build ${CMAKE_BINARY_DIR}
    DEPENDS ${bundle_needs}
    COMMENT "Packing ${CMAKE_BINARY_DIR}/sluice-gpu-bundle.tar.gz"
    VERBATIM)

# On a GPU, everything that kernels-conformance can ask of it, from a bundle.
# Elsewhere skipped.
if(SLUICE_TESTS)
    add_test(NAME gpu.conform COMMAND python3 ${CMAKE_SOURCE_DIR}/bench/gpu
        --build ${CMAKE_BINARY_DIR} --json ${CMAKE_BINARY_DIR}/gpu-conform.json
        conform)
    set_tests_properties(gpu.conform PROPERTIES
        TIMEOUT 700 SKIP_RETURN_CODE 77 LABELS gpu RUN_SERIAL ON)
endif()
