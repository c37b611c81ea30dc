# SPDX-License-Identifier: Apache-2.0
# sluice-kernels-cuda.so: everything that needs NVIDIA's libraries.
#
# SLUICE_CUDA_RPATH  where the module looks for those libraries besides the
#                    system's folders; default: where they lie here
find_path(SLUICE_CUDNN_INCLUDE cudnn_graph.h
    HINTS ${SLUICE_CUDA_INCLUDE} PATHS /usr/local/cuda/include)
foreach(name cudart cublasLt cudnn_graph)
    find_library(SLUICE_LIB_${name} ${name}
        HINTS ${nvcc_folder}/../lib64 ${nvcc_folder}/../lib
        PATHS /usr/local/cuda/lib64)
    if(NOT SLUICE_LIB_${name})
        message(STATUS "CUDA: lib${name} is missing, so no module "
            "sluice-kernels-cuda; our kernels are checked all the same")
        return()
    endif()
    list(APPEND vendor_libraries ${SLUICE_LIB_${name}})
    get_filename_component(folder ${SLUICE_LIB_${name}} DIRECTORY)
    list(APPEND vendor_folders ${folder})
endforeach()
if(NOT SLUICE_CUDNN_INCLUDE)
    message(STATUS "CUDA: cudnn_graph.h is missing, so no module "
        "sluice-kernels-cuda; our kernels are checked all the same")
    return()
endif()
list(REMOVE_DUPLICATES vendor_folders)
set(SLUICE_CUDA_RPATH "${vendor_folders}" CACHE STRING
    "folders where the CUDA module finds NVIDIA's libraries")

# cuDNN's graph API alone: also for the check of our graphs without a GPU.
add_library(sluice_cudnn STATIC
    cudnn_graph.c
    cudnn_choose.c
    cudnn_pick.c
    cudnn_plan.c
    conv_graph.c
)
set_target_properties(sluice_cudnn PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_compile_definitions(sluice_cudnn PRIVATE CUDNN_WARN_DEPRECATED)
target_include_directories(sluice_cudnn SYSTEM PUBLIC
    ${SLUICE_CUDA_INCLUDE} ${SLUICE_CUDNN_INCLUDE})
target_link_libraries(sluice_cudnn PUBLIC sluice_kernels
    ${SLUICE_LIB_cudnn_graph})

# Products: also for unit tests, which have no device.
add_library(sluice_cuda_vendor STATIC
    vendor.c
    gemm.c
    conv.c
    tune.c
    judge.c
    ../plans.c
)
set_target_properties(sluice_cuda_vendor PROPERTIES
    POSITION_INDEPENDENT_CODE ON)
target_link_libraries(sluice_cuda_vendor PUBLIC sluice_cudnn
    sluice_kernels_cuda sluice_cuda_fatbin ${vendor_libraries})

# Several GPUs of one process: NCCL's header declares what is loaded later.
find_path(SLUICE_NCCL_INCLUDE nccl.h
    HINTS ${SLUICE_CUDA_INCLUDE} PATHS /usr/local/cuda/include)
if(SLUICE_NCCL_INCLUDE)
    set(nccl nccl.c nccl_load.c)
else()
    set(nccl nccl_none.c)
    message(STATUS "CUDA: nccl.h is missing, so GPUs of one worker swap by "
        "copies")
endif()

# The module has its own copy of what is pure; memory and log are the
# program's (hostside.c), so it links none of our libraries.
set(pure common/base/status.c common/base/buf.c common/base/clock.c
    common/base/rng.c kernels/desc.c kernels/desc_text.c kernels/check.c
    kernels/prove/answer.c
    plan/optimizer.c kernels/optim.c)
list(TRANSFORM pure PREPEND ${CMAKE_SOURCE_DIR}/)
add_library(sluice-kernels-cuda MODULE
    cuda_module.c
    hostside.c
    ${nccl}
    ${pure}
    $<TARGET_OBJECTS:sluice_kernels_cuda>
    $<TARGET_OBJECTS:sluice_cuda_fatbin>
    $<TARGET_OBJECTS:sluice_cudnn>
    $<TARGET_OBJECTS:sluice_cuda_vendor>
)
target_include_directories(sluice-kernels-cuda SYSTEM PRIVATE
    ${SLUICE_CUDA_INCLUDE} ${SLUICE_CUDNN_INCLUDE}
    $<$<BOOL:${SLUICE_NCCL_INCLUDE}>:${SLUICE_NCCL_INCLUDE}>)
target_link_libraries(sluice-kernels-cuda PRIVATE ${vendor_libraries} m)
# Of the optimizers only the questions about them are wanted, not the loops.
target_compile_options(sluice-kernels-cuda PRIVATE -ffunction-sections)
target_link_options(sluice-kernels-cuda PRIVATE -Wl,-z,defs -Wl,--gc-sections)
set_target_properties(sluice-kernels-cuda PROPERTIES
    PREFIX ""
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/sluice/kernels
    BUILD_WITH_INSTALL_RPATH ON
    INSTALL_RPATH "${SLUICE_CUDA_RPATH}")
install(TARGETS sluice-kernels-cuda
    LIBRARY DESTINATION lib/sluice/kernels)
