/* Graphs: recorded launches, copies, fills and host calls, which are executed one after the other. */
#include <stdlib.h>
#include <string.h>

#include "connection.h"
#include "context.h"
#include "objects.h"

enum node_kind { NODE_KERNEL = 0, NODE_COPY = 1, NODE_FILL = 2, NODE_HOST = 3, NODE_GRAPH = 4, NODE_EMPTY = 5 };

struct graph_node {
    enum node_kind kind;
    struct launch launch; /* its parameters belong to the node */
    CUDA_MEMCPY3D copy;
    CUDA_MEMSET_NODE_PARAMS fill;
    CUDA_HOST_NODE_PARAMS host;
    struct graph *child;
    struct graph_node **before; /* the nodes that it depends on */
    size_t before_count;
    struct graph_node *origin; /* in an executable graph: the node of the graph from which it was made */
    int done;
};

struct graph {
    CUgraphNode *nodes;
    size_t count;
};

/* An executable graph is a copy, so that later changes of the graph do not affect it. */
typedef struct graph *CUgraphExec;

static const char NO_GRAPH[] = "the graph is NULL";

static CUresult add_edge(CUgraphNode node, CUgraphNode before) {
    CUgraphNode *larger = realloc(node->before, (node->before_count + 1) * sizeof *larger);
    if (!larger)
        return refused(CUDA_ERROR_OUT_OF_MEMORY, "cuGraphAddDependencies", NO_HOST_MEMORY);
    larger[node->before_count++] = before;
    node->before = larger;
    return CUDA_SUCCESS;
}

static CUresult add_node(CUgraph graph, enum node_kind kind, const CUgraphNode *before, size_t before_count,
                         CUgraphNode *node) {
    if (!graph)
        return refused(CUDA_ERROR_INVALID_VALUE, "cuGraphAddNode", NO_GRAPH);
    CUgraphNode made = calloc(1, sizeof *made);
    CUgraphNode *larger = realloc(graph->nodes, (graph->count + 1) * sizeof *larger);
    if (!made || !larger) {
        free(made);
        return refused(CUDA_ERROR_OUT_OF_MEMORY, "cuGraphAddNode", NO_HOST_MEMORY);
    }
    CUresult result;
    made->kind = kind;
    graph->nodes = larger;
    graph->nodes[graph->count++] = made;
    for (size_t i = 0; i < before_count; i++)
        if ((result = add_edge(made, before[i])) != CUDA_SUCCESS)
            return result;
    if (node)
        *node = made;
    return CUDA_SUCCESS;
}

static void free_node(CUgraphNode node) {
    free(node->launch.parameters);
    free(node->before);
    free(node);
}

EXPORT CUresult cuGraphCreate(CUgraph *graph, unsigned flags) {
    if (!graph)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, "the place for the graph is NULL");
    if (flags)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, "flags are %#x, not 0", flags);
    *graph = calloc(1, sizeof **graph);
    return *graph ? CUDA_SUCCESS : REFUSED(CUDA_ERROR_OUT_OF_MEMORY, NO_HOST_MEMORY);
}

EXPORT CUresult cuGraphDestroy(CUgraph graph) {
    if (!graph)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, NO_GRAPH);
    for (size_t i = 0; i < graph->count; i++)
        free_node(graph->nodes[i]);
    free(graph->nodes);
    free(graph);
    return CUDA_SUCCESS;
}

/* Copies the parameters of a kernel's node into the node. */
static CUresult set_kernel(const char *name, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *parameters, int has_kernel) {
    CUfunction function = parameters->func;
    if (!function && has_kernel)
        function = parameters->kern;
    if (!function)
        return refused(CUDA_ERROR_INVALID_VALUE, name, "the kernel is NULL");
    struct launch launch = {function,
                            {parameters->gridDimX, parameters->gridDimY, parameters->gridDimZ},
                            {parameters->blockDimX, parameters->blockDimY, parameters->blockDimZ},
                            parameters->sharedMemBytes,
                            0,
                            NULL};
    CUresult result = gather_parameters(&launch, parameters->kernelParams, parameters->extra);
    if (result != CUDA_SUCCESS) {
        free(launch.parameters);
        return result;
    }
    free(node->launch.parameters);
    node->launch = launch;
    return CUDA_SUCCESS;
}

static CUresult add_kernel(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                           const CUDA_KERNEL_NODE_PARAMS *parameters, int has_kernel) {
    CUresult result = add_node(graph, NODE_KERNEL, before, count, node);
    return result == CUDA_SUCCESS ? set_kernel("cuGraphAddKernelNode", *node, parameters, has_kernel) : result;
}

EXPORT CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                     const CUDA_KERNEL_NODE_PARAMS *parameters) {
    return add_kernel(node, graph, before, count, parameters, 0);
}

EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                        const CUDA_KERNEL_NODE_PARAMS *parameters) {
    return add_kernel(node, graph, before, count, parameters, 1);
}

EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                     const CUDA_MEMCPY3D *copy, CUcontext context) {
    (void)context;
    CUresult result = add_node(graph, NODE_COPY, before, count, node);
    if (result == CUDA_SUCCESS)
        (*node)->copy = *copy;
    return result;
}

EXPORT CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                     const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext context) {
    (void)context;
    CUresult result = add_node(graph, NODE_FILL, before, count, node);
    if (result == CUDA_SUCCESS)
        (*node)->fill = *fill;
    return result;
}

EXPORT CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                   const CUDA_HOST_NODE_PARAMS *host) {
    CUresult result = add_node(graph, NODE_HOST, before, count, node);
    if (result == CUDA_SUCCESS)
        (*node)->host = *host;
    return result;
}

EXPORT CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                         CUgraph child) {
    CUresult result = add_node(graph, NODE_GRAPH, before, count, node);
    if (result == CUDA_SUCCESS)
        (*node)->child = child;
    return result;
}

EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count) {
    return add_node(graph, NODE_EMPTY, before, count, node);
}

EXPORT CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count) {
    (void)graph;
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = add_edge(to[i], from[i]);
    return result;
}

EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    if (nodes)
        for (size_t i = 0; i < *count && i < graph->count; i++)
            nodes[i] = graph->nodes[i];
    *count = graph->count;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphNodeGetType(CUgraphNode node, int *kind) {
    *kind = (int)node->kind;
    return CUDA_SUCCESS;
}

/* Recording: each node depends on the one before it. */
static CUresult append(CUgraph graph, enum node_kind kind, CUgraphNode *node) {
    size_t count = graph->count;
    return add_node(graph, kind, count ? &graph->nodes[count - 1] : NULL, count ? 1 : 0, node);
}

CUresult record_kernel(CUgraph graph, const struct launch *launch) {
    CUgraphNode node;
    CUresult result = append(graph, NODE_KERNEL, &node);
    if (result != CUDA_SUCCESS)
        return result;
    node->launch = *launch;
    node->launch.parameters = malloc(launch->function->parameter_bytes + 1);
    if (!node->launch.parameters)
        return refused(CUDA_ERROR_OUT_OF_MEMORY, "cuLaunchKernel", NO_HOST_MEMORY);
    memcpy(node->launch.parameters, launch->parameters, launch->function->parameter_bytes);
    return CUDA_SUCCESS;
}

CUresult record_copy(CUgraph graph, const CUDA_MEMCPY3D *copy) {
    CUgraphNode node;
    CUresult result = append(graph, NODE_COPY, &node);
    if (result == CUDA_SUCCESS)
        node->copy = *copy;
    return result;
}

CUresult record_fill(CUgraph graph, const CUDA_MEMSET_NODE_PARAMS *fill) {
    CUgraphNode node;
    CUresult result = append(graph, NODE_FILL, &node);
    if (result == CUDA_SUCCESS)
        node->fill = *fill;
    return result;
}

CUresult record_host(CUgraph graph, const CUDA_HOST_NODE_PARAMS *host) {
    CUgraphNode node;
    CUresult result = append(graph, NODE_HOST, &node);
    if (result == CUDA_SUCCESS)
        node->host = *host;
    return result;
}

EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
    (void)mode;
    if ((uintptr_t)stream <= 2)
        return REFUSED(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "a default stream can't be recorded");
    if (stream->capture)
        return REFUSED(CUDA_ERROR_ILLEGAL_STATE, "the stream is being recorded");
    return cuGraphCreate(&stream->capture, 0);
}

EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    if (!capture_of(stream))
        return REFUSED(CUDA_ERROR_ILLEGAL_STATE, "the stream is not being recorded");
    *graph = stream->capture;
    stream->capture = NULL;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamIsCapturing(CUstream stream, int *status) {
    *status = capture_of(stream) != NULL;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamGetCaptureInfo(CUstream stream, int *status, uint64_t *number) {
    if (number)
        *number = (uint64_t)(uintptr_t)capture_of(stream);
    return cuStreamIsCapturing(stream, status);
}

EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream stream, int *status, uint64_t *number, CUgraph *graph,
                                          const CUgraphNode **before, size_t *count) {
    CUgraph capture = capture_of(stream);
    if (graph)
        *graph = capture;
    if (count)
        *count = capture && capture->count ? 1 : 0;
    if (before)
        *before = capture && capture->count ? &capture->nodes[capture->count - 1] : NULL;
    return cuStreamGetCaptureInfo(stream, status, number);
}

EXPORT CUresult cuThreadExchangeStreamCaptureMode(int *mode) {
    *mode = 0;
    return CUDA_SUCCESS;
}

/* Executable graphs. */

static const char NO_NODE[] = "the graph has no such node";

static CUgraphNode copy_of(CUgraph graph, CUgraphNode origin) {
    for (size_t i = 0; i < graph->count; i++)
        if (graph->nodes[i]->origin == origin)
            return graph->nodes[i];
    return NULL;
}

