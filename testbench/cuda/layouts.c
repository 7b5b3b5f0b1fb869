/* Prints the sizes of structs and where fields of theirs lie: as this project's libraries have them, or with -DNVIDIA as
 * NVIDIA's headers do, which is how layouts_11.txt (CUDA 11.8) and layouts_12.txt (CUDA 12.9) were made. */
#include <stddef.h>
#include <stdio.h>
#ifdef NVIDIA
#include <cuda.h>
#include <cuda_runtime_api.h>
typedef struct cudaDeviceProp cudaDeviceProp;
typedef struct cudaFuncAttributes cudaFuncAttributes;
typedef struct cudaPointerAttributes cudaPointerAttributes;
#else
#include "runtime_abi.h"
#endif
#if RUNTIME_MAJOR >= 12 && !defined NVIDIA
#define SIZE_OF_PROPERTIES printf("cudaDeviceProp %zu\n", sizeof(cudaDeviceProp_v12));
#else
#define SIZE_OF_PROPERTIES SIZE(cudaDeviceProp)
#endif

#define SIZE(STRUCT) printf(#STRUCT " %zu\n", sizeof(STRUCT));
#define AT(STRUCT, FIELD) printf(#STRUCT "." #FIELD " %zu\n", offsetof(STRUCT, FIELD));

int main(void) {
    SIZE(CUuuid) SIZE(CUipcMemHandle) SIZE(CUdevprop) AT(CUdevprop, textureAlign)
    SIZE(CUlaunchConfig) AT(CUlaunchConfig, hStream) AT(CUlaunchConfig, attrs) AT(CUlaunchConfig, numAttrs)
    SIZE(CUDA_MEMCPY2D) AT(CUDA_MEMCPY2D, srcPitch) AT(CUDA_MEMCPY2D, dstPitch) AT(CUDA_MEMCPY2D, Height)
    SIZE(CUDA_MEMCPY3D) AT(CUDA_MEMCPY3D, srcHeight) AT(CUDA_MEMCPY3D, dstHeight) AT(CUDA_MEMCPY3D, Depth)
    AT(CUDA_KERNEL_NODE_PARAMS, kernelParams) AT(CUDA_KERNEL_NODE_PARAMS, extra)
    SIZE(CUDA_MEMSET_NODE_PARAMS) AT(CUDA_MEMSET_NODE_PARAMS, elementSize) AT(CUDA_MEMSET_NODE_PARAMS, height)
    SIZE(CUDA_HOST_NODE_PARAMS)
    SIZE(cudaFuncAttributes) AT(cudaFuncAttributes, numRegs) AT(cudaFuncAttributes, maxDynamicSharedSizeBytes)
    SIZE(cudaPointerAttributes) AT(cudaPointerAttributes, hostPointer)
    SIZE_OF_PROPERTIES
    AT(cudaDeviceProp, uuid) AT(cudaDeviceProp, totalGlobalMem) AT(cudaDeviceProp, clockRate)
    AT(cudaDeviceProp, computeMode) AT(cudaDeviceProp, surfaceAlignment) AT(cudaDeviceProp, l2CacheSize)
    AT(cudaDeviceProp, sharedMemPerMultiprocessor) AT(cudaDeviceProp, sharedMemPerBlockOptin)
    AT(cudaDeviceProp, maxBlocksPerMultiProcessor) AT(cudaDeviceProp, reservedSharedMemPerBlock)
    return 0;
}
