/* Lines in, lines out: standard input and output, or many clients of a Unix socket, each with lines of its own. A line
 * is answered by a line, in the client's order. The user takes lines when it has time for them; until then they wait in
 * the client's buffer, and then in the socket, so a client's memory is bounded. A client that does not read its answers
 * is not served until it does. Loop thread. */
#ifndef SL_LINK_TALK_H
#define SL_LINK_TALK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"

enum {
	SL_TALK_LINE_MOST = 1 << 20,   /* bytes of a line */
	SL_TALK_UNREAD_MOST = 1 << 16, /* bytes of answers from which on a client is not served */
	/* At a time. For one more, the client of a socket is closed that has had no complete line and no answer for
	 * longest; if all have one under way, the newcomer waits to be accepted. */
	SL_TALK_CLIENTS = 512
};

struct sl_loop;
struct sl_talks;
struct sl_talk; /* a client */

/* path: of the socket, whose mode is 0660 less the umask. NULL: standard input and output. `fn` is called when
 * sl_talks_next may have a line, or sl_talks_over may have become true. Errors: those of sl_unix_bind, OS, NOMEM. */
enum sl_err sl_talks_open(struct sl_talks **out, struct sl_loop *loop, const char *path, void (*fn)(void *arg),
			  void *arg, struct sl_fail *fail) SL_MUST_CHECK;
/* Takes a line from the next client that has one, in turn. False: there is none. It is valid until the next call. The
 * bytes are as they came, without the newline; data NULL: the line was longer than SL_TALK_LINE_MOST. `number`: of the
 * client's lines, from 0. */
bool sl_talks_next(struct sl_talks *talks, struct sl_talk **from, struct sl_bytes *line, uint64_t *number);
/* Answers the oldest line of that client which was taken; `text` ends with a newline. No bytes: the line needs no
 * answer. After the last answer *talk is gone if the client is. */
void sl_talk_answer(struct sl_talk *talk, const char *text, size_t len);
/* Standard input has ended, and all lines are answered; or nobody reads the answers. Never true of a socket. */
bool sl_talks_over(const struct sl_talks *talks);
/* IO: lines of standard input, or answers, were lost. */
enum sl_err sl_talks_check(const struct sl_talks *talks, struct sl_fail *fail) SL_MUST_CHECK;
void sl_talks_close(struct sl_talks *talks); /* NULL is fine; removes the socket's file */

#endif
