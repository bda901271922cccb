/* A simulator of the pair: the real client and the real server in one process and one thread, on a simulated clock,
 * network, disk and worker. A seed decides what goes wrong, and in which order things happen. At the end the run must
 * equal `splitc train --local`: weights and losses, byte for byte.
 *
 * The linker takes the functions of this folder in place of the product's: loop.c and worker.c here for those of
 * common/, net.c for transport_zmq.c, disk.c for libc's calls that change files. `sim` is the state of one seed. The
 * program forks for each seed, so nothing has to be freed: a process that is killed leaves its memory behind. */
#ifndef SL_TESTS_SIM_H
#define SL_TESTS_SIM_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

enum sim_side { SIM_CLIENT, SIM_SERVER, SIM_BOTH }; /* machines, numbered as in tests/support/disk_model.h */
enum { SIM_MEMBERS = 4, SIM_PROCS = 1 + SIM_MEMBERS, SIM_FDS = 1024, SIM_FAULTS = 16, SIM_TEXT = 512 };
enum { SIM_STEPS = 128 };                           /* most steps of a row whose reference is told what happened */
enum { SIM_STEPS_A_DAY = 288, SIM_TICK_MS = 5000 }; /* of outages.c; SIM_TICK_MS: timers of the loop go no faster */
enum { SIM_SERVES = SIM_MEMBERS };                  /* the server's number; the others are clients */
#define SIM_MS 1000000u                             /* in ns, as all times here */

/* Draws of one stream do not depend on how many another one has made. */
enum sim_stream {
	SIM_TIE,
	SIM_LATENCY,
	SIM_JOB,
	SIM_RANDOM,
	SIM_FAULT,
	SIM_MODE,
	SIM_NET,
	SIM_TIMER,
	SIM_RESTART,
	SIM_STREAMS
};

struct sim_event {
	uint64_t t, tie, number; /* by these, in this order */
	struct sim_proc *proc;   /* in which it happens; NULL: in none */
	int generation;          /* of proc: an event of a process that is dead does not happen */
	bool dead;
	void (*fn)(void *arg);
	void *arg;
};

/* A simulated process: a stack of its own, which is left when it waits and dropped when it dies. */
struct sim_proc {
	enum sim_side side;
	int id, generation, starts;
	bool used; /* this row has such a process */
	bool alive, over, killed;
	int status;         /* of one that is over */
	bool fresh, done;   /* its next start is with --fresh; it has ended its run */
	bool longer, asks;  /* of SIM_LONGER: it was done once; its next start says whether it is done again */
	bool loses, claims; /* before its next start, or link: as its fault says */
	uint64_t total;     /* a client's: the steps of its run; 0: not yet known */
	uint64_t claimed;   /* in its last link, where it held less; 0: it claimed nothing */
	bool left;          /* of SIM_ABSENT: its group goes on without it, and refuses it */
	char *stack;
	ucontext_t context;
	jmp_buf at;
	struct sim_event *event;             /* to be handled by it */
	uint64_t stands_until;               /* as after SIGSTOP */
	uint64_t parted_until;               /* a client's: nothing crosses */
	bool open[SIM_FDS], inside[SIM_FDS]; /* descriptors: open; of a file below client/ or server/ */
	struct sl_loop *loop;
	struct sim_end *ends; /* of connections */
	int without;          /* of how many steps it has said that its log has no lines */
	/* since the current fault was armed */
	long passages, disk_calls, events;
};

enum sim_kind {
#define SIM_FAULT_MAP(X)                                                                         \
	X(KILL_POINT, 6, "dies at its failpoint number")                                         \
	X(KILL_DISK, 4, "dies at its disk call number")                                          \
	X(KILL_EVENT, 3, "dies at its event number")                                             \
	X(POWER_DISK, 4, "loses power at disk call number")                                      \
	X(POWER_EVENT, 1, "loses power at event number")                                         \
	X(FULL, 2, "has a full disk at call number")                                             \
	X(IO_ERROR, 1, "has a disk that fails at call number")                                   \
	X(OLD_DISK, 1, "gets an older copy of its disk at event number")                         \
	X(NEW_DISK, 1, "gets an empty disk at event number")                                     \
	X(CLOCK_BACK, 1, "has its clock set back by a day at event number")                      \
	X(DROP, 2, "loses its message number")                                                   \
	X(TWICE, 2, "sends twice its message number")                                            \
	X(FLIP, 1, "has a bit flipped in its message number")                                    \
	X(CUT, 3, "loses the connection behind its message number")                              \
	X(PARTITION, 2, "is cut off from the other for a while, from its message number")        \
	X(LATE, 3, "loses the connection, and what it sent comes late, from its message number") \
	X(STAND, 2, "stands still at event number")                                              \
	X(TERM, 2, "gets SIGTERM at event number")                                               \
	X(AWAY, 6, "stands still for long at event number")                                      \
	X(LOSE, 6, "dies, and loses its files, at its disk call number")                         \
	X(CLAIM, 6, "claims a step that it does not hold, in the link behind its event number")  \
	X(LIE, 6, "answers otherwise than agreed, at its chance number")
#define X(kind, weight, text) SIM_##kind,
	SIM_FAULT_MAP(X)
#undef X
		SIM_KINDS
};

