/* Long outages of sites: three members train for days while their networks fail as consortia of hospitals report it.
 * Prints for each policy how long the run takes, how many of its steps the members have, and how many rows are trained.
 * Times are those of a real run: only a computation takes longer than it would, so that a step takes minutes and ten
 * days stay cheap. Timers of the loop go each second at most. */
#include <math.h>
#include <stdio.h>

#include "tests/sim/sim.h"

#define NS_PER_S (1000ull * SIM_MS)
enum { SITES = 3, OUTAGES_MOST = 4096, DAY_S = 86400 };
/* A part of the rows for each site. */
static const double rows_of[SITES] = {0.17, 0.17, 0.66};

#define ALWAYS                                                                                                   \
	"train.epochs=100000 train.eval_every=0 train.checkpoint_every=12 link.heartbeat_ms=5000 "               \
	"link.timeout_ms=15000 link.retry_ms=1000 link.stall_s=1800 link.connect_timeout_ms=60000 watchdog_s=0 " \
	"share.wait_s=3600 share.clients=3 share.quorum=2 "
#define POLICY(name, sets)                                                       \
	{                                                                        \
		name, ALWAYS sets, SITES, SIM_OUTAGES, .without = ~0u, .with = 0 \
	}
const struct sim_row sim_policy[] = {
	POLICY("least: 0, patience 15 min", "share.least=0 share.patience_s=900"),
	POLICY("least: 0.8, patience 15 min", "share.least=0.8 share.patience_s=900"),
	POLICY("least: 0.9, patience 15 min", "share.least=0.9 share.patience_s=900"),
	POLICY("least: 0.9, ten steps", "share.least=0.9"),
	POLICY("least: 0.98, patience 15 min", "share.least=0.98 share.patience_s=900"),
	POLICY("least: 1", "share.least=1"),
	{NULL, NULL, 0, SIM_OUTAGES, 0, 0},
};

static struct outage {
	double from, to;
} outage[SITES][OUTAGES_MOST];
static int outages[SITES], at[SITES];

/* In [0, 1). */
static double chance(void)
{
	return (double)sim_draw(SIM_FAULT, 1ull << 53) / (double)(1ull << 53);
}

static double bell(void)
{
	return sqrt(-2 * log(1 - chance())) * cos(2 * M_PI * chance());
}

static void add(int k, double from, double to)
{
	struct outage *o = outage[k];
	int i = outages[k];

	if (i == OUTAGES_MOST)
		return;
	for (; i && o[i - 1].from > from; i--)
		o[i] = o[i - 1];
	o[i] = (struct outage){from, to};
	outages[k]++;
}

/* The site's network is away until then. */
static void cut_off(void *arg)
{
	struct sim_proc *p = arg;
	const struct outage *o = &outage[p->id][at[p->id]++];
	const uint64_t until = (uint64_t)(o->to * 1e9);

	p->parted_until = until > p->parted_until ? until : p->parted_until;
	sim_trace("%s is cut off for %.0f s", sim_name(p), o->to - o->from);
}

/* For each site: three short drops a day with a median of 30 s; a tunnel that fails each 25 hours for 6 minutes to 2.5
 * hours; and for a third of the sites a weekend, of half a day to three days. */
void sim_outages_plan(int days)
{
	for (int k = 0; k < SITES && days; k++) {
		const double end = 3.0 * days * DAY_S;

		for (double t = 1; (t -= log(1 - chance()) * DAY_S / 3) < end;)
			add(k, t, t + fmin(300, fmax(3, exp(3.4 + bell()))));
		for (double t = 1; (t -= log(1 - chance()) * 90000) < end;)
			add(k, t, t + 360 * pow(25, chance()));
		if (chance() < 0.33) {
			const double from = chance() * days * DAY_S;

			add(k, from, from + DAY_S * (0.5 + 2.5 * chance()));
		}
		for (int i = 0; i < outages[k]; i++)
			sim_at(NULL, (uint64_t)(outage[k][i].from * 1e9) - sim.now_ns, cut_off, &sim.proc[k]);
	}
}

/* A part of all rows that the run would have with all members. */
double sim_outages_rows(const double part[SIM_MEMBERS])
{
	double rows = 0;

	for (int k = 0; k < SITES; k++)
		rows += rows_of[k] * part[k];
	return rows;
}
