// What sim/engine needs of a model beside CXXRTL's own C interface. build.py appends this file to the C++ that
// write_cxxrtl makes, so that both are one translation unit, and defines two constants in front of it:
// MODEL_SETTLES: every change of an input needs an evaluation, not only rising clock edges;
// MODEL_READS_MEMORY: there are combinational memory ports, whose data an evaluation brings up to date.

#include <cxxrtl/capi/cxxrtl_capi.cc>

namespace {

// Collects what the design prints and its first failed assertion; Python fetches both after a step.
struct collector : public cxxrtl::performer {
    std::string text;
    std::string failure;

    static std::string location(const cxxrtl::metadata_map &attributes) {
        auto source = attributes.find("src");
        return source == attributes.end() ? "" : source->second.as_string();
    }

    void on_print(const cxxrtl::lazy_fmt &formatter, const cxxrtl::metadata_map &) override {
        text += formatter();
    }

    void on_check(cxxrtl::flavor type, bool condition, const cxxrtl::lazy_fmt &formatter,
                  const cxxrtl::metadata_map &attributes) override {
        if (type == cxxrtl::flavor::COVER) {
            std::string message = condition ? formatter() : "";
            if (!message.empty())
                text += "Coverage hit at " + location(attributes) + ": " + message + "\n";
        } else if (!condition && failure.empty()) {
            std::string message = formatter();
            failure = location(attributes) + "\n";
            failure += type == cxxrtl::flavor::ASSERT ? "Assertion violated" : "Assumption violated";
            failure += message.empty() ? "" : ": " + message;
        }
    }
};

// A signal that an observer samples, and its value at the last sample.
struct watched {
    const uint32_t *curr;
    std::vector<uint32_t> last;
};

struct model {
    cxxrtl_handle handle;
    collector checks;
    cxxrtl_outline outline = nullptr; // a flattened design has at most one
    std::vector<watched> signals;
    bool sampled = false;
    std::vector<uint32_t> changes; // records: cycle, index in `signals`, value in words of 32 bits
    uint32_t cycle = 0;

    cxxrtl::module &design() { return *handle->module; }
    int events() const { return (checks.text.empty() ? 0 : 1) | (checks.failure.empty() ? 0 : 2); }

    // Combinational values are computed when somebody looks. The evaluation changes no state: no clock edge is pending.
    void refresh() {
        if (MODEL_READS_MEMORY)
            design().eval(&checks);
        if (outline)
            cxxrtl_outline_eval(outline);
    }

    // Records the watched signals that changed since the last sample.
    void sample() {
        for (size_t index = 0; index < signals.size(); index++) {
            auto &signal = signals[index];
            if (sampled && std::equal(signal.last.begin(), signal.last.end(), signal.curr))
                continue;
            std::copy_n(signal.curr, signal.last.size(), signal.last.begin());
            changes.push_back(cycle);
            changes.push_back(uint32_t(index));
            changes.insert(changes.end(), signal.last.begin(), signal.last.end());
        }
        sampled = true;
        cycle++;
    }
};

} // namespace

extern "C" {

model *model_create() {
    return new model { cxxrtl_create(cxxrtl_design_create()) };
}

void model_destroy(model *m) {
    cxxrtl_destroy(m->handle);
    delete m;
}

void model_reset(model *m) {
    cxxrtl_reset(m->handle);
    m->checks = collector();
    m->changes.clear();
    m->sampled = false;
    m->cycle = 0;
}

// The object called `name`, null when there is none.
cxxrtl_object *model_find(model *m, const char *name) {
    size_t parts = 0;
    auto object = cxxrtl_get_parts(m->handle, name, &parts);
    if (object && object->outline)
        m->outline = object->outline;
    return parts == 1 ? object : nullptr;
}

// Where the stored value that is read at `curr` can be changed; null when it is not stored.
uint32_t *model_storage(model *m, const uint32_t *curr) {
    for (auto &entry : m->handle->objects.table)
        for (auto &item : entry.second)
            if (item.curr == curr && item.next)
                return item.next;
    return nullptr;
}

int model_settles() { return MODEL_SETTLES; }
int model_events(model *m) { return m->events(); }

int model_step(model *m) {
    m->design().step(&m->checks);
    return m->events();
}

// Takes note of the clock's level without evaluating anything.
void model_commit(model *m) { m->design().commit(); }

int model_refresh(model *m) {
    m->refresh();
    return m->events();
}

const char *model_text(model *m) { return m->checks.text.c_str(); }
void model_clear_text(model *m) { m->checks.text.clear(); }
const char *model_failure(model *m) { return m->checks.failure.c_str(); }

void model_watch(model *m, const uint32_t *curr, size_t words) {
    m->signals.push_back({ curr, std::vector<uint32_t>(words) });
}

// Samples the watched signals; returns the words of changes so far.
size_t model_sample(model *m) {
    m->refresh();
    m->sample();
    return m->changes.size();
}

size_t model_changes_size(model *m) { return m->changes.size(); }
const uint32_t *model_changes(model *m) { return m->changes.data(); }
void model_clear_changes(model *m) { m->changes.clear(); }

// Runs the clock for up to `count` cycles: a falling edge when it is high, then a rising one. Stops behind the edge
// that found the lowest bit of `until` (may be null) at 1, and when there is something to fetch: text, a failure,
// `room` words of changes. Returns the cycles; `hit` tells whether `until` ended them.
size_t model_run(model *m, uint32_t *clock, size_t count, const uint32_t *until, size_t room, int *hit) {
    bool look = until || !m->signals.empty();
    size_t cycles = 0;
    *hit = 0;
    while (cycles < count && !*hit && !m->events() && m->changes.size() < room) {
        if (*clock) {
            *clock = 0;
            if (MODEL_SETTLES)
                m->design().step(&m->checks);
            else
                m->design().commit();
        }
        if (look)
            m->refresh();
        if (!m->signals.empty())
            m->sample();
        *hit = until && (*until & 1);
        *clock = 1;
        m->design().step(&m->checks);
        cycles++;
    }
    return cycles;
}

}
