# SPDX-License-Identifier: Apache-2.0
# sluice_costs(): what takes longest begins first (costs.txt). Called at the end of a
# folder, for its tests. Who takes several slots goes before all others: these are free at
# once at the beginning, and then only where its like ends.
function(sluice_costs)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
        ${CMAKE_SOURCE_DIR}/tests/costs.txt)
    file(STRINGS ${CMAKE_SOURCE_DIR}/tests/costs.txt rows REGEX "^[a-z]")
    foreach(row IN LISTS rows)
        string(REGEX MATCH "^([^ ]+) ([0-9]+)$" row ${row})
        set(test ${CMAKE_MATCH_1})
        set(cost ${CMAKE_MATCH_2})
        get_property(tests DIRECTORY PROPERTY TESTS)
        if(NOT test IN_LIST tests)
            continue()
        endif()
        get_test_property(${test} PROCESSORS slots)
        if(slots)
            math(EXPR cost "1000 + ${cost}")
        endif()
        set_tests_properties(${test} PROPERTIES COST ${cost})
    endforeach()
endfunction()
