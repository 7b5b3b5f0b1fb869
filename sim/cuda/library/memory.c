/* Memory. The device's memory is mapped in this process at the device's own addresses, so a copy is a memcpy, and
 * pinned, mapped and managed memory is device memory whose address the program uses directly. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "connection.h"
#include "context.h"
#include "objects.h"

static void *pointer(CUdeviceptr address) {
    return (void *)(uintptr_t)address;
}

static CUdeviceptr address_of(const void *place) {
    return (CUdeviceptr)(uintptr_t)place;
}

static const char NO_DEVICE_ADDRESS[] = "%p is no address of the device";

static CUresult allocate(const char *function, CUdeviceptr *address, size_t bytes, uint32_t kind) {
    CUresult state = ready_for(function);
    if (state != CUDA_SUCCESS)
        return state;
    if (!address || !bytes)
        return refused(CUDA_ERROR_INVALID_VALUE, function, address ? "0 bytes" : "the place for the address is NULL");
    struct allocate_request request = {bytes, kind};
    struct allocate_reply reply;
    CUresult result = SIMPLE_CALL(CALL_ALLOCATE, request, reply);
    if (result == CUDA_SUCCESS)
        *address = reply.address;
    return result;
}

static CUresult find_range(CUdeviceptr address, size_t bytes, struct address_range_reply *range) {
    struct address_range_request request = {address, bytes};
    return exchange_for("cuPointerGetAttribute",
                        &(struct exchange){.call = CALL_ADDRESS_RANGE, .fields = &request,
                                           .fields_bytes = sizeof request, .reply = range, .reply_bytes = sizeof *range});
}

/* Whether all bytes are allocated, if they lie in the device's memory at all; reports it if they are not. */
static CUresult check_range_for(const char *function, const void *place, size_t bytes) {
    struct address_range_reply range;
    if (!is_device_address(place))
        return CUDA_SUCCESS;
    CUresult result = find_range(address_of(place), bytes, &range);
    return result == CUDA_ERROR_INVALID_VALUE
               ? refused(result, function, "%zu bytes at %p are not in one allocation", bytes, place)
               : result;
}
#define check_range(...) check_range_for(__func__, __VA_ARGS__)

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
    return allocate(__func__, address, bytes, MEMORY_DEVICE);
}

EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned element) {
    enum { PITCH = 256 };
    if (element != 4 && element != 8 && element != 16)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, "elements of %u bytes, not of 4, 8 or 16", element);
    *pitch = (width + PITCH - 1) / PITCH * PITCH;
    return allocate(__func__, address, *pitch * height, MEMORY_DEVICE);
}

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags) {
    if (flags != 1 && flags != 2)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, "flags are %#x, not 1 or 2", flags);
    return allocate(__func__, address, bytes, MEMORY_MANAGED);
}

EXPORT CUresult cuMemHostAlloc(void **place, size_t bytes, unsigned flags) {
    CUdeviceptr address;
    if (flags & ~7u)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, "flags are %#x, not 0 to 7", flags);
    CUresult result = allocate(__func__, &address, bytes, MEMORY_HOST);
    if (result == CUDA_SUCCESS)
        *place = pointer(address);
    return result;
}

EXPORT CUresult cuMemAllocHost_v2(void **place, size_t bytes) {
    return cuMemHostAlloc(place, bytes, 0);
}

EXPORT CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream) {
    (void)stream;
    return cuMemAlloc_v2(address, bytes);
}

/* The address identifies the owner: no context has to be current. */
EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
    CUresult state = initialized();
    if (state != CUDA_SUCCESS || !address)
        return state;
    struct free_request request = {address};
    return connection_exchange(
        &(struct exchange){.call = CALL_FREE, .fields = &request, .fields_bytes = sizeof request});
}

EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
    (void)stream;
    return cuMemFree_v2(address);
}

EXPORT CUresult cuMemFreeHost(void *place) {
    return cuMemFree_v2(address_of(place));
}

EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address) {
    struct address_range_reply range;
    CUresult state = ready();
    if (state == CUDA_SUCCESS)
        state = find_range(address, 1, &range);
    if (state != CUDA_SUCCESS)
        return state == CUDA_ERROR_INVALID_VALUE ? CUDA_ERROR_NOT_FOUND : state;
    if (base)
        *base = range.base;
    if (bytes)
        *bytes = range.size;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *place, unsigned flags);

