/* ranks.c: see ranks.h. */
#include "tests/ranks.h"

#include "core/text.h"
#include "harness/session.h"
#include "tests/net.h"

#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- tasks ---- */

/* The request's words: "RANK NUMBER", either may be missing (-1). */
static void read_words(const struct worker *w, int64_t *rank, int64_t *number)
{
    char text[64] = "", *second;
    *rank = *number = -1;
    memcpy(text, w->data, w->bytes < 63 ? (size_t)w->bytes : 63);
    second = strchr(text, ' ');
    if (second) *second++ = '\0';
    (void)text_int(text, rank);
    if (second) (void)text_int(second, number);
}

static bool is_for(const struct worker *w)
{
    int64_t rank, number;
    read_words(w, &rank, &number);
    return rank == w->rank;
}

static int64_t number(const struct worker *w)
{
    int64_t rank, n;
    read_words(w, &rank, &n);
    return n;
}

static void nap(int64_t ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static enum err_code echo(struct worker *w, struct err *err)
{
    return worker_reply(w, w->data, w->bytes, err);
}

static enum err_code nothing(struct worker *w, struct err *err)
{
    (void)w;
    return err->code;
}

/* How many calls this rank has had, kept between them. */
static enum err_code count(struct worker *w, struct err *err)
{
    int *n = w->state ? w->state : calloc(1, sizeof *n);
    w->state = n;
    w->forget = free;
    ++*n;
    return worker_reply(w, n, sizeof *n, err);
}

/* The rank fails in its second layer, the others wait for it in a sum. */
static enum err_code fail_one(struct worker *w, struct err *err)
{
    double x = 1;
    worker_doing(w, "moe", 1, 2);
    if (is_for(w)) {
        err_set(err, ERR_INPUT, "read tensor|model.safetensors: experts.17.up|3 bytes|8");
        return err_note(err, "expert 17");
    }
    return collective_all_reduce_sum(w->collective, "layers.1.moe", &x, 1, DT_F64, err);
}

/* All ranks fail on their own, the one named first. */
static enum err_code fail_all(struct worker *w, struct err *err)
{
    nap(is_for(w) ? 0 : 100);
    return err_set(err, ERR_INPUT, "read shard|rank %d's|nothing|bytes", w->rank);
}

/* The rank fails while the others are far from any collective. */
static enum err_code fail_alone(struct worker *w, struct err *err)
{
    worker_doing(w, "load", 0, -1);
    if (is_for(w)) return err_set(err, ERR_INPUT, "read shard|rank %d's|nothing|bytes", w->rank);
    nap(number(w));
    return err->code;
}

/* Steps as of a model: an op, a sum, an op, a sum. */
static enum err_code storm(struct worker *w, struct err *err)
{
    double x[64];
    for (int64_t step = 0; step < number(w) && err->code == ERR_OK; step++) {
        char name[COLLECTIVE_NAME];
        snprintf(name, sizeof name, "layers.%lld.attn", (long long)step);
        worker_doing(w, "mla.core", step, -1);
        for (int i = 0; i < 64; i++) x[i] = w->rank + i;
        if (step % 3 == 0) nap(1);
        (void)!collective_all_reduce_sum(w->collective, name, x, 64, DT_BF16, err);
    }
    return err->code == ERR_OK ? worker_reply(w, x, sizeof x, err) : err->code;
}

/* The rank goes past a collective that the others are in. */
static enum err_code go_past(struct worker *w, struct err *err)
{
    worker_doing(w, "ep.dispatch", 0, -1);
    if (is_for(w)) return err->code;
    return collective_barrier(w->collective, "dispatch", err);
}

static enum err_code flood(struct worker *w, struct err *err)
{
    for (int i = 0; i < 20000; i++) fprintf(stderr, "line %d of a rank that talks too much\n", i);
    return worker_reply(w, "x", 1, err);
}

static enum err_code complain(struct worker *w, struct err *err)
{
    fprintf(stderr, "OpenBLAS warning: precompiled NUM_THREADS exceeded, adding ...\n");
    fprintf(stderr, "cannot find the cache\n");
    if (is_for(w)) raise(SIGSEGV);
    return err->code;
}

/* A tensor in shared memory: value i is rank + i. */
static enum err_code tensor(struct worker *w, struct err *err)
{
    struct segment *s = worker_reply_segment(w, 8 * number(w), err);
    for (int64_t i = 0; s && i < number(w); i++)
        ((double *)(void *)s->data)[i] = (double)(w->rank + i);
    return err->code == ERR_OK ? worker_reply(w, "f64", 3, err) : err->code;
}

/* A tensor that lies elsewhere: bytes of sevens. */
static enum err_code source(struct worker *w, struct err *err)
{
    size_t n = (size_t)number(w);
    w->state = malloc(n);
    w->forget = free;
    if (!w->state) return err_set(err, ERR_MEMORY, "source|rank %d|no memory|%zu", w->rank, n);
    memset(w->state, 7, n);
    return ERR_OK;
}

/* The same, copied into the reply's shared memory. */
static enum err_code copy(struct worker *w, struct err *err)
{
    size_t n = (size_t)number(w);
    struct segment *s = worker_reply_segment(w, (int64_t)n, err);
    if (s && w->state) memcpy(s->data, w->state, n);
    return err->code;
}

/* Adds one to every double of the request's first segment. */
static enum err_code add_one(struct worker *w, struct err *err)
{
    double *x = (double *)(void *)w->segment[0].data;
    for (int64_t i = 0; is_for(w) && i < w->segment[0].bytes / 8; i++) x[i] += 1;
    return err->code;
}

/* As many pieces as the number says, piece i with 64 doubles i; only the named rank hands any over.
 */
static enum err_code pieces(struct worker *w, struct err *err)
{
    struct segment s = SEGMENT_INIT;
    int64_t wanted = is_for(w) ? number(w) : 0; /* a piece takes the request's words away */
    for (int64_t i = 0; i < wanted && err->code == ERR_OK; i++) {
        if (segment_reserve(&s, "assay-piece", 64 * sizeof(double), err) != ERR_OK) break;
        for (int k = 0; k < 64; k++) ((double *)(void *)s.data)[k] = (double)i;
        (void)!worker_part(w, &i, sizeof i, i % 2 ? &s : NULL, err);
    }
    segment_free(&s);
    return err->code == ERR_OK ? worker_reply(w, "all", 3, err) : err->code;
}

static enum err_code sleep_long(struct worker *w, struct err *err)
{
    if (is_for(w)) nap(number(w));
    return err->code;
}

static void end_badly(void *state)
{
    (void)state;
    _exit(5);
}

static enum err_code end_dirty(struct worker *w, struct err *err)
{
    w->state = w;
    if (is_for(w)) w->forget = end_badly;
    return err->code;
}

static const struct worker_task tasks[] = {
    {"echo", echo},           {"nothing", nothing},   {"count", count},
    {"fail one", fail_one},   {"fail all", fail_all}, {"fail alone", fail_alone},
    {"storm", storm},         {"skip", go_past},      {"flood", flood},
    {"complain", complain},   {"tensor", tensor},     {"source", source},
    {"copy", copy},           {"add one", add_one},   {"sleep", sleep_long},
    {"end dirty", end_dirty}, {"pieces", pieces},     {NULL, NULL},
};

/* ---- ranks of several hosts ---- */

enum { KEEPER_S = 30, SHIFT_S = 1000 /* of the clock, from host to host */ };

/* Rank 0 is on this host, 1 and 2 on the next one, and so on. */
static int host_of(int rank)
{
    return (rank + 1) / 2;
}

static struct {
    bool on, named, shifted; /* hosts have names of their own, and clocks */
    int world, port;
    pid_t pid[COLLECTIVE_RANKS];
    int status[COLLECTIVE_RANKS];
    struct launch launch;
} apart;

static struct launch launch_of(int rank, int world, int port)
{
    struct launch l = {.by = "test",
                       .rank = rank,
                       .world = world,
                       .local_rank = -1,
                       .local_world = -1,
                       .port = port,
                       .hosts = -1,
                       .transport = LAUNCH_TCP};
    snprintf(l.host, sizeof l.host, "127.0.0.1");
    return l;
}

static const char *own_host(void)
{
    static char name[64];
    (void)gethostname(name, sizeof name - 1);
    return name;
}

const char *ranks_host(int rank)
{
    static char name[32];
    if (!apart.named || rank == 0) return own_host();
    snprintf(name, sizeof name, "node%d", host_of(rank));
    return name;
}

const char *ranks_who(int rank)
{
    static char text[4][64];
    static int next;
    char *at = text[next++ % 4];
    snprintf(at, sizeof text[0], "rank %d%s%s", rank, apart.on ? " on " : "",
             apart.on ? ranks_host(rank) : "");
    return at;
}

static int number_in(const char *word)
{
    int64_t v = -1;
    (void)text_int(word, &v);
    return (int)v;
}

/* The process that a launcher would have started: "keeper RANK WORLD PORT". */
static int be_keeper(char **argv)
{
    int rank = number_in(argv[2]);
    struct launch l = launch_of(rank, number_in(argv[3]), number_in(argv[4]));
    char name[32];
    snprintf(name, sizeof name, "node%d", host_of(rank));
    if (unshare(CLONE_NEWUTS) == 0 && sethostname(name, strlen(name)) != 0) return 1;
    return worker_launched(&l, KEEPER_S, tasks);
}

/* The next program of this process has its monotonic clock that much ahead. Kernels before 6.0 give
 * it to children alone: there the look at it says no. */
static bool shift_clock(int seconds)
{
    FILE *f = unshare(CLONE_NEWTIME) == 0 ? fopen("/proc/self/timens_offsets", "w") : NULL;
    bool written = f && fprintf(f, "monotonic %d 0\n", seconds) > 0;
    return f && fclose(f) == 0 && written;
}

/* "clock SECONDS": whether it is later than that by about a shift. */
static int look_at_clock(char **argv)
{
    return clock_seconds() > number_in(argv[2]) + SHIFT_S / 2 ? 0 : 1;
}

static bool may_shift_clocks(void)
{
    int status;
    char now[32];
    snprintf(now, sizeof now, "%.0f", clock_seconds());
    pid_t pid = fork();
    if (pid == 0 && shift_clock(SHIFT_S))
        execl("/proc/self/exe", "ranks", "clock", now, (char *)NULL);
    if (pid == 0) _exit(1);
    return waitpid(pid, &status, 0) == pid && status == 0;
}

static pid_t start_keeper(int rank)
{
    char words[3][16];
    pid_t pid = fork();
    if (pid != 0) return pid;
    snprintf(words[0], sizeof words[0], "%d", rank);
    snprintf(words[1], sizeof words[1], "%d", apart.world);
    snprintf(words[2], sizeof words[2], "%d", apart.port);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (apart.shifted && !shift_clock(SHIFT_S * host_of(rank))) _exit(126);
    if (!getenv("RANKS_LOUD")) dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
    execl("/proc/self/exe", "ranks", "keeper", words[0], words[1], words[2], (char *)NULL);
    _exit(127);
}

static bool may_name_hosts(void)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) _exit(unshare(CLONE_NEWUTS) != 0 || sethostname("node1", 5) != 0);
    return waitpid(pid, &status, 0) == pid && status == 0;
}

