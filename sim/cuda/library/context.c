/* Contexts. Each thread has a stack of them; its allocations and modules belong to the topmost. */
#include "context.h"

#include <stdlib.h>
#include <string.h>

#include "connection.h"
#include "objects.h"

enum { STACK_DEPTH = 32 };
static __thread CUcontext stack[STACK_DEPTH];
static __thread int depth;
static struct context primary = {.primary = 1};

uint32_t current_context_number(void) {
    return depth && stack[depth - 1] ? stack[depth - 1]->number : 0;
}

static const char NO_CONTEXT[] = "no context is current in this thread";

CUresult ready_for(const char *function) {
    CUresult state = initialized_for(function);
    if (state != CUDA_SUCCESS)
        return state;
    return current_context_number() ? CUDA_SUCCESS : refused(CUDA_ERROR_INVALID_CONTEXT, function, NO_CONTEXT);
}

static CUresult create_on_server(CUcontext context) {
    struct context_create_reply reply;
    CUresult result = exchange_for("cuCtxCreate",
        &(struct exchange){.call = CALL_CONTEXT_CREATE, .reply = &reply, .reply_bytes = sizeof reply});
    if (result == CUDA_SUCCESS)
        context->number = reply.context;
    return result;
}

static CUresult destroy_on_server(CUcontext context) {
    struct context_destroy_request request = {context->number};
    CUresult result = exchange_for("cuCtxDestroy",
        &(struct exchange){.call = CALL_CONTEXT_DESTROY, .fields = &request, .fields_bytes = sizeof request});
    context->number = 0;
    return result;
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context) {
    if (!context)
        return REFUSED(CUDA_ERROR_INVALID_CONTEXT, "the context is NULL");
    if (depth == STACK_DEPTH)
        return REFUSED(CUDA_ERROR_OUT_OF_MEMORY, "a thread stacks at most %d contexts", STACK_DEPTH);
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    if (!depth)
        return REFUSED(CUDA_ERROR_INVALID_CONTEXT, NO_CONTEXT);
    depth--;
    if (context)
        *context = stack[depth];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
    if (!context) {
        if (depth)
            depth--;
        return CUDA_SUCCESS;
    }
    if (!depth)
        depth = 1;
    stack[depth - 1] = context;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *context) {
    if (!context)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, "the place for the context is NULL");
    if (connection_state() == CUDA_ERROR_NOT_INITIALIZED)
        return CUDA_ERROR_NOT_INITIALIZED;
    *context = depth ? stack[depth - 1] : NULL;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice number) {
    CUresult result = connection_open();
    if (result != CUDA_SUCCESS)
        return result;
    if (!context)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, "the place for the context is NULL");
    CHECK_DEVICE(number);
    CUcontext made = calloc(1, sizeof *made);
    if (!made)
        return REFUSED(CUDA_ERROR_OUT_OF_MEMORY, NO_HOST_MEMORY);
    made->flags = flags;
    result = create_on_server(made);
    if (result == CUDA_SUCCESS)
        result = cuCtxPushCurrent_v2(made);
    if (result == CUDA_SUCCESS)
        *context = made;
    else
        free(made);
    return result;
}

/* The third and fourth versions have attributes of execution, which are ignored. */
EXPORT CUresult cuCtxCreate_v3(CUcontext *context, void *affinities, int count, unsigned flags, CUdevice number) {
    (void)affinities;
    if (count)
        return REFUSED(CUDA_ERROR_NOT_SUPPORTED, "there is no affinity of execution");
    return cuCtxCreate_v2(context, flags, number);
}

EXPORT CUresult cuCtxCreate_v4(CUcontext *context, void *attributes, unsigned flags, CUdevice number) {
    if (attributes)
        return REFUSED(CUDA_ERROR_NOT_SUPPORTED, "attributes are not supported");
    return cuCtxCreate_v2(context, flags, number);
}

EXPORT CUresult cuCtxDestroy_v2(CUcontext context) {
    if (!context || context->primary || !context->number)
        return REFUSED(CUDA_ERROR_INVALID_CONTEXT, "the context %s",
                       !context ? "is NULL" : context->primary ? "is the primary one" : "was destroyed before");
    for (int i = depth; i > 0; i--)
        if (stack[i - 1] == context) {
            memmove(&stack[i - 1], &stack[i], (size_t)(depth - i) * sizeof *stack);
            depth--;
        }
    /* The handle itself stays: another thread may still have it on its stack. */
    return destroy_on_server(context);
}

EXPORT CUresult cuCtxAttach(CUcontext *context, unsigned flags) {
    (void)flags;
    return cuCtxGetCurrent(context);
}

