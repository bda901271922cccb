/* sim [--seeds N] [--first N] [--row NAME] [--jobs N] [--trace] …: runs seeds, each in a process of its own, over all
 * rows. For one that fails it leaves out faults while the same is found, and prints what is left as a story. */
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/cpu/cpu.h"
#include "tests/sim/sim.h"

enum {
	JOBS_MOST = 256,
	FAULTS_MOST = 8,
	SECONDS_MOST = 120,
	LIST_MOST = 64,
	AGAIN_EVERY = 50,
	CANNOT = 99,
	OUTAGES_SLOW = 8400,
	SEEDS_MOST = 64
};

static const char usage[] =
	"usage: sim [--seeds N] [--first N] [--row NAME] [--jobs N] [--faults N]   runs seeds 1 to 300\n"
	"       sim --seed N [--row NAME] [--keep LIST] [--trace]                  runs one, with its story\n"
	"Runs the real client and server in one process on a simulated clock, network and disk, under faults that the\n"
	"seed draws, and compares with `splitc train --local` (environment: SPLITC, the program).\n"
	"  --row NAME   only this config of tests/sim/rows.h; otherwise seeds are dealt over all of them\n"
	"  --faults N   at most so many faults for each seed (8)\n"
	"  --kinds LIST only faults of these kinds, such as FULL,KILL_DISK (enum sim_kind)\n"
	"  --keep LIST  only these of the seed's faults, such as 1,4; \"\": none\n"
	"  --trace      prints what happens\n"
	"  --first-bad  ends at the first seed that fails, with all its faults\n"
	"  --seconds N  of the processor, for each seed (120)\n"
	"  --days N     what a group's keys cost while sites' networks fail for N days: a table, no comparison\n"
	"  --unseen     fails if no seed reaches a rule of a table, or a kill at a failpoint, that "
	"tests/sim/unreached\n"
	"               does not name\n";

struct options {
	uint64_t seeds, first;
	bool one, asked, trace, first_bad, unseen; /* asked: for a row or certain seeds */
	const char *row, *keep, *kinds, *splitc;
	int jobs, faults, days, seconds;
};

/* One run of a seed; `keep` as for sim_keep_faults. */
struct attempt {
	uint64_t seed;
	const struct sim_row *row;
	const char *kinds; /* of its faults; NULL: all */
	int faults;        /* at most so many */
	char keep[LIST_MOST];
	bool only; /* keep holds */
	bool calm; /* of outages.c */
};

/* What the process of an attempt leaves in shared memory. */
struct report {
	bool ended, failed;
	int faults, fired, starts;
	uint64_t events, hash, ns, steps;
	double part[SIM_MEMBERS];
	char why[SIM_TEXT];
	struct sim_fault fault[SIM_FAULTS];
	long seen[256];
};

struct job {
	pid_t pid; /* 0: none */
	struct attempt attempt;
	struct report *report;
};

static struct options o = {.seeds = 300, .first = 1, .jobs = 1, .faults = FAULTS_MOST, .seconds = SECONDS_MOST};
static struct job job[JOBS_MOST + 1]; /* the last one shrinks */
static struct report total;
static uint64_t runs, bad;
static volatile sig_atomic_t stopped;
static char work[] = "/dev/shm/split-sim.XXXXXX"; /* a folder of each job's disks, which are in memory */

static int removed(const char *path, const struct stat *st, int flag, struct FTW *f)
{
	return remove(path) && 0;
}

static void remove_folder(const char *path)
{
	nftw(path, removed, 16, FTW_DEPTH | FTW_PHYS);
}

static void remove_work(void)
{
	if (chdir("/") == 0)
		remove_folder(work);
}

/* ---- one attempt ---- */

static void name_processes(const struct sim_row *row)
{
	sim.members = row->members;
	sim.slow_disks = strncmp(row->name, "slow-", 5) == 0;
	sim.slow = row->oracle == SIM_OUTAGES ? OUTAGES_SLOW : row->oracle == SIM_ABSENT ? 8 : 1;
	sim.days = o.days;
	for (int i = 0; i < SIM_PROCS; i++) {
		sim.proc[i].id = i;
		sim.proc[i].side = i == SIM_SERVES ? SIM_SERVER : SIM_CLIENT;
	}
}