int ranks_near(void **state)
{
    apart.on = false;
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    return ranks_setup(state);
}

int ranks_apart(void **state)
{
    apart.on = true;
    apart.named = may_name_hosts();
    apart.shifted = may_shift_clocks();
    /* A rank that outlives its keeper becomes a child of this process, and is seen. */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return ranks_setup(state);
}

bool ranks_are_apart(void)
{
    return apart.on;
}

pid_t ranks_keeper(int rank)
{
    return apart.pid[rank];
}

int ranks_keeper_status(int rank)
{
    return apart.status[rank];
}

void ranks_start_keepers(struct workers_options *o)
{
    apart.world = o->world;
    apart.port = net_free_port();
    apart.launch = launch_of(0, o->world, apart.port);
    for (int i = 1; i < o->world; i++) apart.pid[i] = start_keeper(i);
    o->launch = &apart.launch;
}

/* They end by themselves. */
void ranks_wait_for_keepers(void)
{
    workers_release();
    for (int i = 1; i < apart.world; i++) {
        if (apart.pid[i] > 0) waitpid(apart.pid[i], &apart.status[i], 0);
        apart.pid[i] = 0;
    }
    /* A rank whose keeper was killed has become a child of this process: it ends too, or is seen as
     * a trace. */
    for (int tries = 0; apart.on && tries < 500; tries++) {
        pid_t got = waitpid(-1, NULL, WNOHANG);
        if (got < 0) break;
        if (got == 0) nap(10);
    }
    apart.world = 0;
}