EXPORT CUresult cuCtxDetach(CUcontext context) {
    return context && context->primary ? CUDA_SUCCESS : cuCtxDestroy_v2(context);
}

EXPORT CUresult cuCtxGetDevice(CUdevice *number) {
    if (!number)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, "the place for the device is NULL");
    if (!depth)
        return REFUSED(CUDA_ERROR_INVALID_CONTEXT, NO_CONTEXT);
    *number = 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetFlags(unsigned *flags) {
    if (!depth)
        return REFUSED(CUDA_ERROR_INVALID_CONTEXT, NO_CONTEXT);
    *flags = stack[depth - 1]->flags;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetFlags(unsigned flags) {
    if (!depth)
        return REFUSED(CUDA_ERROR_INVALID_CONTEXT, NO_CONTEXT);
    stack[depth - 1]->flags = flags;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetId(CUcontext context, uint64_t *number) {
    if (!context && depth)
        context = stack[depth - 1];
    if (!context)
        return REFUSED(CUDA_ERROR_INVALID_CONTEXT, NO_CONTEXT);
    *number = context->number;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetApiVersion(CUcontext context, unsigned *version) {
    (void)context;
    *version = 3020;
    return CUDA_SUCCESS;
}

/* All work is done when a call returns; only the context's error is returned. */
EXPORT CUresult cuCtxSynchronize(void) {
    return ready();
}

EXPORT CUresult cuCtxSetLimit(int limit, size_t value) {
    CUresult state = ready();
    struct set_limit_request request = {(uint32_t)limit, value};
    return state != CUDA_SUCCESS ? state
                                 : connection_exchange(&(struct exchange){
                                       .call = CALL_SET_LIMIT, .fields = &request, .fields_bytes = sizeof request});
}

EXPORT CUresult cuCtxGetLimit(size_t *value, int limit) {
    CUresult state = ready();
    if (state != CUDA_SUCCESS)
        return state;
    struct get_limit_request request = {(uint32_t)limit};
    struct get_limit_reply reply;
    CUresult result = SIMPLE_CALL(CALL_GET_LIMIT, request, reply);
    if (result == CUDA_SUCCESS)
        *value = reply.value;
    return result;
}

/* Caches and the width of banks cannot be set: a preference is accepted and ignored. */
EXPORT CUresult cuCtxSetCacheConfig(int preference) {
    (void)preference;
    return ready();
}

EXPORT CUresult cuCtxGetCacheConfig(int *preference) {
    *preference = 0;
    return ready();
}

EXPORT CUresult cuCtxSetSharedMemConfig(int preference) {
    (void)preference;
    return ready();
}

EXPORT CUresult cuCtxGetSharedMemConfig(int *preference) {
    *preference = 1; /* four bytes a bank */
    return ready();
}

EXPORT CUresult cuCtxResetPersistingL2Cache(void) {
    return ready();
}

EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    if (least)
        *least = 0;
    if (greatest)
        *greatest = 0;
    return ready();
}

EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
    (void)peer, (void)flags;
    return REFUSED(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "there is one device");
}

EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peer) {
    (void)peer;
    return REFUSED(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "there is one device");
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice number) {
    CUresult result = connection_open();
    if (result != CUDA_SUCCESS)
        return result;
    CHECK_DEVICE(number);
    if (!primary.number && (result = create_on_server(&primary)) != CUDA_SUCCESS)
        return result;
    primary.users++;
    *context = &primary;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice number) {
    CHECK_DEVICE(number);
    if (!primary.users)
        return REFUSED(CUDA_ERROR_INVALID_CONTEXT, "the primary context is not retained");
    if (--primary.users)
        return CUDA_SUCCESS;
    return destroy_on_server(&primary);
}

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice number) {
    return cuDevicePrimaryCtxRelease_v2(number);
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice number, unsigned flags) {
    CHECK_DEVICE(number);
    primary.flags = flags;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice number, unsigned flags) {
    return cuDevicePrimaryCtxSetFlags_v2(number, flags);
}

EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice number, unsigned *flags, int *active) {
    CHECK_DEVICE(number);
    *flags = primary.flags;
    *active = primary.number != 0;
    return CUDA_SUCCESS;
}

/* Frees all resources of the primary context; its holders may continue with an empty one. */
EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice number) {
    CHECK_DEVICE(number);
    CUresult result = connection_open();
    if (result != CUDA_SUCCESS || !primary.number)
        return result;
    clear_sticky_error();
    result = destroy_on_server(&primary);
    clear_sticky_error();
    return result == CUDA_SUCCESS ? create_on_server(&primary) : result;
}

EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice number) {
    return cuDevicePrimaryCtxReset_v2(number);
}
