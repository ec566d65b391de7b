/* verb_doctor.c: what will and will not work on this machine, one line a fact:
 *     ok|warn|FAIL  what: value: what it means, or what to do
 * FAIL is only said of what the CPU reference needs; where there is none, the exit status is 0. It
 * reads, it changes nothing: no device is opened, no file is written. Test:
 * tests/test_verb_doctor.c */
#include "harness/verb.h"

#include "core/blas.h"
#include "core/device.h"
#include "core/library.h"
#include "core/ops.h"
#include "core/text.h"
#include "harness/doctor_plan.h"
#include "harness/host_memory.h"

#include <errno.h>
#include <fenv.h>
#include <libfyaml.h>
#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum level { OK, WARN, FAIL };

static const char *const level_names[] = {"ok", "warn", "FAIL"};

enum { VALUE = 512, LINE = HOST_LINE, DEVICES = 16 };

#ifdef __clang__
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

/* Below these the shipped checkpoints still run, but little else does. */
static const double memory_min = 256e6, memory_good = 16e9, disk_good = 1e9;

struct checks {
    json_t *list;
    bool quiet;
    bool broken; /* jansson had no memory */
    int fails;
    const char *first;
};

__attribute__((format(printf, 5, 6))) static void add(struct checks *c, enum level level,
                                                      const char *name, const char *remedy,
                                                      const char *format, ...)
{
    char value[VALUE];
    va_list list;
    va_start(list, format);
    vsnprintf(value, sizeof value, format, list);
    va_end(list);
    if (!c->quiet) printf("%-4s  %s: %s: %s\n", level_names[level], name, value, remedy);
    json_t *row = json_pack("{s:s, s:s, s:s, s:s}", "name", name, "status", level_names[level],
                            "value", value, "remedy", remedy);
    if (!row || json_array_append_new(c->list, row) != 0) c->broken = true;
    if (level == FAIL && c->fails++ == 0) c->first = name;
}

static void check_program(struct checks *c)
{
    add(c, OK, "assay", "this program", "%s, built with %s", ASSAY_VERSION, COMPILER);
    add(c, OK, "libraries", "read the files", "jansson %s, libfyaml %s", jansson_version_str(),
        fy_library_version());
}

static void check_cpu(struct checks *c)
{
    char model[LINE];
    cpu_set_t set;
    if (!host_key("/proc/cpuinfo", "model name", model))
        snprintf(model, sizeof model, "unknown model");
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int usable = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)online;
    add(c, OK, "cpu", "--threads may use the cores that are ours", "%s, %d of %ld cores", model,
        usable, online);
}

/* Arithmetic that a wrong flag or a library's start-up code can have switched off. */
static void check_arithmetic(struct checks *c)
{
    volatile double zero = 0, tiny = 2.2250738585072014e-308;
    volatile double nan = zero / zero, half = tiny / 2;
    bool sees_nan = isnan(nan) && !(nan <= 1e300);
    bool keeps_denormals = half > 0;
    bool to_nearest = fegetround() == FE_TONEAREST;
    if (sees_nan && keeps_denormals && to_nearest) {
        add(c, OK, "arithmetic", "comparisons can be believed",
            "NaN is seen, denormals kept, rounding to nearest");
        return;
    }
    add(c, FAIL, "arithmetic",
        "no verdict can be believed; build without fast-math, look at what is preloaded",
        "NaN is %s, denormals are %s, rounding is %s", sees_nan ? "seen" : "not seen",
        keeps_denormals ? "kept" : "flushed to zero", to_nearest ? "to nearest" : "not to nearest");
}

static void check_reference(struct checks *c)
{
    const struct op_side *side = ref_side();
    int there = 0;
    const char *absent = NULL;
    for (int i = 0; i < op_count; i++) {
        bool has = op_side_find(side, op_rows[i].name) != NULL;
        there += has;
        if (!has && !absent) absent = op_rows[i].name;
    }
    if (!side->available) {
        add(c, FAIL, "reference", "this build cannot be used here", "%s", side->why_not);
    } else if (absent) {
        add(c, FAIL, "reference", "this build cannot be used",
            "%d of %d ops; %s is NOT IMPLEMENTED", there, op_count, absent);
    } else {
        add(c, OK, "reference", "--on ref works here", "%d ops, %s", op_count, side->about);
    }
    const struct blas *blas;
    struct err err = ERR_INIT;
    if (blas_open(&blas, &err) == ERR_OK)
        add(c, OK, "openblas", "the cross-check of matrix products (--linear blas)", "%s, core %s",
            blas->config, blas->core);
    else
        add(c, WARN, "openblas", "install OpenBLAS for --linear blas; the default needs none", "%s",
            err.found);
}

