# SPDX-License-Identifier: Apache-2.0
# cmake -DIN=file -DOUT=file.c -DNAME=symbol -P embed.cmake: bytes as a C array.
file(READ ${IN} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
file(WRITE ${OUT}
    "#include \"proto/descriptor_set.h\"\n"
    "const unsigned char ${NAME}[] = {${bytes}};\n"
    "const size_t ${NAME}_len = sizeof(${NAME});\n")