EXPORT CUresult cuMemHostGetFlags(unsigned *flags, void *place) {
    struct address_range_reply range;
    CUresult result = find_range(address_of(place), 1, &range);
    *flags = 2; /* CU_MEMHOSTALLOC_DEVICEMAP: everything can be read by both */
    return result;
}

/* Host memory that a program has registered. The device cannot access it, so it has a copy in device memory, which is
 * updated before a launch and copied back after it. */
struct registered {
    struct registered *next;
    unsigned char *place;
    size_t bytes;
    CUdeviceptr copy;
};
static struct registered *all_registered;
static pthread_mutex_t registered_lock = PTHREAD_MUTEX_INITIALIZER;

static struct registered *registered_at(const unsigned char *place) {
    for (struct registered *one = all_registered; one; one = one->next)
        if (place >= one->place && place < one->place + one->bytes)
            return one;
    return NULL;
}

EXPORT CUresult cuMemHostRegister_v2(void *place, size_t bytes, unsigned flags) {
    (void)flags;
    CUdeviceptr copy;
    if (!place || !bytes)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, "%zu bytes at %p", bytes, place);
    pthread_mutex_lock(&registered_lock);
    int known = registered_at(place) != NULL;
    pthread_mutex_unlock(&registered_lock);
    if (known)
        return REFUSED(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "%p is registered already", place);
    CUresult result = allocate(__func__, &copy, bytes, MEMORY_REGISTERED);
    if (result != CUDA_SUCCESS)
        return result;
    struct registered *made = malloc(sizeof *made);
    if (!made)
        return REFUSED(CUDA_ERROR_OUT_OF_MEMORY, NO_HOST_MEMORY);
    pthread_mutex_lock(&registered_lock);
    *made = (struct registered){all_registered, place, bytes, copy};
    all_registered = made;
    pthread_mutex_unlock(&registered_lock);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostUnregister(void *place) {
    pthread_mutex_lock(&registered_lock);
    struct registered **link = &all_registered;
    while (*link && (*link)->place != place)
        link = &(*link)->next;
    struct registered *found = *link;
    if (found)
        *link = found->next;
    pthread_mutex_unlock(&registered_lock);
    if (!found)
        return REFUSED(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "%p is not registered", place);
    CUresult result = cuMemFree_v2(found->copy);
    free(found);
    return result;
}

void registered_to_device(void) {
    pthread_mutex_lock(&registered_lock);
    for (struct registered *one = all_registered; one; one = one->next)
        memcpy(pointer(one->copy), one->place, one->bytes);
    pthread_mutex_unlock(&registered_lock);
}

void registered_from_device(void) {
    pthread_mutex_lock(&registered_lock);
    for (struct registered *one = all_registered; one; one = one->next)
        memcpy(one->place, pointer(one->copy), one->bytes);
    pthread_mutex_unlock(&registered_lock);
}

EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *place, unsigned flags) {
    if (flags)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, "flags are %#x, not 0", flags);
    pthread_mutex_lock(&registered_lock);
    struct registered *found = registered_at(place);
    if (found)
        *address = found->copy + (CUdeviceptr)((unsigned char *)place - found->place);
    pthread_mutex_unlock(&registered_lock);
    if (found)
        return CUDA_SUCCESS;
    *address = address_of(place);
    return is_device_address(place) ? check_range(place, 1)
                                    : REFUSED(CUDA_ERROR_INVALID_VALUE, "%p is not registered", place);
}

/* Copies. */

static const size_t LEAST_WRITTEN = 1 << 16; /* size in bytes above which a system call is faster */

CUresult copy_now(void *to, const void *from, size_t bytes) {
    static const char FUNCTION[] = "cuMemcpy";
    CUresult result = ready_for(FUNCTION);
    if (result != CUDA_SUCCESS || !bytes)
        return result;
    if ((result = check_range_for(FUNCTION, to, bytes)) != CUDA_SUCCESS ||
        (result = check_range_for(FUNCTION, from, bytes)) != CUDA_SUCCESS)
        return result;
    if (bytes >= LEAST_WRITTEN && is_device_address(to) && !is_device_address(from))
        write_device(to, from, bytes);
    else
        memmove(to, from, bytes);
    return CUDA_SUCCESS;
}

