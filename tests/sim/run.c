/* One seed: processes are started, and started again when they end or die, until each client's run is done. Then it is
 * compared with --local. */
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/cmd/command.h"
#include "common/base/log.h"
#include "server/command.h"
#include "tests/sim/sim.h"

enum {
	NEW_AFTER_S = 5,
	GROUP_STEPS = 30,
	SETS_MOST = 32,
	STARTS_MOST = 300,
	EVENTS_MOST = 500000,
	AWAY_EVENTS_MOST = 10000000
};
#define NS_PER_S     1000000000ull
#define CUTS_POWER   (1u << SIM_POWER_DISK | 1u << SIM_POWER_EVENT)
#define CHANGES_DISK (1u << SIM_OLD_DISK | 1u << SIM_NEW_DISK)

const struct sim_row sim_row[] = {
#define ROW(name, sets, members)                         {name, sets, members, SIM_LOCAL, 0, 0},
#define OTHER(name, sets, members, oracle, without)      {name, sets, members, oracle, without, 0},
#define WITH(name, sets, members, oracle, without, with) {name, sets, members, oracle, without, with},
#include "tests/sim/rows.h"
#undef ROW
#undef OTHER
#undef WITH
	{NULL, NULL, 0, SIM_LOCAL, 0, 0},
};

static const struct sim_row *row;

/* A row whose log.dir has another name in each second process; between two it has its first name again. */
static bool move(const struct sim_proc *p, bool there)
{
	char run[32], moved[32];

	if (strcmp(row->name, "moved") != 0 || p->starts % 2)
		return false;
	snprintf(run, sizeof run, "client/run%d", p->id);
	snprintf(moved, sizeof moved, "client/moved%d", p->id);
	syscall(SYS_renameat2, AT_FDCWD, there ? run : moved, AT_FDCWD, there ? moved : run, 0);
	return true;
}

/* A row whose server has kernels of another SIMD level, and says so. */
static bool other_level(void)
{
	return strcmp(row->name, "level") == 0;
}

const char *__real_sl_cpu_describe(void);
const char *__wrap_sl_cpu_describe(void);
const char *__wrap_sl_cpu_describe(void)
{
	return sim.cur && sim.cur->side == SIM_SERVER && other_level() ? "another level, OpenBLAS Other"
								       : __real_sl_cpu_describe();
}

static int client_main(struct sim_proc *p)
{
	static const char *const rate[] = {"0.01", "0.02", "0.005"};
	char log[64], member[32], clients[64], last[64] = "", sets[SIM_TEXT], *next = sets, *word;
	char *argv[2 * SETS_MOST] = {(char *)(uintptr_t)sim_config(row),
				     p->fresh                ? "--fresh"
				     : p->longer && !p->asks ? "--resume"
							     : "--auto-resume",
				     "--set", log};
	int argc = 4;

	snprintf(log, sizeof log, "log.dir=client/%s%d", move(p, true) ? "moved" : "run", p->id);
	snprintf(sets, sizeof sets, "%s%s", row->sets, row->members ? " share.group=g" : "");
	snprintf(member, sizeof member, " share.member=%d", p->id);
	snprintf(clients, sizeof clients, " share.clients=%d%s", row->members,
		 strstr(row->sets, "share.wait_s=") ? "" : " share.wait_s=30");
	if (row->oracle == SIM_RATES)
		snprintf(last, sizeof last, " train.optimizer.lr=%s", rate[p->starts % 3]);
	if (sim.days)
		snprintf(last, sizeof last, " train.max_steps=%d", sim.days * SIM_STEPS_A_DAY);
	if (row->oracle == SIM_LONGER)
		snprintf(last, sizeof last, " train.epochs=%d", p->longer ? 5 : 2);
	strcat(sets, last);
	if (row->members)
		strcat(sets, member);
	if (row->members && !sim_row_owes_none(row))
		strcat(sets, clients);
	if (sim_row_is_vertical(row))
		strcat(sets, sim_row_party_sets(row, p->id));
	while ((word = strsep(&next, " ")) && argc < 2 * SETS_MOST - 2)
		if (*word) {
			argv[argc++] = "--set";
			argv[argc++] = word;
		}
	return splitc_train(argc, argv);
}

static int server_main(struct sim_proc *p)
{
	char *argv[] = {"../server.yaml", NULL};

	return splits_serve(1, argv);
}

