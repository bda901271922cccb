/* The tables that ops.def fills, and access to a node's attributes through them. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "common/graph/graph.h"

#define SL_ATTR_ROW(kind, key, type, field, least, most, standard) \
	{SL_OP_##kind, {key, SL_ATTR_##type, offsetof(struct sl_node, field), least, most, standard}},
static const struct {
	enum sl_op_kind kind;
	struct sl_attr attr;
} attr_rows[] = {
#include "common/graph/ops.def"
};
enum { N_ATTR = sizeof attr_rows / sizeof attr_rows[0] };

#define SL_OP_ROW(kind, word, kernel, shape, macs, price, n_in, least_param, params, keeps) \
	{#word, n_in, least_param, 0, params, keeps},
static const struct sl_op_row op_rows[SL_OP_COUNT] = {
#include "common/graph/ops.def"
};

struct sl_op_row sl_op_row(enum sl_op_kind kind)
{
	struct sl_op_row row = op_rows[kind];

	for (const char *at = row.params; *at; row.most_param++) {
		at += strcspn(at, " ");
		at += *at == ' ';
	}
	return row;
}

const char *sl_op_kind_name(enum sl_op_kind kind)
{
	return (unsigned)kind < SL_OP_COUNT ? op_rows[kind].word : "?";
}

int sl_op_saves_inputs(const struct sl_op *op, bool learns)
{
	const bool product = op->kind == SL_OP_LINEAR || op->kind == SL_OP_CONV2D || op->kind == SL_OP_CONVT2D;

	return product && !learns ? 0 : op_rows[op->kind].keeps; /* din needs only the weights and dout */
}

const struct sl_attr *sl_op_attr(enum sl_op_kind kind, int index)
{
	for (int i = 0; i < N_ATTR; i++)
		if (attr_rows[i].kind == kind && index-- == 0)
			return &attr_rows[i].attr;
	return NULL;
}

struct sl_node sl_node_of(enum sl_op_kind kind)
{
	struct sl_node node = {.kind = kind};
	const struct sl_attr *attr;

	for (int i = 0; (attr = sl_op_attr(kind, i)); i++)
		for (int which = 0; which < 1 + (attr->type == SL_ATTR_PAIR); which++)
			(void)!sl_attr_set(&node, attr, which, attr->standard);
	return node;
}

double sl_attr_get(const struct sl_node *node, const struct sl_attr *attr, int which)
{
	const char *at = (const char *)node + attr->offset;
	uint16_t stream;
	float real;
	int whole;

	switch (attr->type) {
	case SL_ATTR_REAL:
		memcpy(&real, at, sizeof real);
		return real;
	case SL_ATTR_FLAG:
		return *(const bool *)at;
	case SL_ATTR_STREAM:
		memcpy(&stream, at, sizeof stream);
		return stream;
	default:
		memcpy(&whole, at + (size_t)which * sizeof whole, sizeof whole);
		return whole;
	}
}

/* The comparison is written so that NaN fails it. */
bool sl_attr_set(struct sl_node *node, const struct sl_attr *attr, int which, double value)
{
	char *at = (char *)node + attr->offset;
	float real;
	int whole;
	uint16_t stream;

	if (!(value >= attr->least && value <= attr->most))
		return false;
	if (attr->type == SL_ATTR_REAL) {
		real = (float)value;
		memcpy(at, &real, sizeof real);
		return true;
	}
	if (value != floor(value))
		return false;
	whole = (int)value;
	stream = (uint16_t)whole;
	switch (attr->type) {
	case SL_ATTR_FLAG:
		*(bool *)at = value != 0;
		break;
	case SL_ATTR_STREAM:
		memcpy(at, &stream, sizeof stream);
		break;
	default:
		memcpy(at + (size_t)which * sizeof whole, &whole, sizeof whole);
	}
	return true;
}

const char *sl_act_name(enum sl_act act)
{
	static const char *const name[SL_ACT_COUNT] = {"none", "relu", "relu6"};

	return (unsigned)act < SL_ACT_COUNT ? name[act] : "?";
}
