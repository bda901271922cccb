/* split.h: the middle of a network, which a server (splits) computes and trains. A program keeps its head, tail, loss
 * and loop. C99 and C++.
 *
 * One training step is split_forward, split_output, split_backward, split_input_grad, split_step. A step may have
 * several calls: the program begins them one after the other, and gives their gradients in any order, or not at all.
 * The server applies the sum. An evaluation is split_forward with training 0, then split_output; no step may be open.
 *
 * Tensors are packed float32 in host memory, rows first: [rows,H,W,C], [rows,F], and [tokens,F] where the middle
 * computes per token. Input is read before a call returns. Output is valid when a call returns SPLIT_OK. Gradients must
 * be those of the loss of the whole batch: the server adds those of the rows, and does not divide.
 *
 * A handle takes one call at a time, from any thread: a second one gets SPLIT_USAGE. After a fork the child may only
 * close what it inherited, which does nothing there.
 *
 * timeout_ms: how long a call waits; 0: not at all, -1: without limit. SPLIT_AGAIN: not yet, and *e says why; call
 * again with the same arguments, or give up the step with split_drop. A call that has waited for `wait_s` in all
 * returns SPLIT_UNAVAILABLE; it may also be called again. When a link breaks, the library connects again and sends the
 * open step once more, with the same bits.
 *
 * Functions that return int return an enum split_code, except split_fd, split_fields, split_shape and split_shape_of.
 * `e` may be NULL; otherwise the caller sets e->size. */
