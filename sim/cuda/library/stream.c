/* Streams and events. A call is complete when it returns, whatever its stream, so that streams are only names, every
 * event has happened when it is recorded, and callbacks are called at once. The time of an event is the device's number
 * of cycles. */
#include <stdlib.h>

#include "connection.h"
#include "context.h"
#include "objects.h"

/* The predefined streams: 0, 1 (legacy) and 2 (a thread's own). None of them records. */
static int is_default(CUstream stream) {
    return (uintptr_t)stream <= 2;
}

CUgraph capture_of(CUstream stream) {
    return is_default(stream) ? NULL : stream->capture;
}

EXPORT CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
    static uint64_t last;
    CUresult state = ready();
    if (state != CUDA_SUCCESS)
        return state;
    if (!stream)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, "the place for the stream is NULL");
    if (flags > 1)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, "flags are %#x, not 0 or 1", flags);
    if (!(*stream = calloc(1, sizeof **stream)))
        return REFUSED(CUDA_ERROR_OUT_OF_MEMORY, NO_HOST_MEMORY);
    **stream = (struct stream){flags, priority, 2 + __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED), NULL};
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    return cuStreamCreateWithPriority(stream, flags, 0);
}

EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
    if (is_default(stream))
        return REFUSED(CUDA_ERROR_INVALID_HANDLE, "a default stream is not destroyed");
    free(stream);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamSynchronize(CUstream stream) {
    (void)stream;
    return ready();
}

EXPORT CUresult cuStreamQuery(CUstream stream) {
    (void)stream;
    return ready();
}

EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    (void)stream, (void)event, (void)flags;
    return ready();
}

EXPORT CUresult cuStreamGetPriority(CUstream stream, int *priority) {
    *priority = is_default(stream) ? 0 : stream->priority;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamGetFlags(CUstream stream, unsigned *flags) {
    *flags = is_default(stream) ? 0 : stream->flags;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamGetId(CUstream stream, uint64_t *number) {
    *number = is_default(stream) ? (uint64_t)(uintptr_t)stream : stream->number;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *context);

EXPORT CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) {
    (void)stream;
    return cuCtxGetCurrent(context);
}

EXPORT CUresult cuStreamGetDevice(CUstream stream, CUdevice *device) {
    (void)stream;
    *device = 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamAddCallback(CUstream stream, void (*function)(CUstream, CUresult, void *), void *data,
                                    unsigned flags) {
    (void)flags;
    CUresult state = ready();
    function(stream, state, data);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void *), void *data) {
    CUresult state = ready();
    if (state != CUDA_SUCCESS)
        return state;
    if (capture_of(stream))
        return record_host(capture_of(stream), &(CUDA_HOST_NODE_PARAMS){function, data});
    function(data);
    return CUDA_SUCCESS;
}

/* Events. */

enum { EVENT_DISABLE_TIMING = 2 };
static const char NO_EVENT[] = "the event is NULL";

EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags) {
    CUresult state = ready();
    if (state != CUDA_SUCCESS)
        return state;
    if (!(*event = calloc(1, sizeof **event)))
        return REFUSED(CUDA_ERROR_OUT_OF_MEMORY, NO_HOST_MEMORY);
    (*event)->flags = flags;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy_v2(CUevent event) {
    if (!event)
        return REFUSED(CUDA_ERROR_INVALID_HANDLE, NO_EVENT);
    free(event);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
    (void)stream;
    CUresult state = ready();
    if (state != CUDA_SUCCESS)
        return state;
    if (!event)
        return REFUSED(CUDA_ERROR_INVALID_HANDLE, NO_EVENT);
    struct clock_reply reply;
    CUresult result = connection_exchange(
        &(struct exchange){.call = CALL_CLOCK, .reply = &reply, .reply_bytes = sizeof reply});
    if (result == CUDA_SUCCESS) {
        event->recorded = 1;
        event->cycles = reply.cycles;
    }
    return result;
}

EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
    (void)flags;
    return cuEventRecord(event, stream);
}

EXPORT CUresult cuEventQuery(CUevent event) {
    return event ? ready() : REFUSED(CUDA_ERROR_INVALID_HANDLE, NO_EVENT);
}

EXPORT CUresult cuEventSynchronize(CUevent event) {
    return cuEventQuery(event);
}

/* In milliseconds: cycles divided by the device's clock. */
EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    if (!start || !end)
        return REFUSED(CUDA_ERROR_INVALID_HANDLE, NO_EVENT);
    if ((start->flags | end->flags) & EVENT_DISABLE_TIMING)
        return REFUSED(CUDA_ERROR_INVALID_HANDLE, "an event was created without timing");
    if (!start->recorded || !end->recorded)
        return REFUSED(CUDA_ERROR_INVALID_HANDLE, "an event was not recorded");
    double cycles = (double)end->cycles - (double)start->cycles;
    *milliseconds = (float)(cycles / device_clock_khz());
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end) {
    return cuEventElapsedTime(milliseconds, start, end);
}
