/* Failpoints: named moments at which a test makes a process die, a system call fail or a thread wait. They exist only
 * where SL_FAILPOINTS is defined (`make fail`: build/<variant>/fail/). Elsewhere every macro here expands to the bare
 * call or to nothing, and the names are not in the program.
 *
 * SPLIT_FAILPOINTS="NAME=ACTION[@N[+]],…" sets them, for one process. ACTION:
 *   kill      SIGKILL to the process itself
 *   term      SIGTERM to itself: an orderly end that begins here
 *   delay:MS  the thread sleeps
 *   hold      the thread waits for the file $SPLIT_FAILPOINTS_GO and removes it: each such file lets one thread pass
 *   ENOSPC …  the call fails with that errno (EIO, EDQUOT, EACCES, ENOSPC), and is not made
 *   short     a write writes half of its bytes
 *   tear      a write writes half of its bytes, then SIGKILL
 * The action is taken at the N-th passage (default: the first) or, with +, at that and every later one. An unknown
 * name or action is an error. SPLIT_FAILPOINTS_COUNT=FILE: when the process exits, it writes to FILE how often it
 * passed each failpoint, a line each.
 *
 * The map lists all failpoints. `splitc --failpoints` prints it, and seeds of tests/sim kill at all but those of
 * tests/sim/unreached.
 *   id, name           of the failpoint
 *   sides              who passes it: c the client, s the server, b both; g: only with a group of clients
 *   before             failpoints that kill an earlier process; the restarted process passes this one ("": not needed)
 *   beside             failpoints that the same process needs to reach this one ("": none)
 *   what               the moment. Where it is "before" a system call, an errno as ACTION makes the call fail.
 * Threads: any. */
#ifndef SL_BASE_FAILPOINT_H
#define SL_BASE_FAILPOINT_H

/* The failpoints of a file that is written as .tmp and then renamed (newfile.h), in the order of newfile.c's enum call.
 * OPEN to DIRSYNC can make their system call fail; DONE and UNDO are only moments. */
