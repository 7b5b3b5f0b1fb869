// A lexer whose states are labels: words, numbers, signs, texts with escapes, comments; a line for each thread.

extern "C" __global__ void k(unsigned *out, const char *in) {
    unsigned t = threadIdx.x, words = 0, numbers = 0, signs = 0, sum = 0;
    const char *at = in + 16 * t, *end = at + 16;
    unsigned value;
    char c;
next:
    if (at == end) goto done;
    c = *at++;
    if (c == 0) goto done;
    if (c == ' ') goto next;
    if (c >= '0' && c <= '9') {
        value = c - '0';
        goto number;
    }
    if ((c | 32) >= 'a' && (c | 32) <= 'z') goto word;
    if (c == '"') goto text;
    if (c == '#') goto done;
    signs++;
    goto next;
word:
    sum = sum * 31 + c;
    if (at < end && (*at | 32) >= 'a' && (*at | 32) <= 'z') {
        c = *at++;
        goto word;
    }
    words++;
    goto next;
number:
    if (at < end && *at >= '0' && *at <= '9') {
        value = value * 10 + (*at++ - '0');
        goto number;
    }
    numbers++, sum += value;
    goto next;
text:
    if (at == end) goto unfinished;
    c = *at++;
    if (c == '"') goto next;
    if (c != '\\') goto text;
    if (at == end) goto unfinished;
    sum ^= static_cast<unsigned>(*at++) << 24;
    goto text;
unfinished:
    signs |= 0x80;
done:
    out[2 * t] = words | numbers << 8 | signs << 16;
    out[2 * t + 1] = sum;
}
