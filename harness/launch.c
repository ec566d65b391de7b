/* launch.c: see launch.h. */
#include "harness/launch.h"

#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The variables of a launcher. NULL: it has none. */
struct launcher {
    const char *name;
    const char *only_with; /* counts only where this one is set too */
    const char *rank, *world, *local_rank, *local_world;
    const char *host, *port;
    const char *run[2];              /* of the job; the second of its step or try */
    const char *hosts[2], *nodes[2]; /* of the step, else of the whole allocation */
};

#define MASTER "MASTER_ADDR", "MASTER_PORT"
#define NONE                                                                                       \
    {                                                                                              \
        NULL, NULL                                                                                 \
    }
#define RENDEZVOUS "ASSAY_RENDEZVOUS"
#define RUN "ASSAY_RUN"
#define TRANSPORT "ASSAY_TRANSPORT"
#define AGENT "TORCHELASTIC_USE_AGENT_STORE"

static const struct launcher launchers[] = {
    {"assay", NULL, "ASSAY_RANK", "ASSAY_WORLD", "ASSAY_LOCAL_RANK", "ASSAY_LOCAL_WORLD",
     "ASSAY_HOST", "ASSAY_PORT", NONE, NONE, NONE},
    {"torchrun",
     NULL,
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     MASTER,
     {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"},
     NONE,
     NONE},
    {"mpirun (Open MPI)",
     NULL,
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     MASTER,
     {"PMIX_NAMESPACE", NULL},
     NONE,
     NONE},
    {"mpirun (PMI)", NULL, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", MASTER,
     NONE, NONE, NONE},
    /* An allocation alone sets SLURM_PROCID as well; a step is what srun makes. */
    {"srun",
     "SLURM_STEP_ID",
     "SLURM_PROCID",
     "SLURM_NTASKS",
     "SLURM_LOCALID",
     NULL,
     MASTER,
     {"SLURM_JOB_ID", "SLURM_STEP_ID"},
     {"SLURM_STEP_NUM_NODES", "SLURM_NNODES"},
     {"SLURM_STEP_NODELIST", "SLURM_NODELIST"}},
};
enum { LAUNCHERS = sizeof launchers / sizeof launchers[0], RANKS_MOST = 1 << 20 };

/* A whole number in [min, max]; dflt where the variable is not there. */
static enum err_code number(launch_variable *get, const struct launcher *by, const char *name,
                            int min, int max, int dflt, int *out, struct err *err)
{
    const char *text = name ? get(name) : NULL;
    int64_t v;
    *out = dflt;
    if (!text) return ERR_OK;
    if (!text_int(text, &v) || v < min || v > max)
        return err_set(err, ERR_INPUT, "launcher|%s: %s|\"%.40s\"|%d .. %d", by->name, name, text,
                       min, max);
    *out = (int)v;
    return ERR_OK;
}

static bool is_here(launch_variable *get, const struct launcher *by)
{
    if (by->only_with && !get(by->only_with)) return false;
    return get(by->rank) || get(by->world);
}

/* Of two variables that say the same the first that is set; NULL: neither. */
static const char *either(launch_variable *get, const char *const names[2])
{
    for (int i = 0; i < 2; i++) {
        if (names[i] && get(names[i])) return names[i];
    }
    return NULL;
}

static enum err_code read_nodes(struct launch *l, launch_variable *get, const struct launcher *by,
                                struct err *err)
{
    const char *nodes = either(get, by->nodes);
    snprintf(l->nodes, sizeof l->nodes, "%s", nodes ? get(nodes) : "");
    return number(get, by, either(get, by->hosts), 1, l->world, -1, &l->hosts, err);
}

/* "4711.0" of the launcher, or what the user says; in one word. */
static void read_run(struct launch *l, launch_variable *get, const struct launcher *by)
{
    const char *own = get(RUN), *first = by->run[0] ? get(by->run[0]) : NULL;
    const char *second = by->run[1] ? get(by->run[1]) : NULL;
    if (own)
        snprintf(l->run, sizeof l->run, "%s", own);
    else
        snprintf(l->run, sizeof l->run, "%s%s%s", first ? first : "", second ? "." : "",
                 second ? second : "");
    for (char *p = l->run; *p; p++) {
        if (*p <= ' ' || *p > '~') *p = '_';
    }
}

/* "HOST:PORT", "[ADDRESS]:PORT". */
static enum err_code read_rendezvous(struct launch *l, const char *text, struct err *err)
{
    const char *end = strrchr(text, ':');
    size_t n = end ? (size_t)(end - text) : 0;
    bool bare = n > 2 && text[0] == '[' && text[n - 1] == ']';
    int64_t port = 0;
    if (n == 0 || n >= LAUNCH_HOST || !text_int(end + 1, &port) || port < 1 ||
        port > LAUNCH_PORT_MOST)
        return err_set(err, ERR_INPUT,
                       "launcher|" RENDEZVOUS "|\"%.60s\"|HOST:PORT, as node0:29500 or "
                       "[fd00::1]:29500",
                       text);
    snprintf(l->host, sizeof l->host, "%.*s", (int)(bare ? n - 2 : n), bare ? text + 1 : text);
    l->port = (int)port;
    return ERR_OK;
}

static enum err_code read_transport(struct launch *l, launch_variable *get, struct err *err)
{
    static const char *const names[] = {"", "shm", "tcp"};
    const char *text = get(TRANSPORT);
    for (int i = LAUNCH_ANY; i <= LAUNCH_TCP; i++) {
        l->transport = (enum launch_transport)i;
        if (strcmp(text ? text : "", names[i]) == 0) return ERR_OK;
    }
    return err_set(err, ERR_USAGE, TRANSPORT "|environment|\"%.40s\"|shm or tcp", text);
}

/* What one variable says for every launcher, and what torchrun's agent needs itself. */
static enum err_code read_common(struct launch *l, launch_variable *get, struct err *err)
{
    const char *at = get(RENDEZVOUS), *agent = get(AGENT);
    if (read_transport(l, get, err) != ERR_OK) return err->code;
    if (at) return read_rendezvous(l, at, err);
    if (agent && strcmp(agent, "True") == 0 && l->port > 0)
        l->port += l->port < LAUNCH_PORT_MOST ? 1 : -1;
    return ERR_OK;
}

static enum err_code read_one(struct launch *l, launch_variable *get, const struct launcher *by,
                              struct err *err)
{
    *l = (struct launch){.by = by->name};
    const char *missing = !get(by->rank) ? by->rank : !get(by->world) ? by->world : NULL;
    if (missing)
        return err_set(err, ERR_INPUT, "launcher|%s: %s|not set, though %s is|both", by->name,
                       missing, missing == by->rank ? by->world : by->rank);
    if (number(get, by, by->world, 1, RANKS_MOST, 1, &l->world, err) != ERR_OK ||
        number(get, by, by->rank, 0, l->world - 1, 0, &l->rank, err) != ERR_OK ||
        number(get, by, by->local_world, 1, l->world, -1, &l->local_world, err) != ERR_OK ||
        number(get, by, by->local_rank, 0, (l->local_world > 0 ? l->local_world : l->world) - 1, -1,
               &l->local_rank, err) != ERR_OK ||
        number(get, by, by->port, 1, LAUNCH_PORT_MOST, 0, &l->port, err) != ERR_OK)
        return err->code;
    const char *host = get(by->host);
    if (host && strlen(host) >= LAUNCH_HOST)
        return err_set(err, ERR_INPUT, "launcher|%s: %s|%zu bytes|fewer than %d", by->name,
                       by->host, strlen(host), LAUNCH_HOST);
    snprintf(l->host, sizeof l->host, "%s", host ? host : "");
    read_run(l, get, by);
    return read_nodes(l, get, by, err);
}

enum err_code launch_read_from(struct launch *l, launch_variable *get, struct err *err)
{
    *l = (struct launch){.world = 1, .local_rank = -1, .local_world = -1, .hosts = -1};
    for (int i = 0; i < LAUNCHERS; i++) {
        struct launch other;
        if (!is_here(get, &launchers[i])) continue;
        if (read_one(&other, get, &launchers[i], err) != ERR_OK) return err->code;
        if (!l->by) {
            *l = other;
        } else if (other.rank != l->rank || other.world != l->world) {
            return err_set(err, ERR_INPUT,
                           "launcher|two at once|rank %d of %d by %s|rank %d of "
                           "%d, as %s says",
                           other.rank, other.world, other.by, l->rank, l->world, l->by);
        }
    }
    return l->by ? read_common(l, get, err) : ERR_OK;
}

static const char *of_environment(const char *name)
{
    return getenv(name);
}

enum err_code launch_read(struct launch *l, struct err *err)
{
    return launch_read_from(l, of_environment, err);
}

bool launch_apart(const struct launch *l)
{
    return l->hosts > 1 || (l->local_world > 0 && l->local_world < l->world);
}

enum err_code launch_check_hosts(const struct launch *l, struct err *err)
{
    char own[LAUNCH_HOST] = "?", found[ERR_PART];
    bool known = l->host[0] && l->port > 0;
    if (!launch_apart(l) || (l->transport != LAUNCH_SHM && known)) return ERR_OK;
    (void)gethostname(own, sizeof own - 1);
    if (l->hosts > 1)
        snprintf(found, sizeof found, "%d hosts%s%.100s", l->hosts, l->nodes[0] ? ": " : "",
                 l->nodes);
    else
        snprintf(found, sizeof found, "%d of the %d ranks on this host", l->local_world, l->world);
    return err_set(err, ERR_USAGE, "launcher|%s: rank %d, on host %.60s|%s%s|%s", l->by, l->rank,
                   own, found, known ? "" : ", and nothing says where rank 0 can be reached",
                   known ? "all ranks on one host: " TRANSPORT "=shm is memory that they share"
                         : RENDEZVOUS "=HOST:PORT on all ranks, or MASTER_ADDR and MASTER_PORT");
}
