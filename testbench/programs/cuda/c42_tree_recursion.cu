// Recursion with structures: a search tree of nodes in local memory, its depth and sums as a structure.

struct Node { short left, right; int key; };
struct Summary { int depth, count; long long sum; };

static __device__ __noinline__ int insert(Node *nodes, int at, int fresh) {
    if (at < 0) return fresh;
    if (nodes[fresh].key < nodes[at].key) nodes[at].left = insert(nodes, nodes[at].left, fresh);
    else nodes[at].right = insert(nodes, nodes[at].right, fresh);
    return at;
}

static __device__ __noinline__ Summary summary(const Node *nodes, int at) {
    if (at < 0) return {0, 0, 0};
    Summary left = summary(nodes, nodes[at].left), right = summary(nodes, nodes[at].right);
    return {max(left.depth, right.depth) + 1, left.count + right.count + 1,
            left.sum * 2 + nodes[at].key - right.sum};
}

extern "C" __global__ void k(Summary *out, const int *in) {
    unsigned t = threadIdx.x;
    Node nodes[5];
    int root = -1;
    for (int i = 0; i < 3 + t % 3; i++) {
        nodes[i] = {-1, -1, in[(t + i * 5) % 24] % 1000};
        root = insert(nodes, root, i);
    }
    out[t] = summary(nodes, root);
}