static bool one_left(void)
{
	for (int i = 0; i < SIM_SERVES; i++)
		if (sim.proc[i].left)
			return true;
	return false;
}

static bool has_checkpoint(const struct sim_proc *p)
{
	char path[64];
	glob_t found = {0};
	bool has;

	snprintf(path, sizeof path, "client/run%d/checkpoint-*.safetensors", p->id);
	has = glob(path, 0, NULL, &found) != GLOB_NOMATCH;
	globfree(&found);
	return has;
}

static void lose_files(struct sim_proc *p)
{
	char path[64];
	glob_t found = {0};

	snprintf(path, sizeof path, "client/run%d/*", p->id);
	if (glob(path, 0, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc; i++)
			unlink(found.gl_pathv[i]);
	globfree(&found);
	p->loses = p->fresh = p->done = false;
	sim_trace("%s has lost its files", sim_name(p));
}

/* A row whose members all begin anew once: in the middle of the run, or behind its end. */
static bool begins_anew(void)
{
	return strncmp(row->name, "fresh", 5) == 0;
}

static void start(void *arg)
{
	struct sim_proc *p = arg;

	if (p->fresh && begins_anew() && sim.now_ns < sim.anew_ns + NEW_AFTER_S * NS_PER_S) {
		sim_at(NULL, NEW_AFTER_S * NS_PER_S, start, p); /* the server has heard that the old ones are gone */
		return;
	}
	/* a party whose run has begun goes on with it */
	p->fresh = p->fresh && !(sim_row_is_vertical(row) && has_checkpoint(p));
	/* in a round a server cannot note that a member is too far behind: it waits for all when it comes back */
	if (p->side == SIM_SERVER && one_left() && strstr(row->sets, "share.mode=rounds") && !sim_row_owes_none(row))
		sim.done = sim.refused = true;
	if (p->loses)
		lose_files(p);
	sim_trace("%s starts, number %d%s", sim_name(p), p->starts + 1, p->fresh ? " (--fresh)" : "");
	sim_start(p, p->side == SIM_SERVER ? server_main : row->oracle == SIM_SCRIPT ? sim_script_main : client_main);
}

static void stop_all(void *arg)
{
	if (sim.anew_ns)
		return;
	sim_trace("all members are stopped, to begin anew");
	sim.anew_ns = sim.now_ns;
	sim.begun = !sim.steps;
	for (int i = 0; i < SIM_SERVES; i++) {
		struct sim_proc *p = &sim.proc[i];

		p->fresh = p->used;
		p->killed = p->alive;
		if (p->used && !p->alive && (p->done || p->left))
			sim_at(NULL, 0, start, p);
		p->done = p->left = false;
	}
}

/* ---- how a process ends ---- */

/* Its run is done; or it was stopped, and its first checkpoint could not be written: then --fresh begins anew. */
static bool has_model_alone(const struct sim_proc *p)
{
	char path[64];

	snprintf(path, sizeof path, "client/run%d/model.safetensors", p->id);
	return access(path, F_OK) == 0 && !has_checkpoint(p);
}

/* Whether log.jsonl ends with the summary of a run that was stopped. */
static bool was_stopped(const struct sim_proc *p)
{
	char path[64], line[8192] = "";
	FILE *f;

	snprintf(path, sizeof path, "client/run%d/log.jsonl", p->id);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f))
		;
	if (f)
		fclose(f);
	return strstr(line, "\"type\":\"summary\"") && !strstr(line, "\"outcome\":\"finished\"");
}

/* The steps that its model's header notes. */
static uint64_t model_steps(const struct sim_proc *p)
{
	char path[64], head[4096] = "";
	const char *at;
	FILE *f;

	snprintf(path, sizeof path, "client/run%d/model.safetensors", p->id);
	f = fopen(path, "r");
	if (f) {
		head[fread(head, 1, sizeof head - 1, f)] = '\0';
		fclose(f);
	}
	at = memmem(head, sizeof head, "\"steps\":\"", strlen("\"steps\":\""));
	return at ? strtoull(at + strlen("\"steps\":\""), NULL, 10) : UINT64_MAX;
}

void sim_check_model(const struct sim_proc *p)
{
	const bool may_end_early = strstr(row->sets, "train.stop.") || row->oracle == SIM_LONGER;

	if (p->side == SIM_CLIENT && p->total && !may_end_early && has_model_alone(p) && model_steps(p) < p->total &&
	    !was_stopped(p))
		sim_fail("%s has its model of step %llu and no checkpoint: its run passes for done", sim_name(p),
			 (unsigned long long)model_steps(p));
}

