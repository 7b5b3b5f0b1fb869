// A parser by recursive descent, three functions that call each other, each thread with an expression of its own.

struct Parser {
    const char *text;
    int value;
    bool wrong;
};

static __device__ __noinline__ Parser sum(Parser parser);

static __device__ __noinline__ Parser factor(Parser parser) {
    if (*parser.text == '(') {
        parser.text++;
        parser = sum(parser);
        if (*parser.text++ != ')') parser.wrong = true, parser.text--;
        return parser;
    }
    if (*parser.text == '-') {
        parser.text++;
        parser = factor(parser);
        parser.value = -parser.value;
        return parser;
    }
    parser.value = 0;
    parser.wrong |= *parser.text < '0' || *parser.text > '9';
    while (*parser.text >= '0' && *parser.text <= '9') parser.value = parser.value * 10 + (*parser.text++ - '0');
    return parser;
}

static __device__ __noinline__ Parser product(Parser parser) {
    parser = factor(parser);
    while (*parser.text == '*' || *parser.text == '/') {
        char sign = *parser.text++;
        int left = parser.value;
        parser = factor(parser);
        if (sign == '/' && parser.value == 0) parser.wrong = true, parser.value = 1;
        parser.value = sign == '*' ? left * parser.value : left / parser.value;
    }
    return parser;
}

static __device__ __noinline__ Parser sum(Parser parser) {
    parser = product(parser);
    while (!parser.wrong && (*parser.text == '+' || *parser.text == '-')) {
        bool minus = *parser.text++ == '-';
        int left = parser.value;
        parser = product(parser);
        parser.value = minus ? left - parser.value : left + parser.value;
    }
    return parser;
}

extern "C" __global__ void k(int *out, const char *in) {
    unsigned t = threadIdx.x;
    Parser parser = sum({in + 16 * t, 0, false});
    out[2 * t] = parser.value;
    out[2 * t + 1] = (parser.text - in - 16 * t) * 2 + parser.wrong;
}
