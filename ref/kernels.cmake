# ref/kernel.c is compiled once for each instruction set and chosen at start by what the CPU has. All variants
# give the same bits: the lanes and the order of summation are in the source, every step is a fused multiply-add.
set(ref_kernels)
function(add_ref_kernel name)
  add_library(assay_kernel_${name} OBJECT ref/kernel.c)
  target_link_libraries(assay_kernel_${name} PRIVATE assay_flags)
  target_compile_definitions(assay_kernel_${name} PRIVATE KERNEL=kernel_${name})
  target_compile_options(assay_kernel_${name} PRIVATE -O3 -Wno-psabi ${ARGN})
  set(ref_kernels ${ref_kernels} assay_kernel_${name} PARENT_SCOPE)
endfunction()

add_ref_kernel(portable)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(prefer_512)
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    set(prefer_512 -mprefer-vector-width=512)
  endif()
  add_ref_kernel(avx2 -mavx2 -mfma -DKERNEL_VECTOR=32 -DKERNEL_ROWS=3 -DKERNEL_OUTS=2)
  add_ref_kernel(avx512 -mavx512f -mavx512dq -mavx512bw -mavx512vl -mfma -DKERNEL_VECTOR=64 -DKERNEL_ROWS=6
    -DKERNEL_OUTS=4 ${prefer_512})
endif()
