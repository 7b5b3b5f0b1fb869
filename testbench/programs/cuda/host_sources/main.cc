// Runs one kernel: KERNEL is its source, ENTRY its name.
//
// Standard input: eight 32-bit words, the sizes of grid and block, the number of arguments, 0. Then each argument: 1 for a
// buffer or 0 for a number, its bytes, its content. Standard output: the buffers' contents, one after the other.

#include "cuda.h"

#include KERNEL

namespace {

struct Argument {
    bool buffer;
    std::vector<char> content;
    char *address;
};

uint32_t next_word() {
    uint32_t value;
    if (std::fread(&value, sizeof value, 1, stdin) != 1) host::fail("the input ends too early");
    return value;
}

template <class T> T take(Argument &argument) {
    if (argument.content.size() < sizeof(T) && !argument.buffer) host::fail("an argument has another size");
    T value;
    std::memcpy(&value, argument.buffer ? static_cast<void *>(&argument.address) : argument.content.data(), sizeof value);
    return value;
}

template <class... T, size_t... number>
void launch(void (*kernel)(T...), host::Position grid, host::Position block, std::vector<Argument> &arguments,
            std::index_sequence<number...>) {
    if (arguments.size() != sizeof...(T)) host::fail("another number of arguments");
    host::run(grid, block, [&] { kernel(take<std::remove_cv_t<T>>(arguments[number])...); });
}

template <class... T>
void launch(void (*kernel)(T...), host::Position grid, host::Position block, std::vector<Argument> &arguments) {
    launch(kernel, grid, block, arguments, std::index_sequence_for<T...>());
}

}  // namespace

int main() {
    uint32_t sizes[8];
    for (uint32_t &size : sizes) size = next_word();
    std::vector<Argument> arguments(sizes[6]);
    for (Argument &argument : arguments) {
        argument.buffer = next_word();
        argument.content.resize(next_word());
        argument.address = argument.content.data();
        if (std::fread(argument.address, 1, argument.content.size(), stdin) != argument.content.size())
            host::fail("the input ends too early");
    }
    launch(ENTRY, {sizes[0], sizes[1], sizes[2]}, {sizes[3], sizes[4], sizes[5]}, arguments);
    for (const Argument &argument : arguments)
        if (argument.buffer) std::fwrite(argument.address, 1, argument.content.size(), stdout);
}