/* The set of kinds that a list names; 0: one is unknown. */
static unsigned kinds_of(const char *list)
{
	unsigned kinds = 0;

	for (const char *p = list; *p; p += *p == ',') {
		const size_t n = strcspn(p, ",");
		int k = 0;

		while (k < SIM_KINDS && (strncmp(sim_kind_name[k], p, n) != 0 || sim_kind_name[k][n]))
			k++;
		if (k == SIM_KINDS)
			return 0;
		kinds |= 1u << k;
		p += n;
	}
	return kinds;
}

/* Never returns. */
static void attempt(const struct attempt *a, struct report *r, const char *folder)
{
	const int null = open("/dev/null", O_WRONLY);
	/* the processor's time, not the clock's: the machine may be busy */
	const struct rlimit limit = {(rlim_t)o.seconds, (rlim_t)o.seconds};

	setrlimit(RLIMIT_CPU, &limit);
	if (mkdir(folder, 0777) || chdir(folder))
		_exit(CANNOT);
	if (!o.trace) {
		dup2(null, 1);
		dup2(null, 2);
	}
	sim.seed = a->seed;
	sim.traced = o.trace;
	name_processes(a->row);
	sim.calm = a->calm;
	sim_plan(a->faults, ~a->row->without & (a->kinds ? kinds_of(a->kinds) : ~SIM_RARE | a->row->with));
	sim_keep_faults(a->only ? a->keep : NULL);
	sim_run(a->row);
	r->failed = sim.failed;
	r->faults = sim.faults;
	r->fired = sim.armed;
	for (int i = 0; i < SIM_PROCS; i++)
		r->starts += sim.proc[i].starts;
	r->events = sim.events;
	r->hash = sim.hash;
	r->ns = sim.now_ns;
	r->steps = sim.steps;
	memcpy(r->part, sim.part, sizeof r->part);
	memcpy(r->why, sim.why, sizeof r->why);
	memcpy(r->fault, sim.fault, sizeof r->fault);
	memcpy(r->seen, sim.seen, sizeof r->seen);
	r->ended = true;
	_exit(0);
}

static void folder_of(const struct job *j, char out[32])
{
	snprintf(out, 32, "run-%03d", (int)(j - job));
}

static void begin(struct job *j, const struct attempt *a)
{
	char folder[32];

	folder_of(j, folder);
	j->attempt = *a;
	memset(j->report, 0, sizeof *j->report);
	fflush(stdout);
	j->pid = fork();
	if (j->pid < 0) {
		perror("sim: fork");
		exit(2);
	}
	if (j->pid == 0)
		attempt(a, j->report, folder);
}