static void check_memory(struct checks *c)
{
    char total_text[32], free_text[32], limit_text[32];
    const struct host_memory m = host_memory();
    if (m.total < 0 || m.available < 0) {
        add(c, WARN, "memory", "watch it yourself", "unknown");
        return;
    }
    text_bytes(m.total, total_text, sizeof total_text);
    text_bytes(m.available, free_text, sizeof free_text);
    text_bytes(m.limit, limit_text, sizeof limit_text);
    double usable = m.limit < m.available ? m.limit : m.available;
    enum level level = usable < memory_min ? FAIL : usable < memory_good ? WARN : OK;
    const char *remedy = level == FAIL
                             ? "too little for any model; raise the limit or end other programs"
                         : level == WARN ? "enough for small models; the largest need 16 GB"
                                         : "weights are streamed: enough for any model";
    add(c, level, "memory", remedy, "%s, %s available, control group limit %s", total_text,
        free_text, isinf(m.limit) ? "none" : limit_text);
}

static void check_limit(struct checks *c, const char *name, int resource, double least,
                        const char *remedy)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0) {
        add(c, WARN, name, "unknown", "%s", strerror(errno));
    } else if (limit.rlim_cur == RLIM_INFINITY) {
        add(c, OK, name, "enough", "unlimited");
    } else if ((double)limit.rlim_cur < least) {
        add(c, WARN, name, remedy, "%llu", (unsigned long long)limit.rlim_cur);
    } else {
        add(c, OK, name, "enough", "%llu", (unsigned long long)limit.rlim_cur);
    }
}

static void check_disk(struct checks *c)
{
    struct statvfs disk;
    char text[32];
    if (statvfs(".", &disk) != 0) {
        add(c, WARN, "disk", "dumps must go elsewhere: --out", "this folder cannot be asked: %s",
            strerror(errno));
        return;
    }
    double bytes = (double)disk.f_bavail * (double)disk.f_frsize;
    text_bytes(bytes, text, sizeof text);
    if (access(".", W_OK) != 0) {
        add(c, WARN, "disk", "dumps must go elsewhere: --out", "this folder cannot be written");
    } else if (bytes < disk_good) {
        add(c, WARN, "disk", "a dump of a real model needs more: --out, --taps",
            "%s free in this folder", text);
    } else {
        add(c, OK, "disk", "room for dumps", "%s free in this folder", text);
    }
}