/* ---- for tests ---- */

bool ranks_main(int argc, char **argv, int *status)
{
    if (argc == 5 && strcmp(argv[1], "keeper") == 0) {
        *status = be_keeper(argv);
        return true;
    }
    if (argc == 3 && strcmp(argv[1], "clock") == 0) {
        *status = look_at_clock(argv);
        return true;
    }
    if (argc < 2 || strcmp(argv[1], "worker") != 0) return false;
    *status = worker_main(argc, argv, tasks);
    return true;
}

struct workers_options ranks_options(int world)
{
    return (struct workers_options){.world = world,
                                    .start_s = 60,
                                    .call_s = 60,
                                    .stall_s = 30,
                                    .collective_s = 30,
                                    .grace_s = 1,
                                    .window = 4096,
                                    .quiet = true};
}

struct worker_request ranks_request(const char *task, const char *words)
{
    return (struct worker_request){
        .task = task, .batch = -1, .data = words, .bytes = (int64_t)strlen(words)};
}

void ranks_fail(struct workers *w, const char *task, const char *words, struct err *err)
{
    static struct worker_replies replies;
    struct worker_request q = ranks_request(task, words);
    q.batch = 0;
    q.samples = "0-3";
    assert_int_not_equal(workers_call_all(w, &q, &replies, err), ERR_OK);
}