static bool one_done(void)
{
	for (int i = 0; i < SIM_SERVES; i++)
		if (sim.proc[i].done || (!sim.proc[i].alive && has_model_alone(&sim.proc[i])))
			return true;
	return false;
}

/* Whether a group of fixed members may go on without this one for good: they are done; or it missed steps, and a server
 * that was started again has not kept what a member needs that is behind them. */
static bool may_be_left(const struct sim_proc *p)
{
	bool missed = false;

	for (int step = 0; step < SIM_STEPS; step++)
		missed = missed || sim.missed[step][p->id];
	return one_done() || (missed && sim.proc[SIM_SERVES].starts > 1 && !sim_row_owes_none(row));
}

/* A server whose disk was full at the end of a group of fixed members could not store their last step. Members may
 * leave then once all have written their models. One that dies before it hears so finds that the others have ended. Its
 * model must be right: sim_compare looks. */
static bool has_only_its_model(void)
{
	return sim.members && row->oracle == SIM_LOCAL && one_done() && sim_fired(1u << SIM_FULL | 1u << SIM_IO_ERROR);
}

/* Whether an audit's last word in the log is that the server, which is honest here, has computed something else. */
static bool accuses(const struct sim_proc *p)
{
	char path[64], line[8192];
	bool wrong = false;
	FILE *f;

	snprintf(path, sizeof path, "client/run%d/log.jsonl", p->id);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f))
		if (strstr(line, "\"type\":\"audit\""))
			wrong = strstr(line, " is not what the agreed") || strstr(line, "finds neither NaN nor Inf");
	if (f)
		fclose(f);
	return wrong;
}

/* It was killed before it heard that its group had begun anew, and has asked for that again. */
static bool asks_again(const struct sim_proc *p)
{
	return begins_anew() && sim.begun && p->fresh && p->status == 78;
}

/* A service starts a daemon again that ends so. */
static bool is_allowed(const struct sim_proc *p)
{
	switch (p->status) {
	case 0:
	case 69: /* the server is away */
	case 74: /* a file cannot be written */
	case 75: /* interrupted */
		return true;
	case 73: /* a file cannot be made */
		return sim_fired(1u << SIM_FULL | 1u << SIM_IO_ERROR);
	case 78: /* its disk, or the server's, is not the one that it was; its group goes on without it; or no audit */
		return sim_fired(CHANGES_DISK) || asks_again(p) || has_only_its_model() || other_level() ||
		       (row->oracle == SIM_ABSENT && (sim.lacks_one || may_be_left(p)));
	case 76: /* a broken frame; no other link is made while the run is being stopped */
		return sim_fired(1u << SIM_TERM);
	case 79: /* a liar is caught; or a user looks why so many links were lost in an audit, the last one now, and
		    goes on */
		return sim_fired(1u << SIM_LIE) || (sim.lost_links >= 2 && !accuses(p));
	case 80: /* a member got less than share.least */
		return strstr(row->sets, "go_on") && sim_row_lacks(row);
	case 66: /* nothing to go on from */
		return p->longer || (p->side == SIM_CLIENT && sim_fired(CUTS_POWER | CHANGES_DISK));
	}
	return false;
}

static bool all_done(void)
{
	for (int i = 0; i < SIM_SERVES; i++)
		if (sim.proc[i].used && !sim.proc[i].done && !sim.proc[i].left)
			return false;
	return true;
}