CUDA_MEMCPY3D row_copy(void *to, const void *from, size_t bytes) {
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = from, .dstMemoryType = CU_MEMORYTYPE_HOST,
                           .dstHost = to, .WidthInBytes = bytes, .Height = 1, .Depth = 1};
}

/* Either side of a copy: where its first byte lies, NULL for an array. */
static unsigned char *side(int kind, const void *host, CUdeviceptr device) {
    switch (kind) {
    case CU_MEMORYTYPE_HOST:
        return (unsigned char *)(uintptr_t)host;
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED:
        return pointer(device);
    default:
        return NULL;
    }
}

CUresult copy_3d_now(const CUDA_MEMCPY3D *copy) {
    size_t from_pitch = copy->srcPitch ? copy->srcPitch : copy->WidthInBytes;
    size_t to_pitch = copy->dstPitch ? copy->dstPitch : copy->WidthInBytes;
    size_t from_height = copy->srcHeight ? copy->srcHeight : copy->Height;
    size_t to_height = copy->dstHeight ? copy->dstHeight : copy->Height;
    const unsigned char *from = side(copy->srcMemoryType, copy->srcHost, copy->srcDevice);
    unsigned char *to = side(copy->dstMemoryType, copy->dstHost, copy->dstDevice);
    if (!from || !to)
        return refuse("cuMemcpy of arrays", "there are no textures and no arrays");
    from += copy->srcXInBytes + (copy->srcY + copy->srcZ * from_height) * from_pitch;
    to += copy->dstXInBytes + (copy->dstY + copy->dstZ * to_height) * to_pitch;
    if (!copy->WidthInBytes || !copy->Height || !copy->Depth)
        return ready_for("cuMemcpy3D");
    CUresult result = ready_for("cuMemcpy3D");
    for (size_t z = 0; z < copy->Depth; z++)
        for (size_t y = 0; y < copy->Height && result == CUDA_SUCCESS; y++)
            result = copy_now(to + (z * to_height + y) * to_pitch, from + (z * from_height + y) * from_pitch,
                              copy->WidthInBytes);
    return result;
}

/* Executes a copy, or records it if the stream records. */
static CUresult copy_in_stream(const CUDA_MEMCPY3D *copy, CUstream stream) {
    CUgraph graph = capture_of(stream);
    return graph ? record_copy(graph, copy) : copy_3d_now(copy);
}

static CUresult row_in_stream(void *to, const void *from, size_t bytes, CUstream stream) {
    CUDA_MEMCPY3D copy = row_copy(to, from, bytes);
    return capture_of(stream) ? copy_in_stream(&copy, stream) : copy_now(to, from, bytes);
}

EXPORT CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return copy_now(pointer(to), pointer(from), bytes);
}

EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return row_in_stream(pointer(to), pointer(from), bytes, stream);
}

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
    if (!is_device_address(pointer(to)) && bytes)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, NO_DEVICE_ADDRESS, pointer(to));
    return copy_now(pointer(to), from, bytes);
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    if (!is_device_address(pointer(to)) && bytes)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, NO_DEVICE_ADDRESS, pointer(to));
    return row_in_stream(pointer(to), from, bytes, stream);
}

EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
    if (!is_device_address(pointer(from)) && bytes)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, NO_DEVICE_ADDRESS, pointer(from));
    return copy_now(to, pointer(from), bytes);
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    if (!is_device_address(pointer(from)) && bytes)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, NO_DEVICE_ADDRESS, pointer(from));
    return row_in_stream(to, pointer(from), bytes, stream);
}

EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return cuMemcpy(to, from, bytes);
}

EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return cuMemcpyAsync(to, from, bytes, stream);
}

EXPORT CUresult cuMemcpyPeer(CUdeviceptr to, void *to_context, CUdeviceptr from, void *from_context, size_t bytes) {
    (void)to_context, (void)from_context;
    return cuMemcpy(to, from, bytes);
}

EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, void *to_context, CUdeviceptr from, void *from_context, size_t bytes,
                                  CUstream stream) {
    (void)to_context, (void)from_context;
    return cuMemcpyAsync(to, from, bytes, stream);
}

