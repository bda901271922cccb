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
 * The map is the only list of them: `splitc --failpoints` prints it, tests/e2e/failpoints.sh goes through that list.
 *   id, name, sides    c: client, s: server, b: both pass it, g: only where clients form a group
 *   before             failpoints of the process before ("": none): it dies there, and its successor passes this one
 *   beside             failpoints of the same process that lead to this one ("": none)
 *   what               the moment
 * Threads: any. */
#ifndef SL_BASE_FAILPOINT_H
#define SL_BASE_FAILPOINT_H

/* The points of a file that appears whole (newfile.h), in the order of newfile.c's enum call: six calls and two
 * moments. */
#define SL_FP_FILE(X, ID, name, sides, before, beside, what)                                  \
	X(ID##_OPEN, name ".open", sides, before, beside, what ": opened as .tmp")            \
	X(ID##_WRITE, name ".write", sides, before, beside, what ": a block is written")      \
	X(ID##_SYNC, name ".sync", sides, before, beside, what ": fsync")                     \
	X(ID##_CLOSE, name ".close", sides, before, beside, what ": close")                   \
	X(ID##_RENAME, name ".rename", sides, before, beside, what ": takes its name")        \
	X(ID##_DIRSYNC, name ".dirsync", sides, before, beside, what ": fsync of the folder") \
	X(ID##_DONE, name ".done", sides, before, beside, what ": is on the disk")            \
	X(ID##_UNDO, name ".undo", sides, before, name ".sync=ENOSPC", what ": could not be written, .tmp goes")

#define SL_FP_KILLED_C "client.codecs=delay:1000@5,client.apply=kill@6" /* the delay lets a checkpoint be written */
#define SL_FP_KILLED_S "server.apply=kill@6"

#define SL_FAILPOINT_MAP(X)                                                                                          \
	SL_FP_FILE(X, CKPT, "ckpt", "b", "", "", "a checkpoint")                                                     \
	X(CKPT_PRUNE, "ckpt.prune", "b", "", "", "an old checkpoint is removed")                                     \
	X(CKPT_CLEAR, "ckpt.clear", "b", "", "", "the run is over, a checkpoint is removed")                         \
	X(CKPT_READ_C, "client.ckpt.read", "c", SL_FP_KILLED_C, "", "a checkpoint is read to go on from it")         \
	X(CKPT_READ_S, "server.ckpt.read", "s", SL_FP_KILLED_S, "", "a checkpoint is read to go on from it")         \
	SL_FP_FILE(X, STORE, "store", "s", "", "", "uploaded weights")                                               \
	X(STORE_READ, "store.read", "s", "", "", "weights are looked for by their hash")                             \
	SL_FP_FILE(X, MODEL, "model", "c", "", "", "the trained model")                                              \
	X(LOG_OPEN, "log.open", "c", "", "", "log.jsonl is opened")                                                  \
	X(LOG_WRITE, "log.write", "c", "", "", "a line of log.jsonl is written")                                     \
	X(LOG_SYNC, "log.sync", "c", "", "", "log.jsonl is synced before a checkpoint that counts on it")            \
	X(LOG_CUT, "log.cut", "c", SL_FP_KILLED_C, "", "log.jsonl is cut back to the step gone back to")             \
	X(LOG_CLOSE, "log.close", "c", "", "", "log.jsonl is synced and closed")                                     \
	X(EVENTS_OPEN, "events.open", "c", "", "", "events for TensorBoard are opened")                              \
	X(EVENTS_WRITE, "events.write", "c", "", "", "an event is written")                                          \
	X(EVENTS_SYNC, "events.sync", "c", "", "", "events are synced, before a checkpoint or at the end")           \
	X(LINK_BIND, "link.bind", "s", "", "", "the server listens")                                                 \
	X(LINK_CONNECT, "link.connect", "c", "", "", "the client connects")                                          \
	X(LINK_SEND, "link.send", "b", "", "", "a message is handed to the socket")                                  \
	X(LINK_RECEIVE, "link.receive", "b", "", "", "a message has come")                                           \
	X(PORT_POST, "port.post", "b", "", "", "a tensor is queued")                                                 \
	X(PORT_WHOLE, "port.whole", "b", "", "", "the last part of a tensor has come")                               \
	X(CLIENT_WELCOMED, "client.welcomed", "c", "", "", "the server has chosen the step to go on from")           \
	X(CLIENT_GIVEN, "client.given", "c", "", "", "weights and position are those of that step")                  \
	X(CLIENT_LOAD, "client.load", "c", "", "", "a batch is prepared")                                            \
	X(CLIENT_BEGIN, "client.begin", "c", "", "", "a step begins")                                                \
	X(CLIENT_CHECK, "client.check", "c", "", "", "gradients are checked; an errno: they hold NaN")               \
	X(CLIENT_ABANDON, "client.abandon", "c", "", "client.check=EIO@4", "a step that holds NaN is abandoned")     \
	X(CLIENT_SKIP, "client.skip", "c", "", "client.check=EIO@4", "a step that holds NaN is skipped")             \
	X(CLIENT_COMMIT, "client.commit", "c", "", "", "before COMMIT is sent")                                      \
	X(CLIENT_ASKED, "client.asked", "c", "", "", "COMMIT is sent")                                               \
	X(CLIENT_ANSWER, "client.answer", "c", "", "", "COMMITTED has come")                                         \
	X(CLIENT_APPLY, "client.apply", "c", "", "", "before the optimizer")                                         \
	X(CLIENT_CODECS, "client.codecs", "c", "", "", "behind the optimizer; an errno: the device fails")           \
	X(CLIENT_APPLIED, "client.applied", "c", "", "", "the step is applied")                                      \
	X(CLIENT_DONE, "client.done", "c", "", "", "the step is done, not logged")                                   \
	X(CLIENT_LOGGED, "client.logged", "c", "", "", "the step is logged")                                         \
	X(CLIENT_KEEP, "client.keep", "c", "", "", "before a checkpoint, which the server has")                      \
	X(CLIENT_KEPT, "client.kept", "c", "", "", "the client has it too")                                          \
	X(CLIENT_FETCHED, "client.fetched", "c", "", "", "the middle's weights have come back")                      \
	X(CLIENT_SAVED, "client.saved", "c", "", "", "the model is written, the server not yet told goodbye")        \
	X(CLIENT_LEAVE, "client.leave", "c", "", "", "before goodbye")                                               \
	X(CLIENT_GIVES, "client.gives", "g", "", "", "its head and tail are made ready for one that comes")          \
	X(CLIENT_TAKES, "client.takes", "g", "", "", "it comes, and those of another have come")                     \
	X(CLIENT_PAUSE, "client.pause", "c", "", "client.begin=term@4", "SIGTERM: before the last checkpoint")       \
	X(CLIENT_PAUSED, "client.paused", "c", "", "client.begin=term@4", "SIGTERM: behind the last checkpoint")     \
	X(SERVER_HELLO, "server.hello", "s", "", "", "HELLO has come")                                               \
	X(SERVER_CHOSEN, "server.chosen", "s", "", "", "the step to go on from is chosen")                           \
	X(SERVER_INSTALL, "server.install", "s", "", "", "uploaded weights are whole")                               \
	X(SERVER_EVAL, "server.eval", "s", "", "", "a chunk of an evaluation is computed")                           \
	X(SERVER_CHEAT_ACT, "server.cheat_act", "s", "", "", "before mid_act is sent; an errno: it is another")      \
	X(SERVER_CHEAT_LOSS, "server.cheat_loss", "s", "", "", "before a backward; an errno: for another loss")      \
	X(SERVER_CHEAT_ORDER, "server.cheat_order", "s", "", "", "before a chunk; an errno: in another's place")     \
	X(SERVER_HIJACK, "server.hijack", "s", "", "", "before head_grad is sent; an errno: it pulls elsewhere")     \
	X(SERVER_CHEAT_WEIGHT, "server.cheat_weight", "s", "", "", "behind a step; an errno: one weight is another") \
	X(SERVER_COMMIT, "server.commit", "s", "", "", "COMMIT has come")                                            \
	X(SERVER_CHECK, "server.check", "s", "", "", "gradients are checked; an errno: they hold NaN")               \
	X(SERVER_ABANDON, "server.abandon", "s", "", "server.check=EIO@4", "a step that holds NaN is abandoned")     \
	X(SERVER_SKIP, "server.skip", "s", "", "server.check=EIO@4", "a step that holds NaN is skipped")             \
	X(SERVER_APPLY, "server.apply", "s", "", "", "before the optimizer")                                         \
	X(SERVER_CODECS, "server.codecs", "s", "", "", "behind the optimizer; an errno: the device fails")           \
	X(SERVER_APPLIED, "server.applied", "s", "", "", "the step is applied, not kept")                            \
	X(SERVER_KEEP, "server.keep", "s", "", "", "before a checkpoint")                                            \
	X(SERVER_KEPT, "server.kept", "s", "", "", "behind it, kept or not")                                         \
	X(SERVER_ANSWER, "server.answer", "s", "", "", "before COMMITTED is sent")                                   \
	X(SERVER_ANSWERED, "server.answered", "s", "", "", "COMMITTED is sent")                                      \
	X(SERVER_GATHER, "server.gather", "s", "", "", "FETCH has come")                                             \
	X(SERVER_GIVES, "server.gives", "g", "", "", "one that comes is to get the head and tail of another")        \
	X(SERVER_LET_GO, "server.let_go", "g", "", "", "members may leave, which they have not heard")               \
	X(SERVER_LEFT, "server.left", "s", "", "", "the client said goodbye, its checkpoints go")                    \
	X(SERVER_LAST, "server.last", "s", "", "server.answered=term@5", "SIGTERM: before the last checkpoint")      \
	X(SERVER_LASTED, "server.lasted", "s", "", "server.answered=term@5", "SIGTERM: behind the last checkpoint")

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
