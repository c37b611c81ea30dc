# SPDX-License-Identifier: Apache-2.0
# Flags and the few functions that the folders' build files use.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

add_compile_options(-Wall -Wextra -Wshadow -Wstrict-prototypes
    -Wmissing-prototypes -Wvla -Wno-unused-parameter -Werror
    -fno-math-errno -fvisibility=hidden -fno-omit-frame-pointer)
add_compile_definitions(_GNU_SOURCE SLUICE_VERSION="${PROJECT_VERSION}")
include_directories(${CMAKE_SOURCE_DIR})

# clang says so where a sanitizer keeps it from vectorising a loop.
if(CMAKE_C_COMPILER_ID MATCHES Clang)
    add_compile_options(-Wno-pass-failed)
endif()

# Assertions stay on: a daemon that finds itself wrong must not go on.
foreach(kind RELEASE RELWITHDEBINFO MINSIZEREL)
    string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_${kind}
        "${CMAKE_C_FLAGS_${kind}}")
endforeach()
if(SLUICE_TESTING)
    add_compile_definitions(SLUICE_FAULTS SLUICE_HISTORY)
endif()

if(SLUICE_SANITIZE STREQUAL "address")
    add_compile_options(-fsanitize=address,undefined
        -fno-sanitize-recover=undefined)
    add_link_options(-fsanitize=address,undefined)
elseif(SLUICE_SANITIZE STREQUAL "thread")
    add_compile_options(-fsanitize=thread)
    add_link_options(-fsanitize=thread)
elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
    add_compile_options(-D_FORTIFY_SOURCE=2 -fstack-protector-strong
        -fstack-clash-protection)
    add_link_options(-Wl,-z,relro,-z,now)
endif()

# What a sanitizer looks for does not need -O2, except where much is computed
# (sluice_computes); its reports want lines (-g1), not variables, which take a
# quarter of the compiler's time. gold links its large objects in a third of it.
if(SLUICE_SANITIZE)
    add_compile_options("$<$<CONFIG:RelWithDebInfo>:-O1;-g1>")
    find_program(SLUICE_GOLD ld.gold)
    if(SLUICE_GOLD)
        add_link_options(-fuse-ld=gold)
    endif()
endif()

# For a folder whose tests compute for minutes.
macro(sluice_computes)
    if(SLUICE_SANITIZE)
        add_compile_options($<$<CONFIG:RelWithDebInfo>:-O2>)
    endif()
endmacro()

# Puts copies that can make deliberate mistakes in the place of sources, with
# SLUICE_TESTING; else nothing changes. See tests/mutants/README.md.
function(sluice_mutated list)
    set(sources)
    foreach(source IN LISTS ${list})
        get_filename_component(path ${source} ABSOLUTE)
        file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${path})
        if(DEFINED SLUICE_MUTANTS_OF_${path})
            set(copy ${CMAKE_CURRENT_BINARY_DIR}/mutants/${path})
            add_custom_command(
                OUTPUT ${copy}
                COMMAND python3 ${SLUICE_MUTANTS}/apply.py ${path} ${copy}
                DEPENDS ${CMAKE_SOURCE_DIR}/${path} ${SLUICE_MUTANTS}/apply.py
                    ${SLUICE_MUTANTS_OF_${path}}
                COMMENT "mutants of ${path}"
                VERBATIM)
            set(source ${copy})
        endif()
        list(APPEND sources ${source})
    endforeach()
    set(${list} ${sources} PARENT_SCOPE)
endfunction()

# sluice_long(TARGET...): programs that only tests with the label `long` need.
function(sluice_long)
    set_property(GLOBAL APPEND PROPERTY SLUICE_LONG ${ARGN})
endfunction()

