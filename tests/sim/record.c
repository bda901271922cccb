/* What a member's log says of who took part, beside what its server says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"

static int steps_of(const char *losses)
{
	int n = 0;

	for (const char *at = losses; (at = strstr(at, "step ")); at++)
		n++;
	return n;
}

bool sim_tells_of_lines(int k, const char *losses, const char *all)
{
	const int without = steps_of(all) - steps_of(losses), told = sim.proc[k].without;

	if (told != without)
		sim_fail("member %d: its log lacks lines of %d steps, and it tells of %d", k, without, told);
	return told > 0;
}

bool sim_came_behind_end(int k)
{
	char item[48];

	snprintf(item, sizeof item, "%d:%llu-%llu@", k, (unsigned long long)sim.steps + 1,
		 (unsigned long long)sim.steps);
	return strstr(sim.absent, item) != NULL;
}

/* Whether by the server's log a member has missed more steps than share.least allows. It is told of, unless the group
 * was to go on. */
bool sim_row_lacks(const struct sim_row *row)
{
	const char *value = strstr(row->sets, "share.least=");
	const double least = value ? strtod(value + strlen("share.least="), NULL) : 0;
	const int steps = sim.steps < SIM_STEPS ? (int)sim.steps : SIM_STEPS;
	bool lacks = false;

	for (int k = 0; k < row->members && value; k++) {
		int missed = 0;

		for (int step = 0; step < steps; step++)
			missed += sim.missed[step][k];
		lacks = lacks || missed > (1 - least) * steps + 1e-9;
		if (lacks && !strstr(row->sets, "go_on"))
			sim_fail("%s missed %d of %d steps, and share.least is %g", sim_name(&sim.proc[k]), missed,
				 steps, least);
	}
	return lacks;
}

/* Whether a member's list is the server's. The member may have gone before another one came back behind the last step,
 * such as 0:22-30@21: then it lacks that place. */
static bool is_list(const char *list, const char *all)
{
	char last[24];
	const char *begin = all;
	const size_t len =
		(size_t)snprintf(last, sizeof last, "-%d", sim.steps < SIM_STEPS ? (int)sim.steps : SIM_STEPS);

	while (*list || *all)
		if (*all == '@' && *list != '@' && (size_t)(all - begin) >= len && strncmp(all - len, last, len) == 0)
			all += 1 + strspn(all + 1, "0123456789");
		else if (*list++ != *all++)
			return false;
	return true;
}

void sim_compare_record(int k)
{
	static const char key[] = "\"absent\":\"";
	char path[64], line[16384], list[4096] = "";
	bool told = false;
	FILE *f;

	snprintf(path, sizeof path, "client/run%d/log.jsonl", k);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f)) {
		const char *at = strstr(line, "\"type\":\"summary\"") ? strstr(line, key) : NULL;

		told = at != NULL;
		if (at)
			snprintf(list, sizeof list, "%.*s", (int)strcspn(at + strlen(key), "\""), at + strlen(key));
	}
	if (f)
		fclose(f);
	if (told && !is_list(list, sim.absent))
		sim_fail("member %d: its list is %.200s, and the server's %.200s", k, list, sim.absent);
}
