#include "tests/support/onnx_change.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

Onnx__Model *onnx_read(const char *path)
{
	uint8_t *data;
	size_t len;
	struct sl_fail fail;
	Onnx__Model *m;

	assert_int_equal(sl_file_read(path, 1 << 30, &data, &len, &fail), SL_OK);
	m = onnx__model__unpack(NULL, len, data);
	assert_non_null(m);
	free(data);
	return m;
}

enum sl_err onnx_build(const Onnx__Model *m, const struct sl_model_spec *spec, struct sl_model **out,
		       struct sl_fail *fail)
{
	const size_t len = onnx__model__get_packed_size(m);
	uint8_t *bytes = malloc(len);
	struct sl_onnx *onnx;
	enum sl_err err;

	onnx__model__pack(m, bytes);
	err = sl_onnx_parse(&onnx, "dir/x.onnx", (struct sl_bytes){bytes, len}, fail);
	free(bytes);
	if (err)
		return err;
	err = sl_onnx_build(out, onnx, spec, fail);
	sl_onnx_close(onnx);
	return err;
}

Onnx__Node *onnx_node(Onnx__Model *m, const char *name)
{
	for (size_t i = 0; i < m->graph->n_node; i++)
		if (strcmp(m->graph->node[i]->name, name) == 0)
			return m->graph->node[i];
	fail_msg("no node %s", name);
	return NULL;
}

Onnx__Attribute *onnx_attr(Onnx__Node *n, const char *name)
{
	for (size_t i = 0; i < n->n_attribute; i++)
		if (strcmp(n->attribute[i]->name, name) == 0)
			return n->attribute[i];
	fail_msg("no attribute %s", name);
	return NULL;
}

Onnx__Tensor *onnx_tensor(Onnx__Model *m, const char *name)
{
	for (size_t i = 0; i < m->graph->n_initializer; i++)
		if (strcmp(m->graph->initializer[i]->name, name) == 0)
			return m->graph->initializer[i];
	fail_msg("no tensor %s", name);
	return NULL;
}

void onnx_set(char **text, const char *to)
{
	free(*text);
	*text = strdup(to);
}

void onnx_add_attr(Onnx__Node *n, const char *name, int type, const char *s)
{
	Onnx__Attribute *a = malloc(sizeof *a);

	onnx__attribute__init(a);
	a->name = strdup(name);
	a->has_type = true;
	a->type = type;
	if (s) {
		a->has_s = true;
		a->s.data = (uint8_t *)strdup(s);
		a->s.len = strlen(s);
	}
	n->attribute = realloc(n->attribute, (n->n_attribute + 1) * sizeof *n->attribute);
	n->attribute[n->n_attribute++] = a;
}

void onnx_drop_attr(Onnx__Node *n, const char *name)
{
	const Onnx__Attribute *gone = onnx_attr(n, name);
	size_t at = 0;

	while (n->attribute[at] != gone)
		at++;
	onnx__attribute__free_unpacked(n->attribute[at], NULL);
	n->attribute[at] = n->attribute[--n->n_attribute];
}
