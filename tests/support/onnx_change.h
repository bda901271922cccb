/* ONNX files that tests change: a file as protobuf-c has it, its parts by their names, and the network that comes of
 * it. What is not there fails the test. */
#ifndef SL_TESTS_SUPPORT_ONNX_CHANGE_H
#define SL_TESTS_SUPPORT_ONNX_CHANGE_H

#include "client/model/onnx.h"
#include "proto/onnx.pb-c.h"

Onnx__Model *onnx_read(const char *path); /* the caller frees it */
/* The network of the packed file. */
enum sl_err onnx_build(const Onnx__Model *m, const struct sl_model_spec *spec, struct sl_model **out,
		       struct sl_fail *fail);

Onnx__Node *onnx_node(Onnx__Model *m, const char *name);
Onnx__Attribute *onnx_attr(Onnx__Node *n, const char *name);
Onnx__Tensor *onnx_tensor(Onnx__Model *m, const char *name);

void onnx_set(char **text, const char *to);
void onnx_add_attr(Onnx__Node *n, const char *name, int type, const char *s); /* s NULL: without a value */
void onnx_drop_attr(Onnx__Node *n, const char *name);

#endif