/* Faults are armed one after the other: the next one counts from where the last one has fired. */
struct sim_fault {
	enum sim_kind kind;
	int victim; /* of KILL, STAND and TERM: a process; of a message: the sender's side; else a side */
	long at;    /* which of the victim's failpoints, calls, events or messages, from when it is armed */
	int mode;   /* of a power cut: enum disk_mode; of a full disk: for how long */
	uint64_t ms;
	uint64_t fired_ns;
	char where[96];
};

extern struct sim {
	uint64_t full_ns; /* when a group's checkpoint could not be written last */
	uint64_t seed, now_ns, wall_ns, draws[SIM_STREAMS];
	struct sim_proc proc[SIM_PROCS], *cur; /* cur: the process that runs, or NULL */
	struct sim_fault fault[SIM_FAULTS];
	int faults, armed; /* fault[armed] is the next one to fire */
	long messages[2];  /* of each side, since then */
	long chances;      /* to lie, since then */
	uint64_t parted_until;
	enum sim_side full_side, failing_side;
	long full_left;             /* calls that still find the disk full */
	long failing_left;          /* calls that still fail */
	bool refused;               /* a client found that a disk is not the one it was: the end of its run */
	int lost_links;             /* since the last audit that was done */
	bool link_up;               /* of a single client: its link has got its state */
	uint64_t anew_ns;           /* when all members were stopped, to begin anew; 0: they were not */
	bool begun;                 /* since then the group has begun anew */
	int anews;                  /* how often it has said so */
	uint64_t since;             /* steps since then */
	bool lacks_one;             /* a group has said that it waited in vain for a member that was refused */
	uint64_t back_ns[SIM_BOTH]; /* how far the clock of a side was set back */
	int members;                /* of a group; 0: a single client */
	bool done, failed, traced;
	char why[SIM_TEXT];
	uint64_t events, hash;
	long seen[256];                      /* passages of each failpoint */
	bool missed[SIM_STEPS][SIM_MEMBERS]; /* a step of the group was done without this member */
	uint64_t steps;                      /* that the server's log tells of */
	char absent[4096];                   /* the list for --absent, as the server's log has it */
	unsigned on_disk[SIM_STEPS];         /* processes, as bits, that have written a checkpoint of that step */
	bool needs_all;                      /* a group whose members all hold the step from which it goes on */
	bool ends;                           /* one of them has removed its checkpoints, as its run is done */
	int slow;                            /* how many times longer jobs take */
	bool slow_disks;                     /* those that write clients' checkpoints take far longer than a step */
	int days;                 /* of outages.c: how long the run would take without outages; 0: no such run */
	bool calm;                /* of these: no outages */
	double part[SIM_MEMBERS]; /* of the steps that the server's log tells of */
	bool learns;              /* script.c: this run without faults is the reference */
} sim;

/* ---- sim.c: time and chance */
uint64_t sim_draw(enum sim_stream stream, uint64_t below); /* 0 if below is 0 */
struct sim_event *sim_at(struct sim_proc *proc, uint64_t delay_ns, void (*fn)(void *arg), void *arg);
void sim_cancel(struct sim_event *event);
struct sim_event *sim_next(void); /* NULL: nothing more happens */
void sim_put_off(struct sim_event *event, uint64_t until_ns);
void sim_mix(uint64_t what); /* into the hash of all that happens */
void sim_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The seed has found something. The first sentence stays. */
void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *sim_name(const struct sim_proc *proc);

/* ---- process.c */
void sim_start(struct sim_proc *proc, int (*main)(struct sim_proc *proc));
void sim_handle(struct sim_event *event); /* in its process */
void sim_wait(void);                      /* in a process: goes on when an event is there, and handles it */
void sim_die(void) __attribute__((noreturn));
void sim_bury(struct sim_proc *proc); /* after its death or its end */

/* ---- faults.c */
extern const char *const sim_kind_text[SIM_KINDS], *const sim_kind_name[SIM_KINDS];
void sim_plan(int most, unsigned kinds); /* draws the faults of this seed */
void sim_keep_faults(const char *list);  /* only these of them, such as "1,4"; NULL: all; "": none */
void sim_fault_text(const struct sim_fault *fault, char *out, size_t cap);
/* Whether the armed fault is of this kind, has this victim, and is due now: it has fired then. */
bool sim_fires(enum sim_kind kind, int victim, const char *where);
bool sim_power_fires(enum sim_kind kind, enum sim_side side, const char *where);
void sim_end_all(enum sim_side sides); /* kills all processes there: in one of them it does not return */
bool sim_fired(unsigned kinds);        /* a fault of these kinds, as bits, has fired */
void sim_event_faults(struct sim_proc *proc);