#ifndef SPLIT_H
#define SPLIT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif
#ifdef __cplusplus
extern "C" {
#endif

#define SPLIT_API 0x000100 /* 0.1.0 */

enum split_code {
	SPLIT_AGAIN = -1,
	SPLIT_OK,
	SPLIT_USAGE, /* this call is not allowed now; the middle is as it was */
	SPLIT_DATA,
	SPLIT_PAYLOAD,
	SPLIT_NONFINITE, /* NaN or Inf in the open step: nothing of it was applied, and it counts as done */
	SPLIT_NOINPUT,
	SPLIT_UNAVAILABLE,
	SPLIT_PEER_LOST,
	SPLIT_TIMEOUT,
	SPLIT_BUG,
	SPLIT_NOMEM,
	SPLIT_OS,
	SPLIT_CANTCREATE,
	SPLIT_IO,
	SPLIT_DEVICE,
	SPLIT_BUSY,
	SPLIT_PROTOCOL,
	SPLIT_VERSION,
	SPLIT_LIMIT,
	SPLIT_AUTH,
	SPLIT_CONFIG,
	SPLIT_MISMATCH,
	SPLIT_AUDIT,
	SPLIT_UNMET,
	SPLIT_SPENT,
	SPLIT_ROLLED_BACK = 100 /* the server lost steps: call split_resume with the token of step e->step */
};

/* An error. status: as in sysexits.h. step: the open one; with ROLLED_BACK the token's. key: the key of docs/config.md
 * or the "node NAME" that is to blame, or "". text: one sentence. */
typedef struct split_error {
	size_t size; /* sizeof(split_error), set by the caller */
	int code, status;
	uint64_t step;
	char name[16], key[104], text[512];
} split_error;

struct split_stats {
	size_t size; /* set by the caller */
	uint64_t step, tx_bytes, rx_bytes, links;
	double codec_s, server_s; /* codecs here, all steps; the server's kernels, last step */
};

typedef struct split_conf split_conf;
typedef struct split_middle split_middle;

uint32_t split_api(void);

split_conf *split_conf_new(void); /* NULL: no memory */
/* Keys of docs/config.md: server, auth.*, link.*, codec.*, train.batch (rows of the largest call), train.chunks (parts
 * of that call), train.seed, train.precision, train.optimizer.* except lr. Beside these (defaults in parentheses):
 *   server                     also local: or local:FOLDER, a server in this process, with FOLDER as its store;
 *                              OpenBLAS then has one thread in the whole process
 *   calls                      memory is taken for so many calls of a step; small calls use fewer of its chunks (1)
 *   tokens.row, tokens.chunk   most tokens of a row, of a chunk, if the middle computes per token
 *   group.1 … group.8          "lr=FACTOR weight_decay=NUMBER" for the graph's parameters g1 … g8
 *   input_grad                 false: no input's gradient is computed (true)
 *   keep_every                 every so many steps are on the server's disk before split_step returns; 0: none (0)
 *   wait_s                     most seconds that a call waits, as above; 0: for ever (600)
 *   log                        error, warn, info or debug: level of lines for split_log, in the process (warn) */
int split_conf_set(split_conf *, const char *key, const char *value, split_error *e);
/* The middle, as a graph in the text of docs/WIRE.md. Copied. */
int split_conf_graph(split_conf *, const char *text, split_error *e);
/* Initial values of a parameter: n floats, in the layout that the graph gives it. Without them the graph's initializer
 * is used. Copied. */
int split_conf_weight(split_conf *, const char *param, const float *values, size_t n, split_error *e);
/* Resumes from a token of split_keep. Copied. If train.seed is not set, it is the token's. Weights that do not learn
 * must be those that the run began with; with a token of step 0, all weights. */
int split_conf_resume(split_conf *, const void *token, size_t n, split_error *e);
void split_conf_free(split_conf *);

/* Connects. *out is NULL before the first call. AGAIN: *out is set; call again with it. Other errors: *out is NULL.
 * The conf is copied at the first call. */
int split_open(split_middle **out, const split_conf *, int timeout_ms, split_error *e);
/* goodbye 0: the server keeps the session's state; otherwise it may remove it. NULL is fine. A call that waits in
 * another thread returns SPLIT_USAGE first; no thread may use the handle afterwards. */
void split_close(split_middle *, int goodbye);
/* A descriptor to be used only with poll: it is readable when a call that returned SPLIT_AGAIN may go on. */
int split_fd(const split_middle *);

/* The shape of the input, or with `output` of the output. Returns the number of dimensions, 2 to 4. dim[0]: the most
 * rows of a call; if *per_token, the most tokens. The others are those of a row or token. */
int split_shape(const split_middle *, int output, int *per_token, int64_t dim[4]);
/* The number of the graph's inputs, or with `output` of its outputs. _of: the shape of number `field`; returns 0 if
 * there is none. */
int split_fields(const split_middle *, int output);
int split_shape_of(const split_middle *, int output, int field, int *per_token, int64_t dim[4]);

/* Begins a call of 1 to train.batch rows. x: as the graph's input says. lengths: [rows], the tokens of each row, if the
 * middle computes per token; NULL: every row has tokens.row. *call: its number, never 0. Training calls are open until
 * split_step or split_drop, an evaluation until split_output. Several calls may be open at once. */
int split_forward(split_middle *, int training, int64_t rows, const uint32_t *lengths, const float *x, int *call,
		  split_error *e);
int split_output(split_middle *, int call, float *y, int timeout_ms, split_error *e);
/* Once for each call, after split_output; dy has the shape of y. The server adds gradients in the order of these calls,
 * which decides the last bits of the sum. */
int split_backward(split_middle *, int call, const float *dy, split_error *e);
/* dx has the shape of x. SPLIT_USAGE if input_grad is false. */
int split_input_grad(split_middle *, int call, float *dx, int timeout_ms, split_error *e);

/* The same for graphs with several inputs or outputs, in the graph's order: arrays of split_fields pointers. Where a
 * graph has several, the functions above say USAGE. dy: NULL for an output without a gradient, but not for all. dx:
 * NULL for what is not wanted, and for an input that the graph calls `still`, whose gradient is not computed. */
int split_forward_all(split_middle *, int training, int64_t rows, const uint32_t *lengths, const float *const x[],
		      int *call, split_error *e);
int split_output_all(split_middle *, int call, float *const y[], int timeout_ms, split_error *e);
int split_backward_all(split_middle *, int call, const float *const dy[], split_error *e);
int split_input_grad_all(split_middle *, int call, float *const dx[], int timeout_ms, split_error *e);

/* After split_backward: the norm of the middle's gradient so far. */
int split_norm(split_middle *, double *norm, int timeout_ms, split_error *e);
/* The server's optimizer takes a step with the learning rate lr, once all outputs and gradients are there. The gradient
 * is first multiplied by `scale`, 0 < scale ≤ 1. */
int split_step(split_middle *, double lr, double scale, int timeout_ms, split_error *e);
/* Ends the open step or evaluation. A training step counts as done, and nothing of it is applied. If no call is open,
 * nothing happens. */
int split_drop(split_middle *, int timeout_ms, split_error *e);

/* The current value of a parameter, n floats in the graph's layout. Not while a call is open. The first call after a
 * step fetches all parameters. */
int split_weight(split_middle *, const char *param, float *values, size_t n, int timeout_ms, split_error *e);
/* The server stores its state on its disk; the token names that state. *n: the room at `token`, then the token's
 * length. LIMIT: too little room, and *n says how much is needed. Not while a call is open. The server keeps the states
 * of the last two tokens. Whoever has the token can go on with the session: keep it secret. IO: the server has no
 * store. */
int split_keep(split_middle *, void *token, size_t *n, int timeout_ms, split_error *e);
/* Goes back to the step of a token, of this session or another one of the same conf. An open call is forgotten. Tokens
 * of later steps become invalid once a step is taken from there. */
int split_resume(split_middle *, const void *token, size_t n, int timeout_ms, split_error *e);

uint64_t split_step_number(const split_middle *); /* steps done */
int split_statistics(split_middle *, struct split_stats *);
/* The next line of the process's log, cut off at n bytes with its NUL. Returns its length; 0: there is no line. The
 * library keeps the last 64 lines that nobody has taken. */
size_t split_log(char *line, size_t n);

#ifdef __cplusplus
}
#endif
#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#endif
