/* chance.c: see chance.h. */
#include "harness/chance.h"

#include "core/synth.h"

#include <math.h>

static double uniform(uint64_t seed, const char *purpose, int64_t index)
{
    return (double)(synth_x(synth_base(seed, purpose), index) >> 11) * 0x1p-53;
}

double chance_draft(uint64_t seed, int64_t position)
{
    return uniform(seed, "generate.draft", position);
}

double chance_coin(uint64_t seed, int64_t position, int64_t token, int64_t V)
{
    return uniform(seed, "generate.coin", position * V + token);
}

double chance_draw(uint64_t seed, int64_t position)
{
    return uniform(seed, "generate.draw", position);
}

void chance_law(const double *logits, int64_t V, double temperature, double *law)
{
    double max = -INFINITY, sum = 0;
    for (int64_t x = 0; x < V; x++) max = logits[x] > max ? logits[x] : max;
    for (int64_t x = 0; x < V; x++) sum += law[x] = exp((logits[x] - max) / temperature);
    for (int64_t x = 0; x < V; x++) law[x] /= sum;
}

int64_t chance_pick(const double *law, int64_t V, double u)
{
    double whole = 0, sum = 0;
    int64_t x = 0;
    for (int64_t i = 0; i < V; i++) whole += law[i];
    while (x < V - 1 && !(sum + law[x] > u * whole)) sum += law[x++];
    return x;
}