static CUresult copy_node(CUgraph to, CUgraphNode node) {
    CUgraphNode made;
    CUresult result = add_node(to, node->kind, NULL, 0, &made);
    if (result != CUDA_SUCCESS)
        return result;
    CUgraphNode *no_edges = made->before;
    *made = *node;
    made->before = no_edges;
    made->before_count = 0;
    made->origin = node;
    made->launch.parameters = NULL;
    if (node->kind != NODE_KERNEL)
        return CUDA_SUCCESS;
    size_t bytes = node->launch.function->parameter_bytes;
    made->launch.parameters = malloc(bytes + 1);
    if (!made->launch.parameters)
        return refused(CUDA_ERROR_OUT_OF_MEMORY, "cuGraphInstantiate", NO_HOST_MEMORY);
    memcpy(made->launch.parameters, node->launch.parameters, bytes);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    (void)flags;
    CUresult result = cuGraphCreate(exec, 0);
    for (size_t i = 0; i < graph->count && result == CUDA_SUCCESS; i++)
        result = copy_node(*exec, graph->nodes[i]);
    for (size_t i = 0; i < graph->count && result == CUDA_SUCCESS; i++)
        for (size_t j = 0; j < graph->nodes[i]->before_count && result == CUDA_SUCCESS; j++)
            result = add_edge((*exec)->nodes[i], copy_of(*exec, graph->nodes[i]->before[j]));
    return result;
}

EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error, char *log, size_t bytes) {
    if (error)
        *error = NULL;
    if (log && bytes)
        *log = 0;
    return cuGraphInstantiateWithFlags(exec, graph, 0);
}

EXPORT CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *error, char *log, size_t bytes) {
    return cuGraphInstantiate_v2(exec, graph, error, log, bytes);
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) {
    return cuGraphDestroy(exec);
}

EXPORT CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
    (void)exec, (void)stream;
    return ready();
}

static CUresult run_graph(CUgraph graph);

static CUresult run_node(CUgraphNode node) {
    switch (node->kind) {
    case NODE_KERNEL:
        return launch_now(&node->launch);
    case NODE_COPY:
        return copy_3d_now(&node->copy);
    case NODE_FILL:
        return fill_now(&node->fill);
    case NODE_HOST:
        node->host.fn(node->host.userData);
        return CUDA_SUCCESS;
    case NODE_GRAPH:
        return run_graph(node->child);
    default:
        return CUDA_SUCCESS;
    }
}

static int can_run(CUgraphNode node) {
    for (size_t i = 0; i < node->before_count; i++)
        if (node->before[i] && !node->before[i]->done)
            return 0;
    return !node->done;
}

/* Executes each node after all that it depends on; if none of the remaining nodes is ready, their dependencies are
 * cyclic. */
static CUresult run_graph(CUgraph graph) {
    CUresult result = CUDA_SUCCESS;
    size_t left = graph->count;
    for (size_t i = 0; i < graph->count; i++)
        graph->nodes[i]->done = 0;
    while (left && result == CUDA_SUCCESS) {
        size_t before = left;
        for (size_t i = 0; i < graph->count && result == CUDA_SUCCESS; i++)
            if (can_run(graph->nodes[i])) {
                result = run_node(graph->nodes[i]);
                graph->nodes[i]->done = 1;
                left--;
            }
        if (left == before)
            return refused(CUDA_ERROR_INVALID_VALUE, "cuGraphLaunch", "%zu nodes depend on each other in a circle", left);
    }
    return result;
}

EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    (void)stream;
    CUresult state = ready();
    if (state != CUDA_SUCCESS)
        return state;
    return exec ? run_graph(exec) : REFUSED(CUDA_ERROR_INVALID_VALUE, NO_GRAPH);
}

EXPORT CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *parameters) {
    return set_kernel(__func__, node, parameters, 0);
}

EXPORT CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *parameters) {
    return set_kernel(__func__, node, parameters, 1);
}

EXPORT CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                               const CUDA_KERNEL_NODE_PARAMS *parameters) {
    CUgraphNode found = copy_of(exec, node);
    return found ? set_kernel(__func__, found, parameters, 0) : REFUSED(CUDA_ERROR_INVALID_VALUE, NO_NODE);
}

EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                  const CUDA_KERNEL_NODE_PARAMS *parameters) {
    CUgraphNode found = copy_of(exec, node);
    return found ? set_kernel(__func__, found, parameters, 1) : REFUSED(CUDA_ERROR_INVALID_VALUE, NO_NODE);
}

EXPORT CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *copy,
                                               CUcontext context) {
    (void)context;
    CUgraphNode found = copy_of(exec, node);
    if (!found)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, NO_NODE);
    found->copy = *copy;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *fill,
                                               CUcontext context) {
    (void)context;
    CUgraphNode found = copy_of(exec, node);
    if (!found)
        return REFUSED(CUDA_ERROR_INVALID_VALUE, NO_NODE);
    found->fill = *fill;
    return CUDA_SUCCESS;
}
