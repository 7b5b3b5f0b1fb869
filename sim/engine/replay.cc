// Replays recorded calls to a compiled model: replay LIBRARY TAPE CYCLES [seconds]. Prints the number of cycles and, with
// the last word, their processor time in seconds. A program without Python, for tools that count instructions; without
// the last word it executes the same ones each time. sim/engine/tape.py writes tapes: numbers of 64 bits.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <vector>

struct instance;
typedef uint64_t word;

template <typename function> static function *find(void *library, const char *name) {
    if (void *found = dlsym(library, name))
        return (function *)found;
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(1);
}

int main(int count, char **arguments) {
    const bool timed = count == 5 && !std::strcmp(arguments[4], "seconds");
    if (count != 4 && !timed)
        return 2;
    void *library = dlopen(arguments[1], RTLD_NOW);
    std::FILE *file = std::fopen(arguments[2], "rb");
    if (!library || !file) {
        std::fprintf(stderr, "%s\n", library ? arguments[2] : dlerror());
        return 1;
    }
    const size_t limit = std::strtoull(arguments[3], nullptr, 0);
    std::vector<word> tape(1 << 16);
    size_t size = 0;
    while (size_t more = std::fread(&tape[size], sizeof(word), tape.size() - size, file)) {
        size += more;
        if (size == tape.size())
            tape.resize(2 * size);
    }
    instance *model = find<instance *()>(library, "model_create")();
    word *words = find<word *(instance *)>(library, "model_words")(model);
    auto touch = find<void(instance *, uint32_t)>(library, "model_touch");
    auto step = find<void(instance *)>(library, "model_step");
    auto look = find<void(instance *)>(library, "model_look");
    auto reset = find<void(instance *)>(library, "model_reset");
    auto run = find<size_t(instance *, uint32_t, uint32_t, size_t, int64_t, uint32_t, size_t, int *)>(
        library, "model_run");
    size_t cycles = 0;
    const std::clock_t begin = std::clock();
    for (const word *at = tape.data(), *end = at + size; at < end && cycles < limit;) {
        switch (*at++) {
        case 't':
            words[at[0]] = at[1];
            touch(model, at[0]);
            at += 2;
            break;
        case 's':
            step(model);
            break;
        case 'l':
            look(model);
            break;
        case 'r':
            reset(model);
            break;
        case 'c': {
            size_t most = limit - cycles < at[2] ? limit - cycles : at[2];
            int hit;
            cycles += run(model, at[0], at[1], most, (int64_t)at[3], at[4], at[5], &hit);
            at += 6;
            break;
        }
        default:
            std::fprintf(stderr, "%s is damaged\n", arguments[2]);
            return 1;
        }
    }
    std::printf("%zu\n", cycles);
    if (timed)
        std::printf("%.6f\n", double(std::clock() - begin) / CLOCKS_PER_SEC);
    return cycles < limit;
}