static void end(struct job *j, int status)
{
	struct report *r = j->report;
	char folder[32];

	folder_of(j, folder);
	remove_folder(folder);
	j->pid = 0;
	if (r->ended)
		return;
	if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT) {
		fprintf(stderr, "sim: %s cannot be made in /dev/shm\n", folder);
		exit(2);
	}
	r->failed = true;
	snprintf(r->why, sizeof r->why, "the simulated processes end with %s %d",
		 WIFSIGNALED(status) ? "signal" : "status",
		 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static const struct report *try_now(const struct attempt *a)
{
	struct job *j = &job[JOBS_MOST];
	int status;

	begin(j, a);
	waitpid(j->pid, &status, 0);
	end(j, status);
	return j->report;
}

/* ---- a seed that fails ---- */

/* Leaves out one fault after the other while the same is found. */
static void shrink(struct attempt *a, int faults, const char *why)
{
	int kept[SIM_FAULTS], n = faults;

	for (int i = 0; i < n; i++)
		kept[i] = i + 1;
	for (int out = 0; out < n && !stopped;) {
		struct attempt less = *a;
		const struct report *r;
		int len = 0;

		less.only = true;
		less.keep[0] = '\0';
		for (int i = 0; i < n; i++)
			if (i != out)
				len += snprintf(less.keep + len, sizeof less.keep - (size_t)len, "%s%d", len ? "," : "",
						kept[i]);
		r = try_now(&less);
		if (!r->failed || strcmp(r->why, why) != 0) {
			out++;
			continue;
		}
		memmove(&kept[out], &kept[out + 1], (size_t)(--n - out) * sizeof kept[0]);
		*a = less;
		out = 0;
	}
}

static void tell(const struct attempt *a, const struct report *r)
{
	char text[256];

	printf("seed %llu, row %s: %s\n", (unsigned long long)a->seed, a->row->name,
	       r->failed ? r->why : "equals --local");
	name_processes(a->row);
	for (int i = 0; i < r->fired; i++) {
		sim_fault_text(&r->fault[i], text, sizeof text);
		printf("  %d  %s\n", i + 1, text);
	}
	printf("  again: make sim ROW=%s SEED=%llu", a->row->name, (unsigned long long)a->seed);
	if (a->kinds)
		printf(" KINDS=%s", a->kinds);
	if (a->faults != FAULTS_MOST)
		printf(" FAULTS=%d", a->faults);
	printf(a->only ? " KEEP='%s'\n" : "\n", a->keep);
	fflush(stdout);
}

static void judge(const struct attempt *tried, const struct report *report)
{
	struct attempt a = *tried;
	struct report r = *report;

	if (!r.failed && (o.one || a.seed % AGAIN_EVERY == 0) && try_now(&a)->hash != r.hash) {
		r.failed = true;
		snprintf(r.why, sizeof r.why, "the same seed went another way when it ran again");
		r.fired = 0;
	} else if (r.failed && !a.only && !stopped && !o.first_bad) {
		shrink(&a, r.faults ? r.faults : FAULTS_MOST, report->why);
		r = a.only ? *try_now(&a) : r;
	}
	runs++;
	bad += r.failed;
	total.events += r.events;
	total.ns += r.ns;
	total.fired += r.fired;
	total.starts += r.starts;
	for (int i = 0; i < 256; i++)
		total.seen[i] += r.seen[i];
	if (r.failed || o.one)
		tell(&a, &r);
}

/* ---- many seeds ---- */

static const struct {
	const char *row;
	uint64_t seed;
	const char *keep, *kinds;
	int faults;
} once_failed[] = {
#define CASE(row, seed, keep, what)                   {row, seed, keep, NULL, FAULTS_MOST},
#define CASE_OF(row, seed, kinds, faults, keep, what) {row, seed, keep, kinds, faults},
#include "tests/sim/cases.h"
#undef CASE
#undef CASE_OF
	{NULL, 0, NULL, NULL, 0},
};

static uint64_t rows_count(void)
{
	uint64_t n = 0;

	while (sim_row[n].name)
		n++;
	return n;
}

static const struct sim_row *row_named(const char *name)
{
	for (const struct sim_row *row = sim_row; row->name; row++)
		if (strcmp(row->name, name) == 0)
			return row;
	fprintf(stderr, "sim: tests/sim/rows.h has no row %s\n", name);
	exit(2);
}

static void wait_for_one(void)
{
	int status;
	const pid_t pid = wait(&status);

	for (int i = 0; i < JOBS_MOST; i++)
		if (job[i].pid == pid && pid > 0) {
			end(&job[i], status);
			judge(&job[i].attempt, job[i].report);
		}
}

/* Makes the reference of a row, once. */
static void learn(const struct sim_row *row)
{
	const struct attempt none = {.seed = 1, .row = row, .only = true};
	static bool learned;
	bool made = learned;

	if (row->oracle != SIM_SCRIPT) {
		made = sim_reference_make(row, o.splitc);
	} else if (!made) {
		sim.learns = true;
		made = learned = !try_now(&none)->failed;
		sim.learns = false;
	}
	if (!made) {
		fprintf(stderr, "sim: row %s: its run without faults failed\n", row->name);
		exit(2);
	}
}

static const int cases = sizeof once_failed / sizeof *once_failed - 1;

/* The i-th attempt: seeds that once failed come first, unless something else is asked for. */
static struct attempt attempt_at(uint64_t i)
{
	const struct sim_row *only = o.row ? row_named(o.row) : NULL;
	struct attempt a = {
		.seed = o.first + i, .row = only, .kinds = o.kinds, .faults = o.faults, .only = o.keep != NULL};

	if (o.keep)
		snprintf(a.keep, sizeof a.keep, "%s", o.keep);
	if (o.asked)
		return a.row = only ? only : &sim_row[a.seed % rows_count()], a;
	if (i < (uint64_t)cases) {
		a = (struct attempt){.seed = once_failed[i].seed,
				     .row = row_named(once_failed[i].row),
				     .kinds = once_failed[i].kinds,
				     .faults = once_failed[i].faults,
				     .only = true};
		snprintf(a.keep, sizeof a.keep, "%s", once_failed[i].keep);
		return a;
	}
	a.seed -= (uint64_t)cases;
	a.row = &sim_row[a.seed % rows_count()];
	return a;
}

static void run_all(void)
{
	const uint64_t all = o.seeds + (o.asked ? 0 : (uint64_t)cases);
	int busy = 0;

	for (uint64_t i = 0; (i < all && !stopped) || busy;) {
		struct attempt a;
		int free = 0;

		if (busy == o.jobs || i >= all || stopped) {
			wait_for_one();
			busy--;
			if (o.first_bad && bad)
				stopped = 1;
			continue;
		}
		a = attempt_at(i++);
		learn(a.row);
		while (job[free].pid)
			free++;
		begin(&job[free], &a);
		busy++;
	}
}

/* A row of the table: means over the seeds, and the worst of them. */
static void run_policy(const struct sim_row *row, const double calm[SEEDS_MOST])
{
	double sum[3] = {0}, worst[3] = {0, 1, 1};
	int n = 0;

	for (uint64_t i = 0; i < o.seeds && !stopped; i++) {
		const struct attempt a = {.seed = o.first + i, .row = row, .only = true};
		const struct report *r = try_now(&a);

		runs++;
		if (r->failed || r->steps < (uint64_t)o.days * SIM_STEPS_A_DAY) {
			bad++;
			printf("seed %llu, %s: %s\n", (unsigned long long)a.seed, row->name,
			       r->failed ? r->why : "steps are missing");
			continue;
		}
		const double least = fmin(fmin(r->part[0], r->part[1]), r->part[2]);
		const double is[3] = {(double)r->ns / calm[i], least, sim_outages_rows(r->part)};

		for (int j = 0; j < 3; j++) {
			sum[j] += is[j];
			worst[j] = j ? fmin(worst[j], is[j]) : fmax(worst[j], is[j]);
		}
		n++;
	}
	if (n)
		printf("| %s | %.2f (%.2f) | %.1f (%.1f) | %.1f (%.1f) |\n", row->name, sum[0] / n, worst[0],
		       100 * sum[1] / n, 100 * worst[1], 100 * sum[2] / n, 100 * worst[2]);
	fflush(stdout);
}

static void run_policies(void)
{
	double calm[SEEDS_MOST], sum = 0; /* times without outages */

	o.seeds = o.seeds < SEEDS_MOST ? o.seeds : SEEDS_MOST;
	for (uint64_t i = 0; i < o.seeds; i++) {
		const struct attempt a = {.seed = o.first + i, .row = sim_policy, .only = true, .calm = true};

		sum += calm[i] = (double)try_now(&a)->ns;
	}
	printf("%d steps, of %.0f s without outages\n\n", o.days * SIM_STEPS_A_DAY,
	       sum * 1e-9 / (double)o.seeds / o.days / SIM_STEPS_A_DAY);
	printf("| %d days, %llu runs | time | least part of a member, %% | rows trained, %% |\n|---|---|---|---|\n",
	       o.days, (unsigned long long)o.seeds);
	for (const struct sim_row *row = sim_policy; row->name; row++)
		run_policy(row, calm);
}

static void summarize(void)
{
	int seen = 0, all = 0;

	for (; sim_failpoint_name(all); all++)
		seen += total.seen[all] > 0;
	printf("%llu seeds, %llu failed: %d faults, %d starts, %.1f million events, %.0f simulated s, %d of %d "
	       "failpoints\n",
	       (unsigned long long)runs, (unsigned long long)bad, total.fired, total.starts,
	       (double)total.events * 1e-6, (double)total.ns * 1e-9, seen, all);
}

static void stop(int signum)
{
	stopped = 1;
}

static int take_options(int argc, char **argv)
{
	static const struct option known[] = {
		{"seeds", 1, NULL, 'n'}, {"first", 1, NULL, 'f'},     {"seed", 1, NULL, 's'},
		{"row", 1, NULL, 'r'},   {"keep", 1, NULL, 'k'},      {"jobs", 1, NULL, 'j'},
		{"trace", 0, NULL, 't'}, {"first-bad", 0, NULL, 'b'}, {"unseen", 0, NULL, 'u'},
		{"days", 1, NULL, 'd'},  {"help", 0, NULL, 'h'},      {"faults", 1, NULL, 'm'},
		{"kinds", 1, NULL, 'i'}, {"seconds", 1, NULL, 'S'},   {NULL, 0, NULL, 0}};

	for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;)
		switch (c) {
		case 'n':
			o.seeds = strtoull(optarg, NULL, 10);
			break;
		case 's':
			o.one = true;
			o.seeds = 1; /* fall through */
		case 'f':
			o.first = strtoull(optarg, NULL, 10);
			break;
		case 'r':
			o.row = optarg;
			break;
		case 'k':
			o.keep = optarg;
			break;
		case 'j':
			o.jobs = atoi(optarg);
			break;
		case 'd':
			o.days = atoi(optarg);
			break;
		case 'm':
			o.faults = atoi(optarg);
			break;
		case 'S':
			o.seconds = atoi(optarg);
			break;
		case 'i':
			o.kinds = optarg;
			break;
		case 't':
			o.trace = true;
			break;
		case 'b':
			o.first_bad = true;
			break;
		case 'u':
			o.unseen = true;
			break;
		default:
			fputs(usage, c == 'h' ? stdout : stderr);
			exit(c == 'h' ? 0 : 64);
		}
	o.asked = o.one || o.row || o.kinds || o.first != 1;
	o.splitc = getenv("SPLITC") ? realpath(getenv("SPLITC"), NULL) : NULL;
	if (!o.splitc || optind < argc || o.jobs < 1 || o.jobs > JOBS_MOST || o.faults < 0 || o.faults > SIM_FAULTS ||
	    o.seconds < 1 || (o.kinds && !kinds_of(o.kinds)))
		return fputs(usage, stderr), 64;
	return 0;
}

