# SPDX-License-Identifier: Apache-2.0
# Manual pages and completions, as the programs print them, where a system looks
# for them. A build for another machine cannot run its programs and has none;
# one with sanitizers is not installed.
if(CMAKE_CROSSCOMPILING OR SLUICE_SANITIZE OR NOT TARGET coordinator OR NOT TARGET psserver
        OR NOT TARGET worker OR NOT TARGET sluice)
    return()
endif()

set(pages ${CMAKE_BINARY_DIR}/pages)
add_custom_command(OUTPUT ${pages}/man1/sluice.1
    COMMAND ${CMAKE_SOURCE_DIR}/tools/pages $<TARGET_FILE_DIR:sluice> ${pages}
    DEPENDS coordinator psserver worker sluice ${CMAKE_SOURCE_DIR}/tools/pages
    COMMENT "Printing manual pages and completions" VERBATIM)
add_custom_target(pages ALL DEPENDS ${pages}/man1/sluice.1)

include(GNUInstallDirs)
install(DIRECTORY ${pages}/man1 ${pages}/man8
    DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT programs
    FILES_MATCHING PATTERN "sluice*")
install(FILES ${pages}/completions/sluice.bash RENAME sluice
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
    COMPONENT programs)
install(FILES ${pages}/completions/_sluice
    DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions
    COMPONENT programs)
install(FILES ${pages}/completions/sluice.fish
    DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
    COMPONENT programs)