static CUDA_MEMCPY3D of_2d(const CUDA_MEMCPY2D *copy) {
    return (CUDA_MEMCPY3D){
        .srcXInBytes = copy->srcXInBytes, .srcY = copy->srcY, .srcMemoryType = copy->srcMemoryType,
        .srcHost = copy->srcHost, .srcDevice = copy->srcDevice, .srcPitch = copy->srcPitch,
        .dstXInBytes = copy->dstXInBytes, .dstY = copy->dstY, .dstMemoryType = copy->dstMemoryType,
        .dstHost = copy->dstHost, .dstDevice = copy->dstDevice, .dstPitch = copy->dstPitch,
        .WidthInBytes = copy->WidthInBytes, .Height = copy->Height, .Depth = 1};
}

EXPORT CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy) {
    CUDA_MEMCPY3D whole = of_2d(copy);
    return copy_3d_now(&whole);
}

EXPORT CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy) {
    return cuMemcpy2D_v2(copy);
}

EXPORT CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream) {
    CUDA_MEMCPY3D whole = of_2d(copy);
    return copy_in_stream(&whole, stream);
}

EXPORT CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *copy) {
    return copy_3d_now(copy);
}

EXPORT CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, CUstream stream) {
    return copy_in_stream(copy, stream);
}

/* Fills. */

CUresult fill_now(const CUDA_MEMSET_NODE_PARAMS *fill) {
    static const char FUNCTION[] = "cuMemset";
    CUresult result = ready_for(FUNCTION);
    size_t row = fill->width * fill->elementSize, pitch = fill->height > 1 ? fill->pitch : row;
    if (fill->elementSize != 1 && fill->elementSize != 2 && fill->elementSize != 4)
        return refused(CUDA_ERROR_INVALID_VALUE, FUNCTION, "elements of %u bytes, not of 1, 2 or 4", fill->elementSize);
    if (fill->dst % fill->elementSize)
        return refused(CUDA_ERROR_INVALID_VALUE, FUNCTION, "%p is not a multiple of %u", pointer(fill->dst),
                       fill->elementSize);
    for (size_t y = 0; y < fill->height && row && result == CUDA_SUCCESS; y++) {
        unsigned char *place = pointer(fill->dst + y * pitch);
        if (!is_device_address(place))
            return refused(CUDA_ERROR_INVALID_VALUE, FUNCTION, NO_DEVICE_ADDRESS, place);
        if ((result = check_range_for(FUNCTION, place, row)) != CUDA_SUCCESS)
            break;
        if (fill->elementSize == 1)
            memset(place, (int)fill->value, row);
        else
            for (size_t x = 0; x < row; x += fill->elementSize)
                memcpy(place + x, &fill->value, fill->elementSize); /* little endian: the value's low bytes */
    }
    return result;
}

static CUresult fill_in_stream(CUDA_MEMSET_NODE_PARAMS fill, CUstream stream) {
    CUgraph graph = capture_of(stream);
    return graph ? record_fill(graph, &fill) : fill_now(&fill);
}

#define FILL(NAME, TYPE, BYTES)                                                                                    \
    EXPORT CUresult cuMemset##NAME##_v2(CUdeviceptr address, TYPE value, size_t count) {                            \
        return fill_in_stream((CUDA_MEMSET_NODE_PARAMS){address, 0, value, BYTES, count, 1}, NULL);                 \
    }                                                                                                              \
    EXPORT CUresult cuMemset##NAME##Async(CUdeviceptr address, TYPE value, size_t count, CUstream stream) {         \
        return fill_in_stream((CUDA_MEMSET_NODE_PARAMS){address, 0, value, BYTES, count, 1}, stream);               \
    }
#define FILL_2D(NAME, TYPE, BYTES)                                                                                 \
    EXPORT CUresult cuMemset##NAME##_v2(CUdeviceptr address, size_t pitch, TYPE value, size_t width, size_t height) { \
        return fill_in_stream((CUDA_MEMSET_NODE_PARAMS){address, pitch, value, BYTES, width, height}, NULL);        \
    }                                                                                                              \
    EXPORT CUresult cuMemset##NAME##Async(CUdeviceptr address, size_t pitch, TYPE value, size_t width,              \
                                          size_t height, CUstream stream) {                                        \
        return fill_in_stream((CUDA_MEMSET_NODE_PARAMS){address, pitch, value, BYTES, width, height}, stream);      \
    }
FILL(D8, unsigned char, 1)
FILL(D16, unsigned short, 2)
FILL(D32, unsigned, 4)
FILL_2D(D2D8, unsigned char, 1)
FILL_2D(D2D16, unsigned short, 2)
FILL_2D(D2D32, unsigned, 4)

