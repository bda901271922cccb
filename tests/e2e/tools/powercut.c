/* Makes disk states of client and server that a power cut may have left (tests/support/disk_model.h).
 *
 *   powercut build LOG CUT CLIENT SERVER SEED DIR: makes DIR/client and DIR/server
 *   powercut plan LOG COUNT SEED: prints COUNT distinct pairs of states (fewer if there are no more), a line each:
 *     CUT CLIENT SERVER SEED PROMISED DONE OLD
 *   powercut first LOG: the first cut
 *
 * -f BYTES: only cuts after that byte of the log. -d SIDE:KIND: pretends that the program on that side omitted that
 * kind of sync, to test that the check finds it. CUT: the number of records that have happened, or "end".
 *
 * PROMISED: --resume must continue from this step or a later one: the step of the client's last checkpoint but one,
 * as the last may be incomplete; 0: no checkpoint is promised. DONE: the final model has its name, so there may be no
 * checkpoint any more. OLD: with -f, the previous run may still be there: its log has not been emptied. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/disk_model.h"

struct promise {
	unsigned long long step;
	bool done, old;
};

static bool is_file(const struct disk_record *r, const char *path, const char *begin, const char *end)
{
	const char *name = strrchr(path, '/');
	size_t n, e = strlen(end);

	if (!name || strncmp(r->path, "client/", 7) != 0)
		return false;
	n = strlen(++name);
	return strncmp(name, begin, strlen(begin)) == 0 && n >= e && strcmp(name + n - e, end) == 0;
}

static bool is_model(const struct disk_record *r)
{
	return r->head.op == DISK_RENAME && is_file(r, r->path2, "model", ".safetensors");
}

static struct promise promised(int from, int cut)
{
	struct promise p = {.old = from > 0};
	unsigned long long begun[4096], step;
	int n = 0, models = 0;

	for (int i = cut; i < disk_records; i++)
		models += is_model(&disk_record[i]);

	for (int i = from; i < cut; i++) {
		const struct disk_record *r = &disk_record[i];

		if (r->head.op == DISK_TRUNCATE && r->head.at == 0) /* of a log: nothing else is */
			p.old = false;
		p.done = p.done || (!models && is_model(r));
		if (r->head.op == DISK_OPEN && is_file(r, r->path, "checkpoint-", ".tmp") && n < 4096 &&
		    sscanf(strrchr(r->path, '/'), "/checkpoint-%llu", &step) == 1)
			begun[n++] = step;
	}
	for (int i = 0; i < n; i++)
		if (begun[i] < begun[n - 1] && begun[i] > p.step)
			p.step = begun[i];
	return p;
}

/* Cuts between two calls that write to the disk or remove from it are the most likely to show a fault. */
static bool busy(int cut)
{
	for (int i = cut - 1; i <= cut; i++)
		if (i >= 0 && i < disk_records && disk_record[i].head.op != DISK_WRITE &&
		    disk_record[i].head.op != DISK_CLOSE)
			return true;
	return false;
}

static int plan(int from, int count, uint64_t seed)
{
	uint64_t *seen = calloc((size_t)count + 1, sizeof *seen);
	int n = 0, same = 0;

	while (seen && n < count && same < 1000) {
		int cut = from + (int)disk_random(&seed, (uint64_t)(disk_records - from)) + 1, known = 0;
		uint64_t which = disk_random(&seed, 4), pick = disk_random(&seed, 1000000), hash;
		enum disk_mode mode[DISK_SIDES] = {(enum disk_mode)disk_random(&seed, DISK_MODE_COUNT),
						   (enum disk_mode)disk_random(&seed, DISK_MODE_COUNT)};
		struct promise p = promised(from, cut);

		if (!busy(cut) && disk_random(&seed, 16))
			continue;
		if (which < DISK_SIDES) /* of the other side only the process has died */
			mode[which] = DISK_ALL;
		hash = disk_state(DISK_CLIENT, cut, mode[DISK_CLIENT], pick, NULL) ^
		       3 * disk_state(DISK_SERVER, cut, mode[DISK_SERVER], pick, NULL);
		while (known < n && seen[known] != hash)
			known++;
		same = known < n ? same + 1 : 0;
		if (known < n)
			continue;
		seen[n++] = hash;
		printf("%d %s %s %" PRIu64 " %llu %d %d\n", cut, disk_mode_name[mode[DISK_CLIENT]],
		       disk_mode_name[mode[DISK_SERVER]], pick, p.step, p.done, p.old);
	}
	free(seen);
	return n > 0 ? 0 : 1;
}

static enum disk_mode mode_of(const char *name)
{
	int m = 0;

	while (m < DISK_MODE_COUNT && strcmp(disk_mode_name[m], name) != 0)
		m++;
	if (m == DISK_MODE_COUNT)
		disk_die("no such state:", name);
	return (enum disk_mode)m;
}

static int build(char **argv)
{
	int cut = strcmp(argv[0], "end") == 0 ? disk_records : atoi(argv[0]);
	uint64_t seed = strtoull(argv[3], NULL, 10);

	if (cut < 0 || cut > disk_records)
		disk_die("no such cut:", argv[0]);
	for (int side = 0; side < DISK_SIDES; side++)
		disk_state(side, cut, mode_of(argv[1 + side]), seed, argv[4]);
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t from_byte = 0;
	int from = 0, o;

	while ((o = getopt(argc, argv, "d:f:")) != -1) {
		if (o == 'd')
			disk_drop(optarg);
		else if (o == 'f')
			from_byte = strtoull(optarg, NULL, 10);
		else
			return 64;
	}
	argv += optind;
	argc -= optind;
	if (argc < 2)
		return 64;
	disk_read_log(argv[1]);
	while (from < disk_records && disk_record[from].end <= from_byte)
		from++;
	if (argc == 7 && strcmp(argv[0], "build") == 0)
		return build(argv + 2);
	if (argc == 4 && strcmp(argv[0], "plan") == 0)
		return plan(from, atoi(argv[2]), strtoull(argv[3], NULL, 10));
	if (argc == 2 && strcmp(argv[0], "first") == 0)
		return printf("%d\n", from) < 0;
	return 64;
}