/* A client that is done is started once more, which must find its run done. */
static void judge_end(struct sim_proc *p)
{
	sim_trace("%s ends with status %d", sim_name(p), p->status);
	p->asks = p->longer && p->status == 66; /* it is done, or has nothing to go on from */
	if (!begins_anew())
		p->fresh = (p->status == 66 && !p->asks) || (p->status == 73 && has_model_alone(p));
	if (!is_allowed(p))
		sim_fail("%s ends with status %d", sim_name(p), p->status);
	if (p->status == 0 && p->side == SIM_CLIENT && sim_fired(1u << SIM_LIE))
		sim_fail("%s ends with status 0, and the server has lied", sim_name(p));
	if (p->status == 0 && p->side == SIM_CLIENT && other_level())
		sim_fail("%s ends with status 0, and no audit could compare bits", sim_name(p));
	if (p->status == 0 && row->oracle == SIM_ABSENT)
		sim_compare_record(p->id);
	p->loses |= asks_again(p); /* it comes into the run under way */
	p->done |= p->status == 80;
	p->done &= p->status == 0 || p->status == 80;
	if (p->status == 0 && p->id != SIM_SERVES && strstr(row->sets, "go_on") && sim.steps == GROUP_STEPS &&
	    sim_row_lacks(row))
		sim_fail("%s ends with status 0, and a member got less than share.least", sim_name(p));
	if (p->done && row->oracle == SIM_LONGER && !p->longer) {
		p->longer = true;
		p->done = false;
	}
	p->done |= p->status == 78 && has_only_its_model() && !sim_fired(CHANGES_DISK);
	p->left = p->status == 78 && row->oracle == SIM_ABSENT && !asks_again(p);
	sim.refused = p->status == 78 && !p->left && !p->done && !asks_again(p);
	sim.refused |= p->status == 79 && sim_fired(1u << SIM_LIE);
	sim.done = sim.refused || (all_done() && (!begins_anew() || sim.anew_ns));
	if (begins_anew() && all_done())
		sim_at(NULL, 0, stop_all, NULL);
}

static void after(struct sim_proc *p)
{
	if (!p->alive || (!p->killed && !p->over))
		return;
	sim_bury(p);
	if (p->side == SIM_CLIENT)
		(void)move(p, false);
	sim_check_model(p);
	if (p->killed) {
		sim_trace("%s is dead", sim_name(p));
		p->done = false;
		p->fresh &= begins_anew() || !has_checkpoint(p); /* else its new run goes on */
	} else {
		judge_end(p);
	}
	if (p->starts >= STARTS_MOST && !sim.days)
		sim_fail("%s started %d times", sim_name(p), p->starts);
	if (!p->done && !p->left)
		sim_at(NULL, SIM_MS * (1 + sim_draw(SIM_RESTART, 1ull << sim_draw(SIM_RESTART, 12))), start, p);
}

/* Processes are gone before their disk changes. */
static void bury_all(void)
{
	static int cut;

	for (int i = 0; i < SIM_PROCS; i++)
		after(&sim.proc[i]);
	for (; cut < sim.armed; cut++) {
		const struct sim_fault *f = &sim.fault[cut];

		const enum sim_side side = (enum sim_side)f->victim;

		for (int i = 0; i < SIM_BOTH && (f->kind == SIM_POWER_DISK || f->kind == SIM_POWER_EVENT); i++)
			if (side == SIM_BOTH || (int)side == i)
				sim_disk_power((enum sim_side)i, f->mode);
		if (f->kind == SIM_OLD_DISK)
			sim_disk_old(side);
		if (f->kind == SIM_NEW_DISK)
			sim_disk_lose(side);
	}
}

/* ---- what is logged ---- */

static void on_line(void *arg, const char *line, size_t len)
{
	const unsigned loses = 1u << SIM_KILL_POINT | 1u << SIM_KILL_DISK | 1u << SIM_KILL_EVENT | CUTS_POWER |
			       1u << SIM_FULL | 1u << SIM_IO_ERROR | 1u << SIM_TERM | CHANGES_DISK;

	sim_trace("  %s: %.*s", sim.cur ? sim_name(sim.cur) : "?", (int)len, line);
	if (memmem(line, len, "steps-lost", strlen("steps-lost")) && !sim.members && !sim_fired(loses))
		sim_fail("steps are lost, though no process died");
	if (sim.cur && memmem(line, len, "steps-without-lines: ", strlen("steps-without-lines: ")))
		sscanf(line, "%*[^:]: log.jsonl has no lines of %d", &sim.cur->without);
	if (memmem(line, len, "session-open: training", strlen("session-open: training"))) {
		sim.link_up = true;
		if (sim.cur)
			sim.cur->without = 0; /* its next summary tells anew */
		if (begins_anew() && sim.cur)
			sim.cur->fresh = false;
	}
	if (memmem(line, len, "group-anew: ", strlen("group-anew: "))) {
		if (sim.anews++ && sim.since)
			sim_fail("the group begins anew twice");
		sim.begun = true;
		sim.since = 0;
	}
	/* its first run may have left nothing */
	sim.begun |= sim.anew_ns && memmem(line, len, "go on from step 0", strlen("go on from step 0"));
	if (sim.link_up && (memmem(line, len, "link-lost: ", strlen("link-lost: ")) ||
			    memmem(line, len, "server-lost: ", strlen("server-lost: ")))) {
		sim.lost_links++;
		sim.link_up = false;
	}
	if (memmem(line, len, "audited: ", strlen("audited: ")))
		sim.lost_links = 0;
	sim.lacks_one |= one_left() && memmem(line, len, "was not complete within", strlen("was not complete within"));
	/* Whatever else goes wrong ends a link, of which both sides soon learn, or passes within seconds. But where
	 * nobody is owed a step, members may be too few to end a round, inside of which none can give its head and
	 * tail: they wait for share.wait_s. And all wait until the server has room for their last state. */
	if (memmem(line, len, "checkpoint-write: group", strlen("checkpoint-write: group")))
		sim.full_ns = sim.now_ns;
	if (memmem(line, len, "nothing but heartbeats", strlen("nothing but heartbeats")) &&
	    !sim_fired(1u << SIM_DROP | 1u << SIM_AWAY) && !sim_row_owes_none(row) && !sim.days &&
	    sim.now_ns - sim.full_ns > 5000000000u)
		sim_fail("%s waits for what was not sent, though no message was lost", sim_name(sim.cur));
	if (sim.cur && memmem(line, len, "run-done", strlen("run-done")))
		sim.cur->done = true;
}