static void check_gpu(struct checks *c)
{
    const struct op_side *side = gpu_side();
    struct device_info device[DEVICES];
    struct err err = ERR_INIT;
    char memory[32], name[32];
    int count = gpu_devices(device, DEVICES, &err);
    if (count < 0) {
        add(c, WARN, "gpu", "--on gpu ends with exit 3; the reference does not need it", "%s",
            err.found);
        return;
    }
    for (int i = 0; i < count && i < DEVICES; i++) {
        snprintf(name, sizeof name, "gpu %d", i);
        text_bytes((double)device[i].memory, memory, sizeof memory);
        add(c, OK, name, "a CUDA device", "%s, %s, compute capability %d.%d", device[i].name,
            memory, device[i].major, device[i].minor);
    }
    int driver = device[0].driver, runtime = device[0].runtime;
    add(c, OK, "cuda", "the driver is new enough", "driver knows %d.%d, built with %d.%d",
        driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    int ops = 0;
    while (side->entries[ops].name) {
        ops++;
    }
    if (!side->available) {
        add(c, WARN, "gpu", "--on gpu ends with exit 3", "%s", side->why_not);
    } else if (ops < op_count) {
        add(c, WARN, "gpu ops", "the others are NOT IMPLEMENTED, which is red", "%d of %d", ops,
            op_count);
    } else {
        add(c, OK, "gpu ops", "--on gpu works here", "%d of %d", ops, op_count);
    }
}

/* False: runs on several GPUs must sum over the host. */
static bool check_nccl(struct checks *c)
{
    static const char *const names[] = {"libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2", NULL};
    char why[LINE];
    int (*get_version)(int *) = NULL, version = 0;
    void *nccl = library_open(names, why, sizeof why);
    if (!nccl) {
        add(c, WARN, "nccl", "only runs on several GPUs need it: install libnccl2",
            "libnccl.so.2 is not found");
        return false;
    }
    if (!library_find(nccl, "ncclGetVersion", (void *)&get_version) || get_version(&version) != 0) {
        add(c, WARN, "nccl", "only runs on several GPUs need it",
            "libnccl.so.2 does not say its version");
        return false;
    }
    add(c, OK, "nccl", "runs on several GPUs can talk", "%d.%d.%d", version / 10000,
        version % 10000 / 100, version % 100);
    return true;
}

/* What --tp and --ep on the devices of this host would go over. */
static void check_links(struct checks *c, bool nccl)
{
    struct device_links l;
    struct err none = ERR_INIT;
    char nvlinks[32] = "NVLinks not known";
    if (gpu_links(&l, &none) != ERR_OK) return; /* said already */
    if (l.nvlinks >= 0) snprintf(nvlinks, sizeof nvlinks, "%d NVLinks each", l.nvlinks);
    if (l.pairs > 0)
        add(c, l.peers == l.pairs ? OK : WARN, "gpu links",
            l.peers == l.pairs ? "ranks reach each other's memory" : "some sums go a slower way",
            "%d of %d pairs are peers, %s", l.peers, l.pairs, nvlinks);
    if (l.devices > 1 && nccl)
        add(c, OK, "ranks on gpu", "more ranks than devices sum over the host",
            "up to %d ranks by NCCL", l.devices);
    else
        add(c, OK, "ranks on gpu", l.devices > 1 ? "slow: install NCCL" : "slow, for tests",
            "%d device%s: sums of --tp and --ep go over the host", l.devices,
            l.devices == 1 ? "" : "s");
}

/* The first folder of PATH that holds an executable of this name. */
static bool find_program(const char *name, char path[LINE])
{
    const char *folder = getenv("PATH");
    while (folder && *folder) {
        size_t n = strcspn(folder, ":");
        snprintf(path, LINE, "%.*s/%s", (int)n, folder, name);
        if (access(path, X_OK) == 0) return true;
        folder += n + (folder[n] == ':');
    }
    return false;
}

static void check_python(struct checks *c)
{
    char path[LINE];
    bool found = find_program("python3", path);
    add(c, OK, "python3", "only the scripts that made the fixtures need it", "%s",
        found ? path : "none");
}

static enum err_code run(const struct args *a, json_t *result, struct err *err)
{
    if (doctor_plan_options(a, err) != ERR_OK) return err->code;
    if (args_has(a, "--plan")) return doctor_plan(a, result, err);
    struct checks c = {.list = json_array(), .quiet = a->json};
    if (!c.list) return err_set(err, ERR_MEMORY, "doctor|list of checks|no memory|a few kilobytes");
    check_program(&c);
    check_cpu(&c);
    check_arithmetic(&c);
    check_reference(&c);
    check_memory(&c);
    check_limit(&c, "address space", RLIMIT_AS, 64e9,
                "checkpoints are mapped whole: ulimit -v unlimited");
    check_limit(&c, "open files", RLIMIT_NOFILE, 256,
                "a checkpoint may have many shards: ulimit -n 1024");
    check_disk(&c);
    check_gpu(&c);
    check_links(&c, check_nccl(&c));
    check_python(&c);
    int lines = (int)json_array_size(c.list);
    if (json_object_set_new(result, "checks", c.list) != 0 || c.broken) {
        return err_set(err, ERR_MEMORY, "doctor|list of checks|no memory|a few kilobytes");
    }
    if (c.fails) {
        return err_set(err, ERR_DEVICE, "doctor|%s|%d of %d checks failed|none", c.first, c.fails,
                       lines);
    }
    return ERR_OK;
}

static const struct option_row options[] = {DOCTOR_PLAN_ROWS, {NULL, NULL, NULL, false}};

const struct verb verb_doctor = {
    .name = "doctor",
    .usage = "[--plan --model MODEL [--tp N] [--ep N] [--expert-map M] [--redundant N]]",
    .about = "what will and will not work on this machine",
    .details =
        "Looks at CPU, memory, disk, libraries, CUDA and NCCL; with --plan, says how a model "
        "is cut over ranks.",
    .words_min = 0,
    .words_max = 0,
    .options = options,
    .run = run,
};
