# SPDX-License-Identifier: Apache-2.0
# cmake -DIN=file -DOUT=file.c -DNAME=symbol -DHEADER=path -P embed.cmake: bytes
# as a C array, with a 0 behind them. IN may be empty: no bytes.
set(hex "")
if(NOT IN STREQUAL "")
    file(READ ${IN} hex HEX)
endif()
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
file(WRITE ${OUT}
    "#include \"${HEADER}\"\n"
    "const unsigned char ${NAME}[] = {${bytes}0};\n"
    "const size_t ${NAME}_len = sizeof(${NAME}) - 1;\n")