/* ---- run.c: one seed, from the first start to the last comparison */
enum sim_oracle {
	SIM_LOCAL,  /* `splitc train --local`, run once for each row */
	SIM_ABSENT, /* the same after the seed, with the list of those that missed a step */
	SIM_RATES,  /* the same with the rates that its steps took: each start of the client has another one */
	SIM_LONGER, /* as SIM_LOCAL; the run is first done with fewer epochs, and then goes on */
	SIM_SCRIPT, /* script.c's process in place of a client: the same without faults */
	SIM_OUTAGES /* none: how long the run takes (outages.c) */
};

struct sim_row {
	const char *name, *sets; /* sets: KEY=VALUE, separated by blanks */
	int members;
	enum sim_oracle oracle;
	unsigned without; /* kinds of faults that this row does not have, as bits */
	unsigned with;    /* of SIM_RARE those that it has */
};
#define SIM_RARE \
	(1u << SIM_AWAY | 1u << SIM_LOSE | 1u << SIM_CLAIM | 1u << SIM_LIE) /* of the rows alone that ask for them */
/* A member may lose a file, or the server its own. */
#define SIM_LOSES_FILES (1u << SIM_POWER_DISK | 1u << SIM_POWER_EVENT | 1u << SIM_OLD_DISK | 1u << SIM_NEW_DISK)
#define SIM_SPOILS_DISKS                                                                                           \
	(1u << SIM_POWER_DISK | 1u << SIM_POWER_EVENT | 1u << SIM_FULL | 1u << SIM_IO_ERROR | 1u << SIM_OLD_DISK | \
	 1u << SIM_NEW_DISK)
#define SIM_ENDS_PROCESSES \
	(SIM_SPOILS_DISKS | 1u << SIM_KILL_POINT | 1u << SIM_KILL_DISK | 1u << SIM_KILL_EVENT | 1u << SIM_TERM)
extern const struct sim_row sim_row[];
void sim_run(const struct sim_row *row);
/* Whoever dies now: a model without a checkpoint is that of the last step, since a start takes its run for done. */
void sim_check_model(const struct sim_proc *p);

/* ---- script.c */
enum { SIM_SCRIPT_VALUES = 32 };
extern uint64_t *sim_script; /* [SIM_SCRIPT_VALUES], in memory that processes share: the reference */
int sim_script_main(struct sim_proc *proc);
void sim_hear_log(void); /* run.c: lines of the log are traced */

/* ---- outages.c: what a group's keys cost where networks fail for long */
extern const struct sim_row sim_policy[]; /* the last one has no name */
void sim_outages_plan(int days);
double sim_outages_rows(const double part[SIM_MEMBERS]);

/* ---- cover.c: what is reached, in memory that processes share */
extern struct sim_cover *sim_cover;
extern const char *sim_unreached; /* the path of tests/sim/unreached */
size_t sim_cover_bytes(void);
void sim_cover_kill(int point);
/* Prints what no seed has reached and no line of tests/sim/unreached names, and lines that are wrong; returns how many.
 */
int sim_cover_report(void);

/* ---- check.c */
void sim_work_make(void); /* configs and data, in the current folder */
/* The last member has the labels, the others have features. sets: what member k alone has, with a space in front. */
bool sim_row_is_vertical(const struct sim_row *row);
const char *sim_row_party_sets(const struct sim_row *row, int k);
bool sim_reference_make(const struct sim_row *row, const char *splitc); /* false: --local fails */
const char *sim_config(const struct sim_row *row);                      /* its path */
bool sim_row_owes_none(const struct sim_row *row);                      /* share.least is 0 */
bool sim_row_lacks(const struct sim_row *row); /* by the server's log a member got less than share.least */
void sim_compare(const struct sim_row *row);
void sim_compare_record(int k); /* member k has ended: its list of who was absent is the server's */
/* Whether member k came back behind the last step with an older head and tail of its own, as after an older copy of its
 * disk. It evaluates these, and the reference what was there before. */
bool sim_came_behind_end(int k);
/* Whether member k has said that its log has no lines of some steps. It must, if that is so. losses, all: the lines of
 * its log and of the reference, as `step 3 0.7`. */
bool sim_tells_of_lines(int k, const char *losses, const char *all);

/* ---- volumes.c */
void sim_volumes_make(void); /* a network and cases of volumes, in the current folder */

/* ---- group.c */
void sim_note_file(const char *path); /* it has got its name */
void sim_note_gone(const char *path); /* it is removed, or gets another name */

/* ---- loop.c, net.c, disk.c */
void sim_loop_term(struct sim_proc *proc);
void sim_net_dead(struct sim_proc *proc);
void sim_disk_begin(void); /* what is there is durable */
void sim_disk_power(enum sim_side side, int mode);
void sim_disk_old(enum sim_side side);  /* the disk as it was at an earlier call */
void sim_disk_lose(enum sim_side side); /* an empty disk */
const char *sim_failpoint_name(int i);  /* NULL: there are no more */

#endif
