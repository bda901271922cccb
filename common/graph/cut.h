/* A cut divides a model into head | middle | tail. Nodes [0, head_end] are the head, [tail_begin, n_node) the tail.
 * A value that the head makes and the middle reads goes up, with its gradient back. One that the middle makes and the
 * tail reads goes down. One that the head makes and the tail reads stays at home: it never crosses, so a U-Net's skips
 * cost no bytes. The network's inputs never cross. If there is only one, it may stay at home.
 * A cut is legal only if at least one value goes up and one down, and no more than `cut_values`. */
#ifndef SL_GRAPH_CUT_H
#define SL_GRAPH_CUT_H

#include "common/graph/model.h"

enum sl_segment { SL_HEAD, SL_MIDDLE, SL_TAIL, SL_SEGMENT_COUNT };

/* A member of a group has head and tail. Of a vertical group FEATURES has the head of its own input, LABELS the tail,
 * and JOINED the tail and the head of an own input. The server has the middle. */
enum sl_party { SL_PARTY_BOTH, SL_PARTY_FEATURES, SL_PARTY_LABELS, SL_PARTY_JOINED };
static inline bool sl_party_has(enum sl_party party, enum sl_segment segment)
{
	return segment == SL_MIDDLE || party == SL_PARTY_BOTH || party == SL_PARTY_JOINED ||
	       (party == SL_PARTY_FEATURES) == (segment == SL_HEAD);
}

enum { SL_CUT_TEXT = 2 * SL_NAME_MAX + 32 };

/* The cut as users write it in a config; "": not given. */
struct sl_cut_spec {
	char partition[32];
	char head_end[SL_NAME_MAX], tail_begin[SL_NAME_MAX];
	int values; /* most that may go up, and down; 0 counts as 1 */
};

enum { SL_CUT_VALUES = 8 }; /* most that go up, and down */
enum { SL_CUT_HOMES = 7 };  /* with a tail's other inputs at most SL_GRAPH_MOST_FIELDS */

struct sl_cut {
	int n_up, up[SL_CUT_VALUES];     /* head to middle, in order of their nodes; the first is head_value */
	int n_down, down[SL_CUT_VALUES]; /* middle to tail; the first is tail_value */
	int n_home, home[SL_CUT_HOMES];  /* values that stay at home, in order of their nodes; the input is the first */
	int head_end;                    /* last node of the head */
	int tail_begin;                  /* first node of the tail */
	int head_value;                  /* the value that goes to the middle: head_act; head_grad comes back */
	int tail_value;                  /* the value that goes to the tail: mid_act; mid_grad comes back */
	char text[SL_CUT_TEXT]; /* "head_end=features.0 tail_begin=classifier"; two cuts are equal if their texts are */
};

/* Finds the cut from the words that users write; each may be NULL.
 * partition  "A:-B": the first A units | the middle | the last B units; NULL: "1:-1"
 * head_end   path of a unit, of an op or of a module between them, with or without the model's prefix: the head ends
 *            after its last op; overrides A
 * tail_begin the same: the tail begins at its first op; overrides B
 * values     how many may go up, and down
 * CONFIG: there is no such cut, or it is not legal. The sentence names valid ones near it. */
enum sl_err sl_cut_find(struct sl_cut *out, const struct sl_model *model, const char *partition, const char *head_end,
			const char *tail_begin, int values, struct sl_fail *fail) SL_MUST_CHECK;

/* Looks for a cut near this one that sends at most half as much: values of the head stay at home, and head and tail
 * compute at most a twentieth of all MACs more. False: there is none, or the network has too many nodes to look. On
 * success *part is what that cut sends, as a part of what this one sends. */
bool sl_cut_cheaper(const struct sl_cut *cut, const struct sl_model *model, int values, struct sl_cut *out,
		    double *part);

/* What a cut costs: floats of a row that cross, up and down together, and MACs of the forward pass of each part. */
struct sl_cut_price {
	struct sl_cut cut;
	double floats, macs[SL_SEGMENT_COUNT];
};
/* cut_list.c: writes the price of `own`, then cuts that a config can name, at most `most` in all: the client of each
 * computes more than that of the one before it, and at least a twentieth less crosses. No other cut whose parts all
 * have parameters sends less without computing more. `tokens`: of a row. NOMEM. */
enum sl_err sl_cut_list(const struct sl_cut *own, const struct sl_model *model, int values, int64_t tokens,
			struct sl_cut_price *list, int most, int *n) SL_MUST_CHECK;

/* Moves the start of the tail behind the gather with which it begins, so that the middle ends with the gather. CONFIG:
 * the tail does not begin with a gather, or the model's task is not to predict the next token. */
enum sl_err sl_cut_behind_gather(struct sl_cut *cut, const struct sl_model *model, struct sl_fail *fail) SL_MUST_CHECK;

/* Nodes [*first, *end) of a segment. */
void sl_cut_nodes(const struct sl_cut *cut, const struct sl_model *model, enum sl_segment segment, int *first,
		  int *end);
const char *sl_segment_name(enum sl_segment segment); /* "head" … */

#endif