static int entries(const char *path)
{
    int n = 0;
    DIR *d = opendir(path);
    assert_non_null(d);
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

static int our_mappings(void)
{
    char line[512];
    int n = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) n += strstr(line, "assay-") && strstr(line, "memfd");
    fclose(f);
    return n;
}

static struct {
    int descriptors, mappings;
    struct workers *open; /* by ranks_open, not closed yet */
} seen;

int ranks_setup(void **state)
{
    (void)state;
    seen.descriptors = entries("/proc/self/fd");
    seen.mappings = our_mappings();
    return 0;
}

int ranks_teardown(void **state)
{
    (void)state;
    workers_close(seen.open);
    seen.open = NULL;
    ranks_wait_for_keepers();
    return 0;
}

void ranks_assert_no_traces(void)
{
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(entries("/proc/self/fd"), seen.descriptors);
    assert_int_equal(our_mappings(), seen.mappings);
}

struct workers *ranks_open(const struct workers_options *o)
{
    struct err err = ERR_INIT;
    struct workers_options own = *o;
    if (apart.on && o->world > 1) ranks_start_keepers(&own);
    (void)!workers_open(&seen.open, &own, &err);
    assert_ok(&err);
    assert_non_null(seen.open);
    return seen.open;
}

void ranks_close(struct workers *w)
{
    workers_close(w);
    seen.open = NULL;
    ranks_wait_for_keepers();
    ranks_assert_no_traces();
}

void ranks_finish(struct workers *w)
{
    struct err err = ERR_INIT;
    (void)!workers_finish(w, &err);
    assert_ok(&err);
    int far = apart.world;
    ranks_close(w);
    for (int i = 1; i < far; i++) assert_int_equal(apart.status[i], 0);
}