/* Queries about a pointer. */

enum {
    ATTRIBUTE_CONTEXT = 1, ATTRIBUTE_MEMORY_TYPE = 2, ATTRIBUTE_DEVICE_POINTER = 3, ATTRIBUTE_HOST_POINTER = 4,
    ATTRIBUTE_SYNC_MEMOPS = 6, ATTRIBUTE_BUFFER_ID = 7, ATTRIBUTE_IS_MANAGED = 8, ATTRIBUTE_DEVICE_ORDINAL = 9,
    ATTRIBUTE_RANGE_START = 11, ATTRIBUTE_RANGE_SIZE = 12, ATTRIBUTE_MAPPED = 13,
};

EXPORT CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr address) {
    struct address_range_reply range;
    CUresult state = connection_state();
    if (state == CUDA_SUCCESS)
        state = is_device_address(pointer(address)) ? find_range(address, 1, &range) : CUDA_ERROR_INVALID_VALUE;
    if (state != CUDA_SUCCESS)
        return state;
    switch (attribute) {
    case ATTRIBUTE_CONTEXT:
        return cuCtxGetCurrent(value);
    case ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)value = range.kind == MEMORY_HOST ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)value = address;
        return CUDA_SUCCESS;
    case ATTRIBUTE_HOST_POINTER:
        if (range.kind == MEMORY_DEVICE)
            return CUDA_ERROR_INVALID_VALUE;
        *(void **)value = pointer(address);
        return CUDA_SUCCESS;
    case ATTRIBUTE_SYNC_MEMOPS:
    case ATTRIBUTE_MAPPED:
        *(int *)value = 1;
        return CUDA_SUCCESS;
    case ATTRIBUTE_BUFFER_ID:
        *(uint64_t *)value = range.base;
        return CUDA_SUCCESS;
    case ATTRIBUTE_IS_MANAGED:
        *(int *)value = range.kind == MEMORY_MANAGED;
        return CUDA_SUCCESS;
    case ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = 0;
        return CUDA_SUCCESS;
    case ATTRIBUTE_RANGE_START:
        *(CUdeviceptr *)value = range.base;
        return CUDA_SUCCESS;
    case ATTRIBUTE_RANGE_SIZE:
        *(size_t *)value = range.size;
        return CUDA_SUCCESS;
    default:
        return REFUSED(CUDA_ERROR_NOT_SUPPORTED, "attribute %d is not supported", attribute);
    }
}

EXPORT CUresult cuPointerGetAttributes(unsigned count, int *attributes, void **values, CUdeviceptr address) {
    for (unsigned i = 0; i < count; i++) {
        CUresult result = cuPointerGetAttribute(values[i], attributes[i], address);
        if (result == CUDA_ERROR_INVALID_VALUE)
            memset(values[i], 0, sizeof(int)); /* as in CUDA: 0 for memory that is no allocation */
        else if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuPointerSetAttribute(const void *value, int attribute, CUdeviceptr address) {
    (void)value;
    if (attribute != ATTRIBUTE_SYNC_MEMOPS)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, "attribute %d can't be set", attribute);
    return check_range(pointer(address), 1);
}

/* There is only one memory: advice and prefetching have no effect. */
EXPORT CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream) {
    (void)device, (void)stream;
    return check_range(pointer(address), bytes);
}

EXPORT CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, int advice, CUdevice device) {
    (void)advice, (void)device;
    return check_range(pointer(address), bytes);
}

EXPORT CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t bytes, unsigned flags) {
    (void)stream, (void)bytes, (void)flags;
    return check_range(pointer(address), 1);
}

/* Memory of other processes of the same server has the same addresses here. */
EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address) {
    struct address_range_reply range = {0};
    CUresult result = find_range(address, 1, &range);
    if (result == CUDA_ERROR_INVALID_VALUE)
        result = REFUSED(result, "%p is not allocated", pointer(address));
    memset(handle, 0, sizeof *handle);
    memcpy(handle->reserved, &range.base, sizeof range.base);
    return result;
}

EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags) {
    (void)flags;
    memcpy(address, handle.reserved, sizeof *address);
    return check_range(pointer(*address), 1);
}

EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags) {
    return cuIpcOpenMemHandle_v2(address, handle, flags);
}

EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
    return check_range(pointer(address), 1);
}
