/* Helpers of tests that modify ONNX files: read one into protobuf-c's form, find its parts by name,
 * import the result. Looking up a part that does not exist fails the test. */
#ifndef SL_TESTS_SUPPORT_ONNX_CHANGE_H
#define SL_TESTS_SUPPORT_ONNX_CHANGE_H

#include "client/model/onnx.h"
#include "proto/onnx.pb-c.h"

Onnx__Model *onnx_read(const char *path); /* the caller frees it */
/* Packs the file and imports it. */
enum sl_err onnx_build(const Onnx__Model *m, const struct sl_model_spec *spec, struct sl_model **out,
		       struct sl_fail *fail);

Onnx__Node *onnx_node(Onnx__Model *m, const char *name);
Onnx__Attribute *onnx_attr(Onnx__Node *n, const char *name);
Onnx__Tensor *onnx_tensor(Onnx__Model *m, const char *name);

void onnx_set(char **text, const char *to);
void onnx_add_attr(Onnx__Node *n, const char *name, int type, const char *s); /* s NULL: without a value */
void onnx_drop_attr(Onnx__Node *n, const char *name);

#endif