# Makes the target core-tests: every program and library but those, which is what
# ./run-tests builds. The default target has all of them.
function(sluice_core_tests)
    get_property(long GLOBAL PROPERTY SLUICE_LONG)
    set(folders ${CMAKE_SOURCE_DIR})
    add_custom_target(core-tests)
    while(folders)
        list(POP_FRONT folders folder)
        get_property(below DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
        list(APPEND folders ${below})
        get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
        foreach(target IN LISTS targets)
            get_target_property(kind ${target} TYPE)
            if(kind MATCHES "EXECUTABLE|SHARED|MODULE" AND NOT target IN_LIST long)
                add_dependencies(core-tests ${target})
            endif()
        endforeach()
    endwhile()
endfunction()

# A room's library: common/ becomes sluice_common. The builds that only test compile
# twelve files of a room at once, in half of the time, without the warnings that other
# builds have: a function, type or table of one file must have no namesake in the room.
# PLAIN: not this room, in which tests put their files in the place of some, or whose
# backends mirror each other. ALONE: files of which a test replaces or wraps a function.
function(sluice_room name)
    cmake_parse_arguments(ROOM "PLAIN" "" "SOURCES;ALONE;LINK" ${ARGN})
    sluice_mutated(ROOM_SOURCES)
    sluice_mutated(ROOM_ALONE)
    add_library(sluice_${name} STATIC ${ROOM_SOURCES} ${ROOM_ALONE})
    if((SLUICE_SANITIZE OR SLUICE_TESTING) AND NOT ROOM_PLAIN)
        set_target_properties(sluice_${name} PROPERTIES
            UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
        set_source_files_properties(${ROOM_ALONE} PROPERTIES
            SKIP_UNITY_BUILD_INCLUSION ON)
        target_compile_options(sluice_${name} PRIVATE -w)
    endif()
    target_link_libraries(sluice_${name} PUBLIC ${ROOM_LINK} Threads::Threads
        ${SLUICE_MUTANTS_LIBRARY})
endfunction()

# How long a unit test may take, in seconds. Those of the sanitizers are slow, and
# give way to clusters (./run-tests).
set(SLUICE_UNIT_S 120)
if(SLUICE_SANITIZE)
    set(SLUICE_UNIT_S 900)
endif()

# One test per file: tests/unit/psserver/shard_test.c becomes
# unit.psserver.shard. All files of a room are one program, unit.psserver, which
# is linked once. bin/unit.psserver.shard is a link to it: under this name it
# runs the tests of shard_test.c (tests/harness/t_main.c). `dir` is the room. The
# build of the thread sanitizer has only those that with_threads names; a test that
# is not among them must make no thread (T_THREADS).
function(sluice_test area dir)
    set(program ${area}.${dir})
    file(MAKE_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}) # for the links
    set(sources ${ARGN})
    if(SLUICE_SANITIZE STREQUAL "thread")
        list(TRANSFORM with_threads APPEND _test.c OUTPUT_VARIABLE threaded)
        set(sources)
        foreach(source IN LISTS ARGN)
            if(source IN_LIST threaded)
                list(APPEND sources ${source})
            endif()
        endforeach()
    endif()
    if(sources AND NOT TARGET ${program})
        add_executable(${program})
        target_link_libraries(${program} PRIVATE sluice_harness sluice_${dir})
        # A test runs once: -O3 takes the compiler half as long again.
        target_compile_options(${program} PRIVATE $<$<CONFIG:Release>:-O1>)
    endif()
    foreach(source IN LISTS sources)
        get_filename_component(name ${source} NAME_WE)
        string(REGEX REPLACE "_test$" "" name ${name})
        set(test ${program}.${name})
        target_sources(${program} PRIVATE ${source})
        file(CREATE_LINK ${program} ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${test}
            SYMBOLIC)
        add_custom_target(${test} DEPENDS ${program})
        add_test(NAME ${test} COMMAND ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${test})
        set_tests_properties(${test} PROPERTIES
            TIMEOUT ${SLUICE_UNIT_S} SKIP_RETURN_CODE 77 LABELS ${area})
        if(name IN_LIST with_threads)
            set_property(TEST ${test} APPEND PROPERTY LABELS threads)
        else()
            set_property(TEST ${test} PROPERTY ENVIRONMENT T_THREADS=0)
        endif()
    endforeach()
endfunction()

# A test that is a program of its own: it links what the others of its room must
# not, or is compiled in another way. The caller adds that.
function(sluice_test_alone area dir source)
    get_filename_component(name ${source} NAME_WE)
    string(REGEX REPLACE "_test$" "" name ${name})
    set(test ${area}.${dir}.${name})
    add_executable(${test} ${source})
    target_link_libraries(${test} PRIVATE sluice_harness sluice_${dir})
    add_test(NAME ${test} COMMAND ${test})
    set_tests_properties(${test} PROPERTIES
        TIMEOUT ${SLUICE_UNIT_S} SKIP_RETURN_CODE 77 LABELS ${area})
endfunction()