static void *shared(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p != MAP_FAILED ? p : (perror("sim: mmap"), exit(2), NULL);
}

int main(int argc, char **argv)
{
	struct report *reports;

	if (!getenv("OPENBLAS_NUM_THREADS")) { /* OpenBLAS reads it as the program is loaded, and makes its threads then
						*/
		setenv("OPENBLAS_NUM_THREADS", "1", 1);
		execv("/proc/self/exe", argv);
	}
	sl_cpu_restart_with_kernels(argv); /* those of splitc, with which runs are compared */
	if (take_options(argc, argv))
		return 64;
	reports = shared((JOBS_MOST + 1) * sizeof *reports);
	sim_script = shared(SIM_SCRIPT_VALUES * sizeof *sim_script);
	sim_cover = shared(sim_cover_bytes());
	sim_unreached = realpath("tests/sim/unreached", NULL);
	if (!sim_unreached)
		return perror("sim: tests/sim/unreached"), 2;
	if (!mkdtemp(work) || chdir(work)) {
		perror("sim: /dev/shm");
		return 2;
	}
	atexit(remove_work);
	for (int i = 0; i <= JOBS_MOST; i++)
		job[i].report = &reports[i];
	signal(SIGINT, stop);
	signal(SIGTERM, stop);
	sim_work_make();
	if (o.days) {
		run_policies();
	} else {
		run_all();
		summarize();
	}
	return (o.unseen && sim_cover_report()) || bad || !runs;
}
