/* The objects behind the handles of programs. All are created here; the server identifies its own by number. */
#pragma once
#include "cuda_abi.h"
#include "protocol.h"

#define EXPORT __attribute__((visibility("default")))

struct context {
    uint32_t number; /* the server's number */
    unsigned flags;
    int primary;
    unsigned users; /* of the primary context: how often it was retained */
};

/* A module, also what CUlibrary is. */
typedef struct module {
    uint64_t number;
} *CUmodule;

struct parameter {
    uint32_t offset, size;
};

/* A kernel, also what CUkernel is. */
typedef struct function {
    CUmodule module;
    struct function *next; /* of the list of all */
    struct module_function_reply info;
    struct parameter *parameters; /* info.parameters of them */
    uint32_t parameter_bytes;     /* from the first one's offset on to the end of the last */
    int max_dynamic_shared, shared_carveout;
    char name[]; /* ended by 0 */
} *CUfunction;

/* Streams: all work is done when a call returns, in whichever stream. */
typedef struct stream {
    unsigned flags;
    int priority;
    uint64_t number;
    struct graph *capture; /* the graph that is being recorded, or NULL */
} *CUstream;

typedef struct event {
    unsigned flags;
    int recorded;
    uint64_t cycles;
} *CUevent;

typedef struct graph *CUgraph;
typedef struct graph_node *CUgraphNode;

/* A launch with its parameters. */
struct launch {
    CUfunction function;
    uint32_t grid[3], block[3], dynamic_shared, cooperative;
    unsigned char *parameters; /* function->parameter_bytes bytes */
};

/* Collects the parameters of a launch, from pointers or one block; the caller frees launch->parameters. */
CUresult gather_parameters(struct launch *launch, void **pointers, void **extra);
CUresult launch_now(const struct launch *launch);

/* Memory operations, executed at once; both return CUDA_ERROR_INVALID_VALUE for ranges that are not allocated. */
CUresult copy_now(void *to, const void *from, size_t bytes);
CUresult copy_3d_now(const CUDA_MEMCPY3D *copy);
CUresult fill_now(const CUDA_MEMSET_NODE_PARAMS *fill);

/* Copies host memory that was registered to the device, or back. */
void registered_to_device(void);
void registered_from_device(void);

/* The graph that a stream records, or NULL. */
CUgraph capture_of(CUstream stream);

/* Append a node to a graph, behind the one that was appended last. */
CUresult record_kernel(CUgraph graph, const struct launch *launch);
CUresult record_copy(CUgraph graph, const CUDA_MEMCPY3D *copy);
CUresult record_fill(CUgraph graph, const CUDA_MEMSET_NODE_PARAMS *fill);
CUresult record_host(CUgraph graph, const CUDA_HOST_NODE_PARAMS *host);

/* A copy in one row. */
CUDA_MEMCPY3D row_copy(void *to, const void *from, size_t bytes);