void sim_hear_log(void)
{
	sl_log_set_sink(on_line, NULL);
}

static void begin(void)
{
	sim.now_ns = NS_PER_S;
	sim.wall_ns = 1900000000 * NS_PER_S;
	mkdir("client", 0777);
	mkdir("server", 0777);
	mkdir("old", 0777);
	mkdir("server/store", 0700);
	sim_disk_begin();
	sim_hear_log();
	for (int i = 0; i < SIM_PROCS; i++) {
		sim.proc[i].used = i == SIM_SERVES || i < (row->members ? row->members : 1);
		if (sim.proc[i].used && i == 2 &&
		    strcmp(row->name, "late-comer") == 0) /* also behind the others' end */
			sim_at(NULL, sim_draw(SIM_RESTART, 1000ull << sim_draw(SIM_RESTART, 9)) * SIM_MS, start,
			       &sim.proc[i]);
		else if (sim.proc[i].used) /* the group begins with two members that may go, and others come later */
			sim_at(NULL,
			       sim_draw(SIM_RESTART,
					(i >= 2 && i < SIM_SERVES && sim_row_owes_none(row) ? 4000 : 50) * SIM_MS),
			       start, &sim.proc[i]);
	}
}

static void happen(struct sim_event *e)
{
	struct sim_proc *p = e->proc;

	sim.events++;
	sim_mix(sim.now_ns ^ (p ? (uint64_t)p->id + 1 : 0));
	if (!p) {
		e->fn(e->arg);
		free(e);
		return;
	}
	sim_event_faults(p);
	if (!p->killed) /* a timer or message of a dead process still refers to its event, and cancels it */
		sim_handle(e);
}

void sim_run(const struct sim_row *of)
{
	const uint64_t most = of->oracle == SIM_OUTAGES   ? UINT64_MAX
			      : of->with & 1u << SIM_AWAY ? AWAY_EVENTS_MOST
							  : EVENTS_MOST;
	const uint64_t limit = (sim.days ? 10ull * (uint64_t)sim.days * 86400 : 50000) * NS_PER_S;

	row = of;
	begin();
	sim_outages_plan(sim.calm ? 0 : sim.days);
	if (begins_anew())
		sim_at(NULL, (50 + sim_draw(SIM_RESTART, 1ull << (6 + sim_draw(SIM_RESTART, 9)))) * SIM_MS, stop_all,
		       NULL);
	while (!sim.done && !sim.failed) {
		struct sim_event *e = sim_next();

		if (!e)
			sim_fail("nothing more happens");
		else if (sim.events > most || sim.now_ns > limit)
			sim_fail("no end after %llu events, %.0f s", (unsigned long long)sim.events,
				 (double)sim.now_ns * 1e-9);
		else if (e->proc && e->proc->stands_until > sim.now_ns)
			sim_put_off(e, e->proc->stands_until);
		else
			happen(e);
		bury_all();
	}
	if (begins_anew() && !sim.failed && !sim.begun)
		sim_fail("the group has not begun anew");
	if (!sim.failed && !sim.refused && row->oracle != SIM_SCRIPT && !sim.days)
		sim_compare(row);
}