#define SL_FP_FILE(X, ID, name, sides, before, beside, what)                                          \
	X(ID##_OPEN, name ".open", sides, before, beside, what ": before .tmp is opened")             \
	X(ID##_WRITE, name ".write", sides, before, beside, what ": before a block is written")       \
	X(ID##_SYNC, name ".sync", sides, before, beside, what ": before .tmp is synced")             \
	X(ID##_CLOSE, name ".close", sides, before, beside, what ": before .tmp is closed")           \
	X(ID##_RENAME, name ".rename", sides, before, beside, what ": before .tmp is renamed")        \
	X(ID##_DIRSYNC, name ".dirsync", sides, before, beside, what ": before its folder is synced") \
	X(ID##_DONE, name ".done", sides, before, beside, what ": renamed and synced")                \
	X(ID##_UNDO, name ".undo", sides, before, name ".sync=ENOSPC", what ": failed, before .tmp is removed")

#define SL_FP_KILLED_C "client.codecs=delay:1000@5,client.apply=kill@6" /* during the delay a checkpoint is written */
#define SL_FP_KILLED_S "server.apply=kill@6"

#define SL_FAILPOINT_MAP(X)                                                                                           \
	SL_FP_FILE(X, CKPT, "ckpt", "b", "", "", "a checkpoint")                                                      \
	X(CKPT_PRUNE, "ckpt.prune", "b", "", "", "before an old checkpoint is removed")                               \
	X(CKPT_CLEAR, "ckpt.clear", "b", "", "", "the run is over: before a checkpoint is removed")                   \
	X(CKPT_READ_C, "client.ckpt.read", "c", SL_FP_KILLED_C, "", "before the client reads a checkpoint to resume") \
	X(CKPT_READ_S, "server.ckpt.read", "s", SL_FP_KILLED_S, "", "before the server reads a checkpoint to resume") \
	SL_FP_FILE(X, STORE, "store", "s", "", "", "uploaded weights")                                                \
	X(STORE_READ, "store.read", "s", "", "", "before weights are looked up by their hash")                        \
	SL_FP_FILE(X, MODEL, "model", "c", "", "", "the trained model")                                               \
	X(LOG_OPEN, "log.open", "c", "", "", "before log.jsonl is opened")                                            \
	X(LOG_WRITE, "log.write", "c", "", "", "before a line of log.jsonl is written")                               \
	X(LOG_SYNC, "log.sync", "c", "", "", "before log.jsonl is synced; a checkpoint follows")                      \
	X(LOG_CUT, "log.cut", "c", SL_FP_KILLED_C, "", "before log.jsonl is truncated to the resumed step")           \
	X(LOG_CLOSE, "log.close", "c", "", "", "before log.jsonl is synced and closed")                               \
	X(EVENTS_OPEN, "events.open", "c", "", "", "before a file of TensorBoard events is opened")                   \
	X(EVENTS_WRITE, "events.write", "c", "", "", "before a TensorBoard event is written")                         \
	X(EVENTS_SYNC, "events.sync", "c", "", "", "before TensorBoard events are synced")                            \
	X(LINK_BIND, "link.bind", "s", "", "", "before the server binds its socket")                                  \
	X(LINK_CONNECT, "link.connect", "c", "", "", "before the client connects its socket")                         \
	X(LINK_SEND, "link.send", "b", "", "", "before a message is handed to ZeroMQ")                                \
	X(LINK_RECEIVE, "link.receive", "b", "", "", "a message has arrived")                                         \
	X(PORT_POST, "port.post", "b", "", "", "before a tensor is queued for sending")                               \
	X(PORT_WHOLE, "port.whole", "b", "", "", "the last part of a tensor has arrived")                             \
	X(CLIENT_WELCOMED, "client.welcomed", "c", "", "", "the server has chosen the step to resume from")           \
	X(CLIENT_GIVEN, "client.given", "c", "", "", "the client has loaded the state of that step")                  \
	X(CLIENT_LOAD, "client.load", "c", "", "", "before a batch is prepared")                                      \
	X(CLIENT_BEGIN, "client.begin", "c", "", "", "before a step begins")                                          \
	X(CLIENT_CHECK, "client.check", "c", "", "", "before gradients are checked; an errno: they hold NaN")         \
	X(CLIENT_ABANDON, "client.abandon", "c", "", "client.check=EIO@4", "before a step with NaN is abandoned")     \
	X(CLIENT_SKIP, "client.skip", "c", "", "client.check=EIO@4", "before a step with NaN is skipped")             \
	X(CLIENT_COMMIT, "client.commit", "c", "", "", "before COMMIT is queued")                                     \
	X(CLIENT_ASKED, "client.asked", "c", "", "", "COMMIT is queued")                                              \
	X(CLIENT_ANSWER, "client.answer", "c", "", "", "COMMITTED has arrived")                                       \
	X(CLIENT_APPLY, "client.apply", "c", "", "", "before the optimizer runs")                                     \
	X(CLIENT_CODECS, "client.codecs", "c", "", "", "the optimizer has run; an errno: the device fails")           \
	X(CLIENT_APPLIED, "client.applied", "c", "", "", "the step is applied")                                       \
	X(CLIENT_DONE, "client.done", "c", "", "", "the step is done, and not yet logged")                            \
	X(CLIENT_LOGGED, "client.logged", "c", "", "", "the step is logged")                                          \
	X(CLIENT_KEEP, "client.keep", "c", "", "", "before the client's checkpoint; the server's is written")         \
	X(CLIENT_KEPT, "client.kept", "c", "", "", "the client's checkpoint is written, or failed")                   \
	X(CLIENT_FETCHED, "client.fetched", "c", "", "", "the middle's weights have arrived")                         \
	X(CLIENT_SAVED, "client.saved", "c", "", "", "the model is written; the server does not know yet")            \
	X(CLIENT_LEAVE, "client.leave", "c", "", "", "before the client says goodbye")                                \
	X(CLIENT_GIVES, "client.gives", "g", "", "", "before a member sends head and tail for a new member")          \
	X(CLIENT_TAKES, "client.takes", "g", "", "", "a new member has got another member's head and tail")           \
	X(CLIENT_PAUSE, "client.pause", "c", "", "client.begin=term@4", "SIGTERM: before the last checkpoint")        \
	X(CLIENT_PAUSED, "client.paused", "c", "", "client.begin=term@4", "SIGTERM: the last checkpoint is written")  \
	X(SERVER_HELLO, "server.hello", "s", "", "", "HELLO has arrived")                                             \
	X(SERVER_CHOSEN, "server.chosen", "s", "", "", "the step to resume from is chosen")                           \
	X(SERVER_INSTALL, "server.install", "s", "", "", "before the hash of uploaded weights is checked")            \
	X(SERVER_EVAL, "server.eval", "s", "", "", "before a chunk of an evaluation is computed")                     \
	X(SERVER_CHEAT_ACT, "server.cheat_act", "s", "", "", "before mid_act is encoded; an errno alters it")         \
	X(SERVER_CHEAT_EVAL, "server.cheat_eval", "s", "", "", "the same in an evaluation")                           \
	X(SERVER_CHEAT_NORM, "server.cheat_norm", "s", "", "", "before a norm is told; an errno alters it")           \
	X(SERVER_CHEAT_LOSS, "server.cheat_loss", "s", "", "", "before a backward pass; an errno alters mid_grad")    \
	X(SERVER_CHEAT_ORDER, "server.cheat_order", "s", "", "", "before a chunk; an errno: in another's place")      \
	X(SERVER_HIJACK, "server.hijack", "s", "", "", "before head_grad is encoded; an errno negates it")            \
	X(SERVER_CHEAT_WEIGHT, "server.cheat_weight", "s", "", "", "the optimizer has run; an errno alters a weight") \
	X(SERVER_CHEAT_STATE, "server.cheat_state", "s", "", "", "a session's state is set; an errno alters it")      \
	X(SERVER_COMMIT, "server.commit", "s", "", "", "COMMIT has arrived")                                          \
	X(SERVER_CHECK, "server.check", "s", "", "", "before gradients are checked; an errno: they hold NaN")         \
	X(SERVER_ABANDON, "server.abandon", "s", "", "server.check=EIO@4", "before a step with NaN is abandoned")     \
	X(SERVER_SKIP, "server.skip", "s", "", "server.check=EIO@4", "before a step with NaN is skipped")             \
	X(SERVER_APPLY, "server.apply", "s", "", "", "before the optimizer runs")                                     \
	X(SERVER_CODECS, "server.codecs", "s", "", "", "the optimizer has run; an errno: the device fails")           \
	X(SERVER_APPLIED, "server.applied", "s", "", "", "the step is applied, and no checkpoint written yet")        \
	X(SERVER_KEEP, "server.keep", "s", "", "", "before the server writes a checkpoint")                           \
	X(SERVER_KEPT, "server.kept", "s", "", "", "the server's checkpoint is written, or failed")                   \
	X(SERVER_ANSWER, "server.answer", "s", "", "", "before COMMITTED is queued")                                  \
	X(SERVER_ANSWERED, "server.answered", "s", "", "", "COMMITTED is queued")                                     \
	X(SERVER_GATHER, "server.gather", "s", "", "", "FETCH has arrived")                                           \
	X(SERVER_GIVES, "server.gives", "g", "", "", "before a new member gets another's head and tail")              \
	X(SERVER_LET_GO, "server.let_go", "g", "", "", "members may leave, and have not been told yet")               \
	X(SERVER_LEFT, "server.left", "s", "", "", "after a goodbye: before checkpoints are removed")                 \
	X(SERVER_LAST, "server.last", "s", "", "server.answered=term@5", "no goodbye: before the last checkpoint")    \
	X(SERVER_LASTED, "server.lasted", "s", "", "server.answered=term@5", "no goodbye: the last checkpoint is done")

enum sl_failpoint {
#define X(id, name, sides, before, beside, what) SL_FP_##id,
	SL_FAILPOINT_MAP(X)
#undef X
		SL_FP_COUNT,
	SL_FP_NONE = SL_FP_COUNT /* no failpoint: nothing happens and nothing is counted */
};

#ifdef SL_FAILPOINTS

#include <stddef.h>
#include <sys/types.h>

/* Counts this passage and takes the action that is due. Returns -1 with errno if the call at this point is to fail;
 * else 0. */
int sl_failpoint_pass(enum sl_failpoint point);
/* write(2), unless the action of this point makes it fail or write less. */
ssize_t sl_failpoint_write(enum sl_failpoint point, int fd, const void *from, size_t len);
/* To be called at the start of main: reads the environment and, for `PROGRAM --failpoints`, prints the map. Returns
 * the exit status, or -1 if the program is to go on. */
int sl_failpoint_main(int argc, char **argv);

#define SL_FAILPOINT(point)                      ((void)sl_failpoint_pass(point))
#define SL_FAILPOINT_CALL(point, call)           (sl_failpoint_pass(point) ? -1 : (call))
#define SL_FAILPOINT_WRITE(point, fd, from, len) sl_failpoint_write((point), (fd), (from), (len))
#define SL_FAILPOINT_MAIN(argc, argv)            sl_failpoint_main((argc), (argv))

#else

#define SL_FAILPOINT(point)                      ((void)0)
#define SL_FAILPOINT_CALL(point, call)           (call)
#define SL_FAILPOINT_WRITE(point, fd, from, len) write((fd), (from), (len))
#define SL_FAILPOINT_MAIN(argc, argv)            (-1)

#endif

#endif
